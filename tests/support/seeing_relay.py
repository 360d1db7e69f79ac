"""A way to a server that keeps what its clients send. The server may go and come back at its port."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Self


class SeeingRelay:
    def __init__(self, port: int) -> None:
        self._to = port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.seen = bytearray()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            its_reader, its_writer = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.transport.abort()
            return
        self._writers.add(its_writer)
        await asyncio.gather(self._pass(reader, its_writer, self.seen), self._pass(its_reader, writer, bytearray()))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: bytearray) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                kept += data
                writer.write(data)
                await writer.drain()
        writer.transport.abort() if reader.exception() else writer.close()
