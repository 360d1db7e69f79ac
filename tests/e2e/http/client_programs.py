"""Official clients over HTTP, each in its own environment, pinned, as a program that plays a scene."""

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.e2e.real_clients import CLIENTS
from tests.support.environments import node_with, python_with
from tests.support.http_server import HttpClient, HttpServer
from understudy.testing.waiting import WAIT_SECONDS

Json = dict[str, Any]
PATIENCE = 12 * WAIT_SECONDS  # these start slowly
PYTHON: dict[str, list[str]] = {
    "python1 legacy": ["mcp==1.30.0"],
    "python2 legacy": ["mcp==2.3.0"],
    "python2 modern": ["mcp==2.3.0"],
    "fastmcp legacy": ["fastmcp==4.1.2"],
    "fastmcp modern": ["fastmcp==4.1.2"],
    "fastmcp-tasks modern": ["fastmcp==4.1.2", "fastmcp-tasks==4.1.2"],  # it has its calls as tasks
    "agents legacy": ["openai-agents==0.24.0", "mcp==1.30.0"],  # it speaks the era of the SDK that it finds
    "agents modern": ["openai-agents==0.24.0"],
}
TYPESCRIPT = {
    "typescript1 legacy": "@modelcontextprotocol/sdk@1.32.2",
    "typescript2 legacy": "@modelcontextprotocol/client@2.4.0",
    "typescript2 modern": "@modelcontextprotocol/client@2.4.0",
}
LINES = [*PYTHON, *TYPESCRIPT]


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
        while (told := await self.next()).get("word") != word:
            assert "word" in told, f"it ended before {word!r}: {told}"

    async def happened(self) -> Json:
        while "word" in (told := await self.next()):
            pass
        return told

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"go on\n")

    async def end(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._errors


async def until_kept(client: HttpClient) -> str:
    """The conversation is on disk. The model may be asked before; a server that is killed then has never had it."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not (found := (await _result(client, "conversationsList"))["structuredContent"]["conversations"]):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return found[0]["conversation_id"]


async def kept_answer(client: HttpClient) -> Json:
    """What somebody who comes back for it is given."""
    return await _result(client, "codex-reply", threadId=await until_kept(client))


async def _result(client: HttpClient, tool: str, **arguments: Any) -> Json:
    response = await client.modern("tools/call", {"name": tool, "arguments": arguments})
    return (await response.messages())[-1]["result"]


def command_of(line: str, task: Json) -> Sequence[str | Path]:
    if line in TYPESCRIPT:
        return ["node", CLIENTS / "typescript_http.mjs", json.dumps(task), node_with(TYPESCRIPT[line])]
    return [python_with(*PYTHON[line]), CLIENTS / "python_http.py", json.dumps(task)]


@asynccontextmanager
async def playing(line: str, scene: str, server: HttpServer, url: str = "", **more: Any) -> AsyncGenerator[Program]:
    name, era = line.split()
    task: Json = {"url": url or server.url, "token": server.token, "line": name, "era": era, "scene": scene, **more}
    env = {**server.home.environment(), "PYTHONPATH": "", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
    process = await asyncio.create_subprocess_exec(*command_of(line, task), env=env, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    program = Program(process)
    try:
        yield program
    finally:
        await program.end()
