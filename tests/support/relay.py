"""Stands between a client and a server, as a proxy would: holds connections while the server is away, and can cut those it has."""

import asyncio
import re
from collections.abc import Callable
from types import TracebackType
from typing import Self

from understudy.testing.waiting import WAIT_SECONDS


class Relay:
    """Official clients try only twice to come back; how long a server needs to start must not decide a test."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._there = asyncio.Event()
        self._there.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.accepted = 0
        self._passed = bytearray()  # to clients
        self._more_passed = asyncio.Event()

    @property
    def port(self) -> int:
        assert self._server is not None
        return self._server.sockets[0].getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def hold(self) -> None:
        """From now on who comes waits."""
        self._there.clear()

    def release(self) -> None:
        self._there.set()

    def cut(self) -> None:
        """End every connection, as a network that breaks does."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def until_passed(self, pattern: bytes) -> None:
        """The server has said something like this, on whichever connection."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not re.search(pattern, self._passed):
                self._more_passed.clear()
                await self._more_passed.wait()

    def _note(self, data: bytes) -> None:
        self._passed += data
        self._more_passed.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.add(writer)
        try:
            await asyncio.wait_for(self._there.wait(), WAIT_SECONDS)
            other, onward = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers.add(onward)
            try:
                done, left = await asyncio.wait(
                    [asyncio.create_task(_pass_on(reader, onward)), asyncio.create_task(_pass_on(other, writer, self._note))],
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for task in (*done, *left):
                    task.cancel()
            finally:
                self._writers.discard(onward)
                onward.transport.abort()
        except (OSError, TimeoutError):
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def __aenter__(self) -> Self:
        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._accept(reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self._server = await asyncio.start_server(accepted, "127.0.0.1", 0)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=WAIT_SECONDS)
        await asyncio.sleep(0)  # the transports close in the next step of the event loop


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, note: Callable[[bytes], None] | None = None) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
            if note is not None:
                note(data)
    except OSError:
        pass
