"""JavaScript clients as people have them: both lines of the TypeScript SDK, and the MCP Inspector's command line."""

import json
from pathlib import Path

import pytest

from tests.e2e.real_clients import CLIENTS, SCRIPT, TOOLS, run_client, server_task
from tests.e2e.test_clients_python import assert_did_it
from tests.support.environments import node_with
from understudy.testing import ScriptedModel, say

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("line", "package"), [("v1", "@modelcontextprotocol/sdk@1.32.2"), ("v2", "@modelcontextprotocol/client@2.4.0")]
)
async def test_the_typescript_client_approves_a_command_sees_events_and_replies(tmp_path: Path, line: str, package: str) -> None:
    folder = node_with(package)
    async with ScriptedModel(SCRIPT) as model:
        task = server_task(tmp_path, model.url)
        seen = await run_client(["node", CLIENTS / "typescript_sdk.mjs", json.dumps(task), folder, line])
    assert_did_it(seen, task, tmp_path)
    assert seen["events"][:2] == ["session_configured", "task_started"]
    assert seen["events"].count("task_complete") == 2


async def test_the_inspector_finds_no_fault_with_the_tools_and_calls_one(tmp_path: Path) -> None:
    inspector = node_with("@modelcontextprotocol/inspector@2.12.0") / "node_modules" / ".bin" / "mcp-inspector"
    async with ScriptedModel([say("hello")]) as model:
        task = server_task(tmp_path, model.url)
        settings = [part for name, value in task["env"].items() for part in ("-e", f"{name}={value}")]
        server = [inspector, "--cli", *settings, task["command"], *task["args"]]
        listed = await run_client([*server, "--method", "tools/list", "--strict", "--format", "json"])
        called = await run_client(
            [*server, "--method", "tools/call", "--tool-name", "codex", "--tool-args-json", '{"prompt": "x"}', "--format", "json"]
        )
    assert [tool["name"] for tool in listed["result"]["tools"]][:2] == TOOLS
    assert called["result"]["structuredContent"]["content"] == "hello"
