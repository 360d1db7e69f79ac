"""The tables of tools name what the program offers: to models in docs/tools.md, to clients in docs/clients.md."""

import re
from itertools import product
from typing import Any, get_args

from tests.docs.blocks import ROOT
from understudy.protocol.choices import ApprovalPolicy, SandboxMode
from understudy.servers.mcp.tool_descriptions import CODEX, CODEX_REPLY
from understudy.tools.registry import OfferConditions, offered

NAME = re.compile(r"`([^`]+)`")


def section(page: str, heading: str) -> str:
    text = (ROOT / "docs" / page).read_text()
    return text.partition(f"\n{heading}\n")[2].partition("\n## ")[0]


def cells(text: str) -> list[list[str]]:
    return [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| `")]


def test_tools_md_has_every_tool_with_its_arguments() -> None:
    arguments: dict[str, set[str]] = {}
    for policy, mode in product(get_args(ApprovalPolicy), get_args(SandboxMode)):
        for tool in offered(OfferConditions(policy, mode, with_plan=True, command_seconds=60)):
            arguments.setdefault(tool.name, set()).update(tool.parameters["properties"])
    table = (ROOT / "docs" / "tools.md").read_text().partition("\n## ")[0]
    written = {NAME.findall(row[0])[0]: set(NAME.findall(row[1])) - {"on-request"} for row in cells(table)}
    assert written == arguments


def properties(tool: dict[str, Any]) -> set[str]:
    return set(tool["inputSchema"]["properties"])


def test_clients_md_has_every_argument_of_codex_and_codex_reply() -> None:
    text = section("clients.md", "## Arguments of `codex` and `codex-reply`")
    assert {name for row in cells(text) for name in NAME.findall(row[0])} == properties(CODEX)
    about_reply = text.partition("`codex-reply` takes ")[2].partition(". ")[0]
    assert set(NAME.findall(about_reply)) == properties(CODEX_REPLY)
