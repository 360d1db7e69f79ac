"""What goes over a wire to clients is known in `servers` and `cli` only: the layers below have one vocabulary, that of the log."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from understudy.servers.mcp.tool_table import TOOLS

PACKAGE = Path(__file__).parent.parent / "src" / "understudy"
BELOW = ("store", "policy", "places", "sandbox", "models", "tools", "engine")

METHODS = ("elicitation", "tools/call", "tools/list", "notifications/", "codex/event", "jsonrpc")
TOOL_NAMES = tuple(name for name in TOOLS if name != "codex")  # which is also a folder, `.codex`
SHAPES = ("wire", "events", "thread_in_text", "report")  # keys of the configuration that say how things look to clients


@pytest.mark.parametrize("folder", BELOW)
def test_no_text_below_the_servers_names_a_method_or_a_tool_of_the_protocol(folder: str) -> None:
    named = [f"{place}: {text}" for place, text in texts(folder) if any(word in text for word in METHODS + TOOL_NAMES)]
    assert not named


@pytest.mark.parametrize("folder", BELOW)
def test_nothing_below_the_servers_knows_how_its_records_look_to_clients(folder: str) -> None:
    nodes = [(path, node) for path in sources(folder) for node in ast.walk(ast.parse(path.read_bytes()))]
    imported = [
        f"{path}:{node.lineno}: {node.module}"
        for path, node in nodes
        if isinstance(node, ast.ImportFrom) and node.module in ("understudy.protocol.jsonrpc", "understudy.protocol.events")
    ]
    asked = [
        f"{path}:{node.lineno}: config.{node.attr}"
        for path, node in nodes
        if isinstance(node, ast.Attribute) and node.attr in SHAPES and ast.unparse(node.value).endswith("config")
    ]
    assert not imported + asked


def sources(folder: str) -> list[Path]:
    """`tools/mcp` is left out: there we are a client ourselves, of other servers."""
    found = sorted(path for path in (PACKAGE / folder).rglob("*.py") if PACKAGE / "tools" / "mcp" not in path.parents)
    assert found
    return found


def texts(folder: str) -> Iterator[tuple[str, str]]:
    """Every text in the code, with its place; those that explain the code count as well."""
    for path in sources(folder):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{path}:{node.lineno}", node.value
