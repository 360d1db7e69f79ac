"""Stands between a log and its database, as a network does: goes silent, and cuts connections at the worst moment."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

Cut = Literal["the answer is lost", "it never arrives", "it arrives late"]
NAME = ".s.PGSQL.5432"
COMMIT = b"COMMIT"


class DatabaseProxy:
    """`cut`, once set, is done to the next transaction that writes."""

    def __init__(self, folder: Path, target: Path) -> None:
        self._folder = folder
        self._target = target
        self._server: asyncio.Server | None = None
        self._passes = asyncio.Event()
        self._passes.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._late: list[tuple[bytes, asyncio.StreamWriter, asyncio.StreamReader]] = []
        self.cut: Cut | None = None

    def url(self, direct: str) -> str:
        return direct.replace(f"host={self._target}", f"host={self._folder}")

    def hold(self) -> None:
        """Nothing gets through, and nobody is told."""
        self._passes.clear()

    def release(self) -> None:
        self._passes.set()

    async def __aenter__(self) -> Self:
        self._folder.mkdir(exist_ok=True)
        self._server = await asyncio.start_unix_server(self._accept, self._folder / NAME)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._server is not None
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def deliver_what_is_late(self) -> None:
        """And wait until the database has dealt with it."""
        for data, writer, reader in self._late:
            writer.write(data)
            writer.write_eof()
            while await reader.read(65536):
                pass
            writer.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        other, onward = await asyncio.open_unix_connection(self._target / NAME)
        answers = asyncio.create_task(self._pass_on(other, writer))
        asks = asyncio.create_task(self._ask(reader, onward, other, answers))
        self._tasks.update((asks, answers))
        await asyncio.wait([asks, answers], return_when=asyncio.FIRST_COMPLETED)
        asks.cancel()
        answers.cancel()
        writer.transport.abort()
        if not any(late is onward for _, late, _ in self._late):
            onward.transport.abort()

    async def _ask(
        self,
        reader: asyncio.StreamReader,
        onward: asyncio.StreamWriter,
        other: asyncio.StreamReader,
        answers: asyncio.Task[None],
    ) -> None:
        while data := await reader.read(1 << 20):
            await self._passes.wait()
            if self.cut is not None and COMMIT in data:
                cut, self.cut = self.cut, None
                answers.cancel()
                await asyncio.wait([answers])
                if cut == "the answer is lost":
                    onward.write(data)
                    while COMMIT not in await other.read(1 << 20):  # the tag of what has been done
                        pass
                elif cut == "it arrives late":
                    self._late.append((data, onward, other))
                return
            onward.write(data)
            await onward.drain()

    async def _pass_on(self, other: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await other.read(1 << 20):
            await self._passes.wait()
            writer.write(data)
            await writer.drain()
