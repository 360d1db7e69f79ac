"""Servers on one home that are kept busy, by a pipe and over HTTP alike, and what their callers were told is done."""

from __future__ import annotations

import asyncio
import random
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tests.support.http_server import HttpClient, HttpServer
from understudy.testing import McpProcess, ScriptedModel, ServerDied

Door = Literal["pipe", "http"]
CONFIG = {"approval_policy": "never", "model_providers.mock.stream_max_retries": 1}


@dataclass
class Acknowledged:
    """Of each conversation the prompts and the answers."""

    turns: dict[str, list[tuple[str, str]]] = field(default_factory=dict[str, list[tuple[str, str]]])

    def note(self, result: dict[str, Any], prompt: str) -> None:
        if is_done(result):
            told = result["structuredContent"]
            self.turns.setdefault(told["threadId"], []).append((prompt, told["content"]))


def is_done(result: dict[str, Any]) -> bool:
    return not result.get("isError") and "content" in result.get("structuredContent", {})


class Unanswered(AssertionError):
    """A stream has ended without the answer."""


class BusyServer:
    """One server, whichever door it has."""

    def __init__(self, door: Door, home: Path, work: Path, model: ScriptedModel) -> None:
        self.door = door
        self._home = home
        self._pipe = McpProcess(model.url, cwd=work, home=home, config=CONFIG, check_frames=False)
        self._http = HttpServer(home.parent.parent, model, config=CONFIG)
        self._client: HttpClient | None = None

    async def start(self) -> None:
        """Raises `ServerDied` where it does not start."""
        if self.door == "pipe":
            await self._pipe.start()
            await self._pipe.initialize()
            return
        try:
            await self._http.start()
        except AssertionError as error:
            raise ServerDied(str(error)) from error
        self._client = HttpClient(self._http.port, self._http.token)

    async def use_store(self) -> None:
        """Until then it may not have opened it."""
        await self.call("conversationsList", {})

    @property
    def process(self) -> asyncio.subprocess.Process:
        return self._pipe.process if self.door == "pipe" else self._http.process

    @property
    def stderr(self) -> str:
        return self._pipe.stderr if self.door == "pipe" else self._http.stderr

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer: a result, or what else a client is told. Raises `ServerDied`."""
        if self.door == "pipe":
            return await self._pipe.call_tool(tool, arguments)
        assert self._client is not None
        try:
            response = await self._client.modern("tools/call", {"name": tool, "arguments": arguments})
            messages = await response.messages()
        except (ConnectionError, EOFError, ValueError) as error:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._http.process.wait(), 2)
            if self._http.process.returncode is not None:
                raise ServerDied(self.stderr) from error
            raise
        if not messages:
            raise Unanswered(f"{tool} {arguments} was not answered")
        answer = messages[-1]
        return answer.get("result") or {"isError": True, "refused": answer}

    async def end(self, how: str) -> None:
        """`close`, `terminate` or `kill`."""
        if self.process.returncode is None and how != "kill":
            if self.door == "pipe" and how == "close":
                await self._pipe.child.close()
            else:
                self.process.send_signal(signal.SIGTERM)
                await (self._http.ended() if self.door == "http" else self._pipe.child.exit_code())
        if self.door == "pipe":
            await self._pipe.kill()
        elif self.process.returncode is None:
            await self._http.kill()


class Work:
    """What the callers of one server do: begin, go on with their own and a shared conversation, and read."""

    def __init__(self, server: BusyServer, number: int, shared: str, seed: int, acknowledged: Acknowledged) -> None:
        self._server = server
        self._number = number
        self._shared = shared
        self._random = random.Random(f"{seed}.{number}")
        self._acknowledged = acknowledged
        self._own: str | None = None
        self._calls = 0

    async def call_once(self) -> None:
        """Raises `ServerDied`."""
        self._calls += 1
        prompt = f"{self._number}.{self._calls}"
        match self._random.choice(["shared", "own", "own", "own", "new", "list", "read", "search"]):
            case "shared":
                result = await self._server.call("codex-reply", {"threadId": self._shared, "prompt": prompt})
            case "own" if self._own is not None:
                result = await self._server.call("codex-reply", {"threadId": self._own, "prompt": prompt})
            case "list":
                await self._server.call("conversationsList", {})
                return
            case "search":
                await self._server.call("conversationsSearch", {"query": "to"})
                return
            case "read":
                await self._server.call("codex-reply", {"threadId": self._own or self._shared})
                return
            case _:
                result = await self._server.call("codex", {"prompt": prompt})
                if is_done(result):
                    self._own = result["structuredContent"]["threadId"]
        self._acknowledged.note(result, prompt)
