"""The MCP Inspector's command line over HTTP, in both eras. It makes one call and ends, and answers no questions."""

import asyncio
import json
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.http.client_programs import PATIENCE, kept_answer, until_kept
from tests.e2e.real_clients import TOOLS, run_client
from tests.support.environments import node_with
from tests.support.http_server import HttpServer, serving
from tests.support.relay import Relay
from understudy.testing import HOLD, ScriptedModel, deltas, say

pytestmark = pytest.mark.slow
ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])


def command(server: HttpServer, era: str, *more: str, url: str = "") -> list[str]:
    inspector = node_with("@modelcontextprotocol/inspector@2.12.0") / "node_modules" / ".bin" / "mcp-inspector"
    address = [url or server.url, "--transport", "http", "--header", f"Authorization: Bearer {server.token}", "--protocol-era", era]
    return [str(inspector), "--cli", *address, *more, "--format", "json"]


def calling(tool: str, **arguments: Any) -> list[str]:
    return ["--method", "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments)]


@ERAS
async def test_it_finds_no_fault_with_the_tools_and_calls_one(tmp_path: Path, era: str) -> None:
    async with ScriptedModel([say("hello")]) as model, serving(tmp_path, model) as (server, _):
        env = {"HOME": str(tmp_path)}
        listed = await run_client(command(server, era, "--method", "tools/list", "--strict"), env=env)
        called = await run_client(command(server, era, *calling("codex", prompt="x")), env=env)
    assert [tool["name"] for tool in listed["result"]["tools"]][:2] == TOOLS
    assert called["result"]["structuredContent"]["content"] == "hello"


@ERAS
async def test_it_waits_for_a_call_longer_than_the_pause_between_pings(tmp_path: Path, era: str) -> None:
    async with ScriptedModel([deltas(["so ", 17.0, "long"])]) as model, serving(tmp_path, model) as (server, _):
        called = await run_client(command(server, era, *calling("codex", prompt="x")), env={"HOME": str(tmp_path)})
    assert called["result"]["structuredContent"]["content"] == "so long"


@ERAS
@pytest.mark.parametrize("killed", [False, True], ids=["cut", "killed"])
async def test_a_break_in_the_middle_of_a_call_is_survived(tmp_path: Path, era: str, killed: bool) -> None:
    """In the legacy era it comes back with the id of the last event; in the modern one the call is a task, which it asks about."""
    async with (
        ScriptedModel([deltas(["a", HOLD, "b"])]) as model,
        serving(tmp_path, model) as (server, client),
        Relay(server.port) as relay,
    ):
        env = {**server.home.environment(), "HOME": str(tmp_path)}
        started = command(server, era, *calling("codex", prompt="x"), url=relay.url)
        process = await asyncio.create_subprocess_exec(*started, env=env, stdout=PIPE, stderr=PIPE)
        try:
            await until_kept(client)
            await relay.until_passed(rb"\nid: \w" if era == "legacy" else rb'"taskId"')
            relay.hold()
            if killed:
                await server.kill()
                await server.start()
            else:
                relay.cut()
            model.release()
            relay.release()
            out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if out or era == "legacy":
            assert out, err.decode()
            result = json.loads(out)["result"]
        else:  # the break came while it asked about the task, which it does once a second: it gives up, and the answer is kept
            result = await kept_answer(client)
        assert result["structuredContent"]["content"] == ("Turn interrupted" if killed else "ab")
