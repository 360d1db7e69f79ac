"""Clients of one engine in the test's own process: a dispatcher each, and a sink that keeps what it is given.

For what a client at the end of a pipe cannot show: which request a message belongs to, several callers on one engine, and
handlers of the test's own.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from understudy.engine.engine import Engine
from understudy.protocol.callers import LOCAL, Caller
from understudy.protocol.jsonrpc import RequestId
from understudy.servers.mcp.dispatcher import Dispatcher
from understudy.servers.mcp.handshake import Handshake
from understudy.servers.mcp.tool_table import TOOLS, ClientTool, Offer
from understudy.servers.pipes import read_message
from understudy.store.log import Store
from understudy.store.opening import open_store
from understudy.testing import provider_settings
from understudy.testing.waiting import WAIT_SECONDS, Watched

Json = dict[str, Any]


class KeepingSink:
    """Keeps every message with the request that it belongs to. A test may say that the client has fallen behind."""

    def __init__(self) -> None:
        self.kept: list[tuple[RequestId | None, Json]] = []
        self.watched = Watched()
        self.closed = False
        self.congested = False
        self._to_call: list[Callable[[], None]] = []

    def send(self, message: bytes, related_to: RequestId | None) -> None:
        assert message.endswith(b"\n"), message
        self.kept += [(related_to, json.loads(line)) for line in message.splitlines()]
        self.watched.change()

    answer = send

    def drained(self, callback: Callable[[], None]) -> None:
        self._to_call.append(callback)
        asyncio.get_running_loop().call_soon(self._call)

    def drain(self) -> None:
        self.congested = False
        self._call()

    def _call(self) -> None:
        while self._to_call and not self.congested:
            self._to_call.pop(0)()

    @property
    def messages(self) -> list[Json]:
        return [message for _, message in self.kept]

    def answers_to(self, request_id: RequestId) -> list[Json]:
        return [
            one for one in self.messages if "method" not in one and one["id"] == request_id and type(one["id"]) is type(request_id)
        ]


class Connection:
    """One client, in the name of one caller."""

    def __init__(
        self, engine: Engine, caller: Caller = LOCAL, *, can_be_asked: bool = True, tools: Mapping[str, ClientTool] = TOOLS
    ) -> None:
        self.sink = KeepingSink()
        self.dispatcher = Dispatcher(engine, caller, self.sink, Handshake("2025-06-18", can_be_asked), Offer(tools=tools))
        self._ids = itertools.count(1)

    def say(self, message: Json, sink: KeepingSink | None = None) -> None:
        self.dispatcher.receive(read_message(json.dumps({"jsonrpc": "2.0", **message}).encode()), sink)

    def request(self, method: str, params: object = None, sink: KeepingSink | None = None) -> int:
        request_id = next(self._ids)
        self.say({"id": request_id, "method": method, "params": params}, sink)
        return request_id

    def call(self, tool: str, sink: KeepingSink | None = None, **arguments: Any) -> int:
        return self.request("tools/call", {"name": tool, "arguments": arguments}, sink)

    async def answer(self, request_id: int) -> Json:
        def find() -> Json | None:
            return next(iter(self.sink.answers_to(request_id)), None)

        return await self.sink.watched.until(find, f"the answer to {request_id}")

    async def ask(self, tool: str, **arguments: Any) -> Json:
        """The result of a tool."""
        return (await self.answer(self.call(tool, **arguments)))["result"]

    async def message(self, method: str, count: int = 1) -> Json:
        """The message of that method which is the `count`-th."""

        def find() -> Json | None:
            found = [message for message in self.sink.messages if message.get("method") == method]
            return found[count - 1] if len(found) >= count else None

        return await self.sink.watched.until(find, f"{method}, {count}")


class EngineHere:
    """An engine on a home of its own, and any number of connections to it."""

    def __init__(
        self,
        folder: Path,
        model_url: str = "http://127.0.0.1:9/v1",
        *,
        config: Mapping[str, Any] | None = None,
        open_log: Callable[[Path, asyncio.AbstractEventLoop], Store] = open_store,
    ) -> None:
        home = folder / "home"
        home.mkdir(exist_ok=True)
        settings = provider_settings(model_url) | dict(config or {})
        self._connections: list[Connection] = []
        self.engine = Engine(cli=list(settings.items()), env={**os.environ, "CODEX_HOME": str(home)}, open_log=open_log)

    def connect(self, caller: Caller = LOCAL, **options: Any) -> Connection:
        connection = Connection(self.engine, caller, **options)
        self._connections.append(connection)
        return connection

    async def __aenter__(self) -> EngineHere:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            await self.engine.close()
        for connection in self._connections:
            connection.dispatcher.close()
