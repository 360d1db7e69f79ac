"""The folders of the package are layers: each imports only from those before it in the list.

`testing` is beside them: it drives the program from outside, so it imports none of them, and none imports it.
"""

import ast
from pathlib import Path

import pytest

LAYERS = (
    "errors",
    "protocol",
    "places",
    "config",
    "store",
    "policy",
    "sandbox",
    "models",
    "tools",
    "engine",
    "servers",
    "library",
    "bench",
    "cli",
)
BESIDE = "testing"
PACKAGE = Path(__file__).parent.parent / "src" / "understudy"


@pytest.mark.parametrize("layer", LAYERS)
def test_a_folder_imports_only_from_those_before_it(layer: str) -> None:
    above = (*LAYERS[LAYERS.index(layer) + 1 :], BESIDE)
    files = sorted((PACKAGE / layer).rglob("*.py")) or [PACKAGE / f"{layer}.py"]
    wrong = [f"{path}:{line} {name}" for path in files for line, name in _imports(path) if name.split(".")[1] in above]
    assert not wrong, f"{layer} may not import from {', '.join(above)}: {wrong}"


def test_every_folder_of_the_package_has_its_place() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders <= {*LAYERS, BESIDE}


def test_what_others_test_with_needs_nothing_of_the_program() -> None:
    files = sorted((PACKAGE / BESIDE).rglob("*.py"))
    wrong = [f"{path}:{line} {name}" for path in files for line, name in _imports(path) if name.split(".")[1] != BESIDE]
    assert files
    assert not wrong, f"{BESIDE} may not import from the layers: {wrong}"


def _imports(path: Path) -> list[tuple[int, str]]:
    """Every module of ours that the file names, wherever in it; for types only counts as well."""
    place = ("understudy", *path.relative_to(PACKAGE).parent.parts)
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        match node:
            case ast.Import(names=names):
                found += [(node.lineno, alias.name) for alias in names]
            case ast.ImportFrom(module=module, names=names, level=level):
                base = [*place[: len(place) - level + 1]] if level else []
                start = ".".join([*base, *([module] if module else [])])
                found += [(node.lineno, f"{start}.{alias.name}") for alias in names]
            case _:
                pass
    return [(line, name) for line, name in found if name.startswith("understudy.")]
