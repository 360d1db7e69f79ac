"""The app server over WebSockets, for several clients at once: each text message is one message of the protocol."""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

from understudy.engine.engine import Engine
from understudy.errors import ConfigError
from understudy.protocol.callers import Caller
from understudy.protocol.jsonrpc import read_line
from understudy.servers.app_server import web_socket
from understudy.servers.app_server.dispatcher import Dispatcher
from understudy.servers.app_server.door_keeper import DoorKeeper, Refused
from understudy.servers.app_server.web_socket import BrokenFrames, FrameReader, close_frame, frame
from understudy.servers.pipes import LINES_IN_A_STEP, MOST_BYTES, PipeSink
from understudy.servers.ports import open_ports
from understudy.servers.process.process import Ending, hide_memory, run_server
from understudy.servers.unix_sockets import UnixSocket

HEAD_BYTES = 16 * 1024
HEAD_SECONDS = 10.0
MOST_CLIENTS = 1000
LAST_WORDS_SECONDS = 1.0
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 503: "Service Unavailable"}

Announce = Callable[[str], None]


def run(where: "Where", token_hash: str | None, cli: Sequence[tuple[str, Any]], announce: Announce) -> int:
    """Serve until a signal comes. Returns the exit code. Raises `ConfigError` if it cannot listen."""
    hide_memory()
    return run_server("the app server's protocol over WebSockets", partial(_serve, where, DoorKeeper(token_hash), cli, announce))


class Where(Protocol):
    async def open(self, client: Callable[[], asyncio.Protocol]) -> str:
        """Listen and return the address. Raises `ConfigError`."""
        ...

    def close(self) -> None: ...


class OnPort:
    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._servers: list[asyncio.Server] = []

    async def open(self, client: Callable[[], asyncio.Protocol]) -> str:
        port = self._port
        try:
            for opened in await open_ports(self._host, self._port):
                port = opened.getsockname()[1]
                self._servers.append(await asyncio.get_running_loop().create_server(client, sock=opened))
        except OSError as error:
            raise ConfigError(f"cannot listen on {self._host} port {self._port}: {error.strerror or error}") from None
        return f"ws://{f'[{self._host}]' if ':' in self._host else self._host}:{port}"

    def close(self) -> None:
        for server in self._servers:
            server.close()


class OnSocket:
    def __init__(self, path: Path) -> None:
        self._socket = UnixSocket(path)
        self._server: asyncio.Server | None = None

    async def open(self, client: Callable[[], asyncio.Protocol]) -> str:
        self._server = await asyncio.get_running_loop().create_unix_server(client, sock=self._socket.listening)
        return f"unix://{self._socket.path}"

    def close(self) -> None:
        self._socket.remove()
        if self._server is not None:
            self._server.close()


class _Hall:
    """What all clients share."""

    def __init__(self, engine: Engine, keeper: DoorKeeper) -> None:
        self.engine = engine
        self.keeper = keeper
        self.clients: set[_Client] = set()

    def dispatcher(self, caller: Caller, sink: PipeSink) -> Dispatcher:
        return Dispatcher(self.engine, caller, sink)


async def _serve(where: Where, keeper: DoorKeeper, cli: Sequence[tuple[str, Any]], announce: Announce, ending: Ending) -> int:
    engine = Engine(cli=cli)
    hall = _Hall(engine, keeper)
    try:
        announce(await where.open(lambda: _Client(hall)))
    except ConfigError:
        await engine.close()
        raise
    code = await ending.wait()
    where.close()
    await engine.close()
    clients = tuple(hall.clients)
    for client in clients:
        client.say_goodbye()
    if clients:
        await asyncio.wait([asyncio.ensure_future(client.gone) for client in clients], timeout=LAST_WORDS_SECONDS)
    for client in clients:
        client.abort()
    await asyncio.sleep(0)  # transports close in the next step of the event loop
    return code


