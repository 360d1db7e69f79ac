"""The bill of materials (CycloneDX 1.6): the archives of a release, what the lock says is installed beside them, and other people's
modules that are in the wheel. The same sources and archives give the same bytes."""

import hashlib
import json
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.release.locked import EXTRAS, PACKAGE, Locked, installed_with
from scripts.release.running import ROOT

VENDORED = Path("servers/page/static/vendor/manifest.json")
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://pypi.org/project/understudy-codex/")


def bill_of_materials(version: str, archives: Sequence[Path]) -> str:
    always = {each.name for each in installed_with()}
    beside = installed_with(EXTRAS)
    vendored = [_vendored(each) for each in _manifest()["files"]]
    ours = f"pkg:pypi/{PACKAGE}@{version}"
    refs = {each.name: _purl(each) for each in beside}
    about = {**_component(ours, PACKAGE, version), "type": "application", "licenses": [{"license": {"id": "Apache-2.0"}}]}
    packages = [_package(each, each.name in always) for each in beside]
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, ''.join(digest(archive) for archive in archives))}",
        "version": 1,
        "metadata": {"component": about},
        "components": [*(_file(archive) for archive in archives), *packages, *vendored],
        "dependencies": [
            {"ref": ours, "dependsOn": sorted([*(refs[name] for name in _first(always)), *(each["bom-ref"] for each in vendored)])},
            *({"ref": refs[each.name], "dependsOn": [refs[name] for name in each.needs]} for each in beside),
        ],
    }
    return json.dumps(bill, indent=1) + "\n"


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _first(always: set[str]) -> list[str]:
    """What nobody else among them needs is needed by us."""
    needed = {name for each in installed_with() for name in each.needs}
    return sorted(always - needed)


def _manifest() -> Any:
    return json.loads((ROOT / "src" / "understudy" / VENDORED).read_text())


def _component(ref: str, name: str, version: str) -> dict[str, Any]:
    return {"type": "library", "bom-ref": ref, "name": name, "version": version, "purl": ref}


def _purl(package: Locked) -> str:
    return f"pkg:pypi/{package.name}@{package.version}"


def _package(package: Locked, always: bool) -> dict[str, Any]:
    files = [package.sdist] if package.sdist else package.files  # the lock has the many wheels of each
    known = [{"type": "distribution", "url": url, "hashes": _sha256(sha)} for url, sha in files]
    scope = "required" if always else "optional"
    return {**_component(_purl(package), package.name, package.version), "scope": scope, "externalReferences": known}


def _vendored(module: dict[str, str]) -> dict[str, Any]:
    ref = f"pkg:npm/{module['package']}@{module['version']}"
    named = _component(ref, module["package"], module["version"])
    return {**named, "hashes": _sha256(module["sha256"]), "licenses": [{"expression": module["spdx"]}]}


def _file(archive: Path) -> dict[str, Any]:
    return {"type": "file", "bom-ref": archive.name, "name": archive.name, "hashes": _sha256(digest(archive))}


def _sha256(content: str) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": content}]
