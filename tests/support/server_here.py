"""The server in the test's own process, spoken to line by line: for what a child process cannot be given, such as another log."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from understudy.engine.engine import Engine
from understudy.protocol.callers import LOCAL
from understudy.servers.mcp.dispatcher import Dispatcher
from understudy.servers.mcp.handshake import Handshake
from understudy.servers.pipes import PipeSink, read_message
from understudy.store.log import Store
from understudy.store.opening import open_store
from understudy.testing import McpProcess, provider_settings
from understudy.testing.waiting import WAIT_SECONDS


class _Pipe(asyncio.WriteTransport):
    """To the client: whole lines, taken at once."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        super().__init__()
        self._take = take

    def write(self, data: bytes | bytearray | memoryview) -> None:
        for line in bytes(data).splitlines():
            self._take(line)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


class _Input:
    """To the server, in order, each line in a step of its own unless they were written at once."""

    def __init__(self, receive: Callable[[bytes], None]) -> None:
        self._receive = receive

    def write(self, data: bytes) -> None:
        for line in data.splitlines():
            self._receive(line)

    async def drain(self) -> None:
        await asyncio.sleep(0)


class ServerHere(McpProcess):
    def __init__(
        self,
        model_url: str,
        *,
        cwd: Path,
        home: Path,
        config: Mapping[str, Any] | None = None,
        open_log: Callable[[Path, asyncio.AbstractEventLoop], Store] = open_store,
        can_be_asked: bool = True,
    ) -> None:
        super().__init__(model_url, cwd=cwd, home=home, check_frames=False)
        settings = provider_settings(model_url) | {"cwd": None} | dict(config or {})
        settings.pop("cwd")
        home.mkdir(exist_ok=True)
        loop = asyncio.get_running_loop()
        self.engine = Engine(cli=list(settings.items()), env={**os.environ, "CODEX_HOME": str(home)}, open_log=open_log)
        self._ended = False
        sink = PipeSink(loop)
        self.server = Dispatcher(self.engine, LOCAL, sink, Handshake("2025-06-18", can_be_asked))
        sink.attach(_Pipe(self._read_line))
        self._child = cast(Any, _Input(lambda line: self.server.receive(read_message(line))))

    async def __aenter__(self) -> ServerHere:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.end()

    async def end(self) -> None:
        """As at the end of input."""
        if not self._ended:
            self._ended = True
            async with asyncio.timeout(WAIT_SECONDS):
                await self.engine.close()
            self.server.close()
