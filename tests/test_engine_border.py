"""Front ends hold handles: what a conversation is made of is the engine's own, and nobody else reads or sets it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import understudy

SOURCE = Path(understudy.__file__).parent
FRONT_ENDS = sorted(path for folder in ("servers", "cli") for path in (SOURCE / folder).rglob("*.py"))

OTHERS = {"parsed", "row"}  # what has a part of that name itself: a parsed expression, a row about a worker
PARTS = {"feed", "state", "followers", "callers", "tail", "broadcast", "waiting", "claim", "letters", "elsewhere", "beginning"}
INSIDE = {
    "beginning",
    "conversation",
    "elsewhere",
    "letters",
    "our_claim",
    "running",
    "shell",
    "stopping",
    "tail",
    "watch",
    *(f"ops.{path.stem}" for path in (SOURCE / "engine" / "ops").glob("*.py")),
}


def touched(tree: ast.Module) -> list[str]:
    """Attributes with the name of a part; a method of that name which is called at once (`splitter.feed(…)`) is none."""
    called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return [
        f"line {node.lineno}: .{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in PARTS and node not in called and not _is_of_another(node)
    ]


def _is_of_another(node: ast.Attribute) -> bool:
    return node.attr == "state" and isinstance(node.value, ast.Name) and node.value.id in OTHERS


def imported(tree: ast.Module) -> list[str]:
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    inside = [name for name in modules if name.startswith(("understudy.engine.conversation.", "understudy.engine.log."))]
    return sorted(name for name in inside if name.rpartition(".")[2] in INSIDE)


@pytest.mark.parametrize("path", FRONT_ENDS, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_front_end_touches_nothing_inside_a_conversation(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert touched(tree) == []
    assert imported(tree) == []


def test_the_check_sees_what_it_is_to_see() -> None:
    tree = ast.parse(
        "from understudy.engine.log.tail import Tail\nx = conversation.state.turn\nconversation.followers = []\nlines.feed(b'')"
    )
    assert sorted(touched(tree)) == ["line 2: .state", "line 3: .followers"]
    assert imported(tree) == ["understudy.engine.log.tail"]