class _Frames(asyncio.WriteTransport):
    """The target of a sink: each line leaves as a message."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        lines = bytes(data).split(b"\n")
        self._transport.write(b"".join(frame(web_socket.TEXT, line) for line in lines if line))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()


class _Client(asyncio.Protocol):
    """One connection: first a request, then frames."""

    def __init__(self, hall: _Hall) -> None:
        loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = loop.create_future()
        self._hall = hall
        self._loop = loop
        self._head = b""
        self._frames: FrameReader | None = None  # None: it has not been let in
        self._sink = PipeSink(loop)
        self._dispatcher: Dispatcher | None = None
        self._waiting: deque[web_socket.Message] = deque()
        self._closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop transports don't subclass it
        self._timer = self._loop.call_later(HEAD_SECONDS, self.abort)
        self._hall.clients.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._hall.clients.discard(self)
        self._closing = True
        self._waiting.clear()
        self._sink.close()
        if self._dispatcher is not None:
            self._dispatcher.close()
        if not self.gone.done():
            self.gone.set_result(None)

    def abort(self) -> None:
        self._transport.abort()

    def pause_writing(self) -> None:
        self._sink.pause()

    def resume_writing(self) -> None:
        self._sink.resume()

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if self._frames is None:
            self._head += data
            self._read_head()
            return
        try:
            self._waiting.extend(self._frames.feed(data))
        except BrokenFrames as broken:
            self._finish(broken.code, str(broken))
            return
        self._go_on()

    # -- before the upgrade to a WebSocket

    def _read_head(self) -> None:
        head, end, rest = self._head.partition(b"\r\n\r\n")
        if len(head) > HEAD_BYTES:
            self._answer(400, "the head of the request is too large")
        elif end:
            self._timer.cancel()
            self._head = b""
            try:
                self._let_in(*_parse_head(head))
            except Refused as refused:
                self._answer(refused.status, str(refused))
            else:
                if rest and not self._closing:
                    self.data_received(rest)

    def _let_in(self, method: str, path: str, headers: dict[str, str]) -> None:
        """Raises `Refused`."""
        if "origin" in headers:
            raise Refused(403, "pages may not connect")
        if path in ("/healthz", "/readyz") and method == "GET" and "upgrade" not in headers:
            self._answer(200, "")
            return
        accept = web_socket.accept_key(headers)
        if method != "GET" or accept is None or headers.get("sec-websocket-version") != web_socket.VERSION:
            raise Refused(400, f"this is the app server over WebSockets, version {web_socket.VERSION}: connect with such a client")
        caller = self._hall.keeper.judge(headers, self._transport.get_extra_info("socket"))
        if len(self._hall.clients) > MOST_CLIENTS:
            raise Refused(503, "there are too many clients")
        switched = (
            f"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: {accept}"
        )
        self._transport.write(f"{switched}\r\n\r\n".encode())
        if (connected := self._transport.get_extra_info("socket")) is not None and connected.family != socket.AF_UNIX:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._frames = FrameReader(MOST_BYTES)
        self._dispatcher = self._hall.dispatcher(caller, self._sink)
        self._sink.attach(_Frames(self._transport))

    def _answer(self, status: int, text: str) -> None:
        body = text.encode()
        head = [f"HTTP/1.1 {status} {_REASONS[status]}", "content-type: text/plain; charset=utf-8", f"content-length: {len(body)}"]
        self._transport.write("\r\n".join([*head, "connection: close", "", ""]).encode() + body)
        self._closing = True
        self._transport.close()

    # -- as a WebSocket

    def _go_on(self) -> None:
        """Handle a limited number of messages per step of the event loop. A client that asks and never reads is paused."""
        for _ in range(min(LINES_IN_A_STEP, len(self._waiting))):
            if self._closing:
                return
            self._take(*self._waiting.popleft())
        if self._closing:
            return
        if self._sink.overfull:
            self._transport.pause_reading()
            self._sink.drained(self._resume)
        elif self._waiting:
            self._transport.pause_reading()
            self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        if self._closing:
            return
        self._transport.resume_reading()
        self._go_on()

    def _take(self, kind: int, data: bytes) -> None:
        if kind == web_socket.TEXT and self._dispatcher is not None:
            if line := data.strip():
                self._dispatcher.receive(read_line(line))
        elif kind == web_socket.PING:
            if not self._sink.overfull:
                self._transport.write(frame(web_socket.PONG, data))
        elif kind == web_socket.CLOSE:
            try:
                self._finish(web_socket.code_of(data))
            except BrokenFrames as broken:
                self._finish(broken.code, str(broken))

    def _finish(self, code: int, reason: str = "") -> None:
        self._closing = True
        self._transport.write(close_frame(code, reason))
        self._transport.close()
        self._loop.call_later(LAST_WORDS_SECONDS, self.abort)  # for a client that does not read

    def say_goodbye(self) -> None:
        """The server ends: tell those who still wait."""
        if self._dispatcher is not None and not self._closing:
            self._dispatcher.close()
            self._sink.flush()
            self._finish(web_socket.GOING_AWAY)


def _parse_head(head: bytes) -> tuple[str, str, dict[str, str]]:
    """Method, path and headers. Raises `Refused`."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or words[2] != "HTTP/1.1":
        raise Refused(400, "this is no request of HTTP/1.1")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise Refused(400, "a header is no header")
        value, before = value.strip(" \t"), headers.get(name.lower())
        headers[name.lower()] = value if before is None else f"{before}, {value}"
    return words[0], words[1].partition("?")[0], headers
