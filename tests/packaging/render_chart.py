"""Renders a chart as Helm does, and checks what comes of it: run by an interpreter that has gotpl and kubernetes-validate.

Reads `{"chart", "values", "release", "versions"}`, writes `{"objects", "problems"}`; both JSON.
"""

import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import yaml

jsonschema: Any = importlib.import_module("jsonschema")  # of this script's environment, not of the one that checks its types
kubernetes_validate: Any = importlib.import_module("kubernetes_validate")
helm: Any = importlib.import_module("gotpl.exts.helm")


def merged(under: Any, over: Any) -> Any:
    if not (isinstance(under, dict) and isinstance(over, dict)):
        return over
    below, above = cast(dict[str, Any], under), cast(dict[str, Any], over)
    return {**below, **{name: merged(below[name], value) if name in below else value for name, value in above.items()}}


def render(chart: Path, values: Mapping[str, Any], release: str) -> list[Any]:
    """Objects, in the order of the files. What is wrong with the values, or with a template, is raised."""
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    values = merged(yaml.safe_load((chart / "values.yaml").read_text()), values)
    jsonschema.validate(values, json.loads((chart / "values.schema.json").read_text()))
    base = f"{about['name']}/templates"
    sources = {f"{base}/{path.name}": path.read_text() for path in sorted((chart / "templates").iterdir())}
    shared = {
        "Values": values,
        "Chart": {name[0].upper() + name[1:]: value for name, value in about.items()},
        "Release": {"Name": release, "Namespace": "agents", "Service": "Helm", "Revision": 1, "IsInstall": True},
        "Capabilities": {"KubeVersion": {"Version": "v1.31.0"}},
    }
    contexts = {name: {**shared, "Template": {"Name": name, "BasePath": base}} for name in sources if not name.endswith(".tpl")}
    texts = helm.HelmTemplateEngine.from_sources(sources).render(contexts)
    objects: list[Any] = []
    for name, text in texts.items():
        if name.endswith(".yaml"):
            objects += [found for found in yaml.safe_load_all(text) if found is not None]
    return objects


def problems_of(objects: Sequence[Any], versions: Sequence[str]) -> list[str]:
    found: list[str] = []
    for version in versions:
        for each in objects:
            try:
                kubernetes_validate.validate(each, version, strict=True)
            except Exception as error:
                found.append(f"{version} {each.get('kind')}: {str(error)[:500]}")
    return found


def main() -> None:
    asked = json.load(sys.stdin)
    try:
        objects = render(Path(asked["chart"]), asked["values"], asked["release"])
    except Exception as error:
        json.dump({"objects": [], "problems": [f"{type(error).__name__}: {error}"]}, sys.stdout)
        return
    json.dump({"objects": objects, "problems": problems_of(objects, asked["versions"])}, sys.stdout)


main()
