"""A client of WebSockets that can also send what no client should."""

from __future__ import annotations

import asyncio
import json
import os
import struct
from base64 import b64encode
from collections.abc import Callable
from typing import Any

from understudy.testing.waiting import WAIT_SECONDS

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


class Closed(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(str(code))
        self.code = code


class WebSocketClient:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.status = 0
        self.body = b""
        self._next_id = 0
        self.notices: list[Any] = []
        self.asked: Callable[[Any], Any] | None = None  # what to answer to a request of the server

    @classmethod
    async def connect(cls, address: str, **headers: str) -> WebSocketClient:
        """`status` says whether it was let in."""
        if address.startswith("unix://"):
            reader, writer = await asyncio.open_unix_connection(address.removeprefix("unix://"), limit=1 << 26)
        else:
            host, _, port = address.removeprefix("ws://").rpartition(":")
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), limit=1 << 26)
        client = cls(reader, writer)
        usual = {
            "Host": "localhost",
            "Connection": "keep-alive, Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": b64encode(os.urandom(16)).decode(),
        }
        given = usual | {name.replace("_", "-"): value for name, value in headers.items()}
        writer.write("\r\n".join(["GET / HTTP/1.1", *(f"{name}: {value}" for name, value in given.items()), "", ""]).encode())
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_SECONDS)
        client.status = int(head.split()[1])
        if client.status != 101:
            client.body = await asyncio.wait_for(reader.read(), WAIT_SECONDS)
            client.abort()
        return client

    def abort(self) -> None:
        self._writer.transport.abort()

    def send_frame(self, kind: int, data: bytes, *, final: bool = True, masked: bool = True, more_bits: int = 0) -> None:
        mask = os.urandom(4)
        size = len(data)
        length = struct.pack("!B", 0x80 * masked | size) if size < 126 else struct.pack("!BQ", 0x80 * masked | 127, size)
        body = bytes(byte ^ mask[n % 4] for n, byte in enumerate(data)) if masked else data
        self._writer.write(bytes([0x80 * final | more_bits | kind]) + length + (mask if masked else b"") + body)

    def send(self, message: Any) -> None:
        self.send_frame(TEXT, json.dumps(message).encode())

    async def frame(self) -> tuple[int, bytes]:
        async with asyncio.timeout(WAIT_SECONDS):
            first, second = await self._reader.readexactly(2)
            size = second & 0x7F
            if size >= 126:
                size = int.from_bytes(await self._reader.readexactly(2 if size == 126 else 8), "big")
            return first & 0x0F, await self._reader.readexactly(size)

    async def message(self) -> Any:
        """The next one. Raises `Closed` where the server closes."""
        kind, data = await self.frame()
        if kind == CLOSE:
            raise Closed(int.from_bytes(data[:2], "big"))
        return json.loads(data)

    async def call(self, method: str, **params: Any) -> Any:
        """The result of a request, or its error; what comes before it is kept in `notices`."""
        self._next_id += 1
        self.send({"id": self._next_id, "method": method, "params": params})
        return await self.until(lambda message: message.get("id") == self._next_id and "method" not in message)

    async def until(self, fits: Callable[[Any], bool]) -> Any:
        while not fits(message := await self.message()):
            self.notices.append(message)
            if "id" in message and "method" in message and self.asked is not None:
                self.send({"id": message["id"], "result": self.asked(message)})
        return message

    async def initialize(self) -> Any:
        return await self.call("initialize", clientInfo={"name": "test", "version": "1"})
