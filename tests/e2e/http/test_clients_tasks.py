"""Clients as people have them that know tasks: fastmcp with `fastmcp-tasks`, over HTTP and pipes, and the MCP Inspector."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.real_clients import run_client, run_python_client, server_task
from tests.e2e.scenes import FORBIDDING
from tests.support.environments import node_with, python_with
from tests.support.http_server import serving
from understudy.testing import Script, ScriptedModel, call, hang, say

pytestmark = pytest.mark.slow

SCRIPT: Script = [call("shell", command=["touch", "made.txt"]), say("made it"), say("still there"), hang()]


def assert_did_it(seen: dict[str, Any], cwd: Path) -> None:
    [question] = seen.pop("questions")
    assert "touch made.txt" in question
    assert seen == {"answers": ["made it", "still there"], "states": ["working", "cancelled"], "ids": 2}
    assert (cwd / "made.txt").exists()


def model_of_script() -> ScriptedModel:
    """It need not be asked for all of it: the last task may be cancelled before it has asked anything."""
    answers = iter(SCRIPT)
    return ScriptedModel(lambda _: next(answers))


def fastmcp() -> Path:
    return python_with("fastmcp==4.1.2", "fastmcp-tasks==4.1.2")


async def test_fastmcp_has_its_calls_as_tasks_over_http(tmp_path: Path) -> None:
    python = fastmcp()
    async with model_of_script() as model, serving(tmp_path, model, config=FORBIDDING) as (server, _):
        seen = await run_python_client(python, "fastmcp_tasks_client.py", {"url": server.url, "token": server.token})
    assert_did_it(seen, server.cwd)


async def test_fastmcp_has_its_calls_as_tasks_over_pipes(tmp_path: Path) -> None:
    python = fastmcp()
    async with model_of_script() as model:
        task = server_task(tmp_path, model.url, **FORBIDDING)
        seen = await run_python_client(python, "fastmcp_tasks_client.py", task)
    assert_did_it(seen, Path(task["cwd"]))


async def test_the_inspector_polls_a_task(tmp_path: Path) -> None:
    inspector = node_with("@modelcontextprotocol/inspector@2.12.0") / "node_modules" / ".bin" / "mcp-inspector"
    script = [call("shell", command=["echo", "hi"]), say("hello")]
    async with ScriptedModel(script) as model, serving(tmp_path, model) as (server, _):
        way = ["--cli", server.url, "--transport", "http", "--header", f"Authorization: Bearer {server.token}"]
        asked = ["--method", "tools/call", "--tool-name", "codex", "--tool-args-json", json.dumps({"prompt": "x"})]
        called = await run_client([inspector, *way, "--protocol-era", "modern", *asked, "--format", "json"])
    assert called["result"]["structuredContent"]["content"] == "hello"
    assert "_meta" not in called["result"]  # it is from within a task: what is answered in place says who answers
