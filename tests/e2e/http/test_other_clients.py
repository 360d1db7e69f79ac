"""Official clients other than the Python SDK, over HTTP: TypeScript of both lines and eras, fastmcp, the Agents SDK, the Inspector.

Each in its own environment, pinned. A call with progress and an approval, a reply, a cancel, a long call, a connection that breaks,
a server that is killed in the middle of a call.
"""

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.real_clients import CLIENTS, TOOLS, run_client
from tests.e2e.scenes import FORBIDDING
from tests.support.environments import node_with, python_with
from tests.support.http_server import HttpServer, serving
from tests.support.relay import Relay
from understudy.testing import HOLD, ScriptedModel, call, deltas, hang, say
from understudy.testing.waiting import WAIT_SECONDS

Json = dict[str, Any]
pytestmark = pytest.mark.slow
PATIENCE = 12 * WAIT_SECONDS  # these start slowly
PACKAGES = {"v1": "@modelcontextprotocol/sdk@1.32.2", "v2": "@modelcontextprotocol/client@2.4.0"}
REQUIREMENTS = {"fastmcp": "fastmcp==4.1.2", "agents": "openai-agents==0.24.0"}
LINES = ["v1 legacy", "v2 legacy", "v2 modern", "fastmcp modern", "agents modern"]
EACH = pytest.mark.parametrize("line", LINES)
LEGACY = pytest.mark.parametrize("line", ["v1 legacy", "v2 legacy"])


class Program:
    """A client that runs: what it tells, line by line."""

    def __init__(self, process: Process) -> None:
        self._process = process
        assert process.stderr is not None
        self._errors = asyncio.create_task(process.stderr.read())

    async def next(self) -> Json:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), PATIENCE)
        assert line, (await self._errors).decode()
        return json.loads(line)

    async def until(self, word: str) -> None:
        while (await self.next())["word"] != word:
            pass

    async def happened(self) -> Json:
        while "word" in (told := await self.next()):
            pass
        return told

    def leave(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"leave\n")

    async def end(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._errors


def command_of(line: str, task: Json) -> Sequence[str | Path]:
    name = line.split()[0]
    if name in PACKAGES:
        return ["node", CLIENTS / "typescript_http.mjs", json.dumps(task), node_with(PACKAGES[name])]
    return [python_with(REQUIREMENTS[name]), CLIENTS / "python_http.py", json.dumps(task)]


@asynccontextmanager
async def running(line: str, scene: str, server: HttpServer, url: str = "", **more: Any) -> AsyncGenerator[Program]:
    name, era = line.split()
    task: Json = {"url": url or server.url, "token": server.token, "line": name, "era": era, "scene": scene, **more}
    env = {**server.home.environment(), "PYTHONPATH": "", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
    process = await asyncio.create_subprocess_exec(*command_of(line, task), env=env, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    program = Program(process)
    try:
        yield program
    finally:
        await program.end()


@EACH
async def test_a_call_with_progress_an_approval_and_a_reply(tmp_path: Path, line: str) -> None:
    asks = not line.startswith("agents")
    script = [call("shell", command=["touch", "made.txt"]), say("made it"), say("still there")]
    async with ScriptedModel(script) as model, serving(tmp_path, model, config=FORBIDDING) as (server, _):
        async with running(line, "reply", server) as program:
            happened = await program.happened()
        assert happened["tools"][:2] == TOOLS
        assert happened["answers"] == ["made it", "still there"]
        if asks:  # the Agents SDK cannot be asked, and does not show progress
            assert ["touch made.txt" in question for question in happened["questions"]] == [True]
            assert happened["progress"]
            assert (server.cwd / "made.txt").exists()


@EACH
async def test_a_call_that_is_cancelled_ends_its_turn(tmp_path: Path, line: str) -> None:
    async with (
        ScriptedModel([hang()]) as model,
        serving(tmp_path, model) as (server, _),
        running(line, "cancel", server) as program,
    ):
        await program.until("connected")
        await model.next_request(1)
        program.leave()
        assert await model.outcome(1) == "dropped"
        await program.happened()


@pytest.mark.parametrize("line", ["v1 legacy", "v2 modern", "agents modern"])
async def test_a_call_longer_than_the_pause_between_pings_is_waited_for(tmp_path: Path, line: str) -> None:
    """Nothing comes from the model for a while: pings and progress keep the client calm."""
    async with (
        ScriptedModel([deltas(["so ", 17.0, "long"])]) as model,
        serving(tmp_path, model) as (server, _),
        running(line, "once", server) as program,
    ):
        assert (await program.happened())["answers"] == ["so long"]


async def test_a_client_whose_time_is_over_ends_the_turn(tmp_path: Path) -> None:
    """The Agents SDK gives up after five seconds unless told otherwise, and closes the connection."""
    async with (
        ScriptedModel([hang()]) as model,
        serving(tmp_path, model) as (server, _),
        running("agents modern", "once", server, seconds=2) as program,
    ):
        await program.until("connected")
        await model.next_request(1)
        assert await model.outcome(1) == "dropped"


@LEGACY
@pytest.mark.parametrize("killed", [False, True], ids=["cut", "killed"])
async def test_a_break_in_the_middle_of_a_call_is_not_noticed_by_the_program(tmp_path: Path, line: str, killed: bool) -> None:
    async with (
        ScriptedModel([deltas(["a", HOLD, "b"])]) as model,
        serving(tmp_path, model) as (server, _),
        Relay(server.port) as relay,
        running(line, "once", server, relay.url) as program,
    ):
        await program.until("progress")
        relay.hold()
        if killed:
            await server.kill()
            await server.start()
        else:
            relay.cut()
        model.release()
        relay.release()
        happened = await program.happened()
        assert (happened["answers"], happened["failed"]) == ((["Turn interrupted"], True) if killed else (["ab"], False))


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_inspector_finds_no_fault_with_the_tools_and_calls_one(tmp_path: Path, era: str) -> None:
    inspector = node_with("@modelcontextprotocol/inspector@2.12.0") / "node_modules" / ".bin" / "mcp-inspector"
    async with ScriptedModel([say("hello")]) as model, serving(tmp_path, model) as (server, _):
        address = [server.url, "--transport", "http", "--header", f"Authorization: Bearer {server.token}", "--protocol-era", era]
        start = [inspector, "--cli", *address]
        env = {"HOME": str(tmp_path)}
        listed = await run_client([*start, "--method", "tools/list", "--strict", "--format", "json"], env=env)
        asked = ["--method", "tools/call", "--tool-name", "codex", "--tool-args-json", '{"prompt": "x"}', "--format", "json"]
        called = await run_client([*start, *asked], env=env)
    assert [tool["name"] for tool in listed["result"]["tools"]][:2] == TOOLS
    assert called["result"]["structuredContent"]["content"] == "hello"
