"""The folders of the package are layers, and the rooms inside the large ones are too: each imports only from those before it.

All imports count, those inside functions and those for types as well. `testing` is beside the layers: it drives the program from
outside, so it imports none of them, and none imports it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

LAYERS = (
    "errors",
    "protocol",
    "net",
    "places",
    "config",
    "text",
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

# Rooms and files in the order in which they build on each other. What is named nowhere belongs to the folder's own entry, "".
ROOMS = {
    "engine": (
        "steps",
        "turn.accounts",
        "planning",
        "services.observing",
        "services.turns_at_work",
        "log",
        "workspaces",
        "services.notifying",
        "services.question_news",
        "compaction.provider_window",
        "compaction.limits",
        "hooks",
        "setup.turn_setup",
        "viewers",
        "turn.other_servers",
        "turn.approvals",
        "compaction",
        "turn",
        "activity",
        "setup",
        "ops",
        "conversation",
        "services.searching",
        "",
        "services",
        "roles",
    ),
    "servers": (
        "process",
        "",
        "wire_events",
        "mcp",
        "stdio",
        "acp",
        "app_server",
        "proto",
        "http",
        "sharing",
        "items",
        "mcp_http",
        "page",
        "rest",
        "serve",
    ),
    "cli": (
        "parsing",
        "arguments",
        "",
        "tell",
        "greeting",
        "conversations",
        "running",
        "exec",
        "configuration",
        "doctor",
        "serving",
        "chat",
        "demo",
        "commands",
        "completion",
        "main",
    ),
}
# What still goes against the order, and may only become less.
BACKWARDS: dict[str, set[tuple[str, str]]] = {
    "engine": {
        ("ops", ""),
        ("ops", "conversation"),
        ("planning", "log"),
        ("setup.turn_setup", "turn.other_servers"),
        ("viewers", "conversation"),
    },
    "servers": {("app_server", "rest"), ("items", "rest")},
}
PACKAGE = Path(__file__).parent.parent / "src" / "understudy"


@pytest.mark.parametrize("layer", LAYERS)
def test_a_folder_imports_only_from_those_before_it(layer: str) -> None:
    above = (*LAYERS[LAYERS.index(layer) + 1 :], BESIDE)
    files = sorted((PACKAGE / layer).rglob("*.py")) or [PACKAGE / f"{layer}.py"]
    wrong = [f"{path}:{line} {name}" for path in files for line, name in _imports(path) if name.split(".")[1] in above]
    assert not wrong, f"{layer} may not import from {', '.join(above)}: {wrong}"


@pytest.mark.parametrize("folder", ROOMS)
def test_a_room_imports_only_from_those_before_it(folder: str) -> None:
    rooms = ROOMS[folder]
    wrong = {
        (room, other): f"{module} imports {name}"
        for module, name in _inner_imports(folder)
        for room, other in [(_room(module, rooms), _room(name, rooms))]
        if rooms.index(other) > rooms.index(room)
    }
    new = {pair: example for pair, example in wrong.items() if pair not in BACKWARDS.get(folder, set())}
    assert not new, f"against the order of {folder}: {new}"
    assert set(wrong) == BACKWARDS.get(folder, set()), "an exception that is needed no more goes out of BACKWARDS"


@pytest.mark.parametrize("folder", ROOMS)
def test_every_room_has_its_place(folder: str) -> None:
    named = {room.split(".")[0] for room in ROOMS[folder]}
    rooms = {path.parent.name for path in (PACKAGE / folder).glob("*/__init__.py")}
    assert rooms <= named
    gone = [room for room in ROOMS[folder] if room and not _is_there(PACKAGE / folder / room.replace(".", "/"))]
    assert not gone


def test_every_folder_of_the_package_has_its_place() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders <= {*LAYERS, BESIDE}


def test_what_others_test_with_needs_nothing_of_the_program() -> None:
    files = sorted((PACKAGE / BESIDE).rglob("*.py"))
    wrong = [f"{path}:{line} {name}" for path in files for line, name in _imports(path) if name.split(".")[1] != BESIDE]
    assert files
    assert not wrong, f"{BESIDE} may not import from the layers: {wrong}"


def _is_there(place: Path) -> bool:
    return place.with_suffix(".py").exists() or (place / "__init__.py").exists()


def _room(name: str, rooms: tuple[str, ...]) -> str:
    """The longest entry that a dotted name within the folder begins with."""
    parts = name.split(".")
    starts = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return next((start for start in starts if start in rooms), "")


def _inner_imports(folder: str) -> Iterator[tuple[str, str]]:
    """Modules of the folder and what they import from it, as dotted names within it."""
    start = f"understudy.{folder}."
    for path in sorted((PACKAGE / folder).rglob("*.py")):
        if path.name == "__init__.py":
            continue
        module = ".".join(path.relative_to(PACKAGE / folder).with_suffix("").parts)
        for _, name in _imports(path):
            if name.startswith(start):
                yield module, name.removeprefix(start)


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
