"""Stands before a model as gateways and buffering proxies do: it takes the whole answer, and passes it on in a form of its own."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import NamedTuple, Self

import h11

Headers = dict[bytes, bytes]
Form = Callable[["Whole"], Iterator[bytes]]


class Whole(NamedTuple):
    """An answer of the model's, to be passed on."""

    status: int
    headers: Headers  # but for those that say how long the body is
    body: bytes


def head(whole: Whole, *more: bytes, version: bytes = b"1.1") -> bytes:
    lines = [b"HTTP/%b %d X" % (version, whole.status), *(b"%b: %b" % row for row in whole.headers.items()), *more]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def chunked(pieces: Iterator[bytes] | list[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        if piece:
            yield b"%x\r\n%b\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


def cut(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


def gzipped(pieces: list[bytes], *, form: int = zlib.MAX_WBITS | 16) -> list[bytes]:
    packing = zlib.compressobj(wbits=form)
    return [packing.compress(piece) + packing.flush(zlib.Z_SYNC_FLUSH) for piece in pieces] + [packing.flush()]


class Gateway:
    """A connection for each request, on both sides. `form` says how an answer is passed on."""

    def __init__(self, to: int, form: Form) -> None:
        self._to = to
        self._form = form
        self.requests = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked = await reader.readuntil(b"\r\n\r\n")
            [length] = [int(line.split(b":")[1]) for line in asked.split(b"\r\n") if line.lower().startswith(b"content-length:")]
            whole = await self._ask(asked + await reader.readexactly(length))
            self.requests += 1
            for piece in self._form(whole):
                writer.write(piece)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _ask(self, request: bytes) -> Whole:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._to)
        writer.write(request)
        answer = h11.Connection(h11.CLIENT)
        answer.send(h11.Request(method="POST", target="/", headers=[("host", "x")]))
        answer.send(h11.EndOfMessage())
        status, headers, body = 0, Headers(), b""
        while not isinstance(event := answer.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                answer.receive_data(await reader.read(1 << 16))
            elif isinstance(event, h11.Response):
                lengths = (b"content-length", b"transfer-encoding", b"connection")
                status, headers = event.status_code, {name: value for name, value in event.headers if name not in lengths}
            elif isinstance(event, h11.Data):
                body += event.data
        writer.close()
        return Whole(status, headers, body)
