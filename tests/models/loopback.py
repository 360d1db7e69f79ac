"""A raw HTTP server on loopback that sends exactly the bytes a test wants, when it wants them, and keeps what it was asked."""

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from understudy.errors import ModelError
from understudy.models.auth import Credentials
from understudy.models.http_model import open_model
from understudy.models.model import Model, ModelEvent, ModelSettings, Prompt, ToolSpec
from understudy.models.providers import Provider, WireApi, built_in_provider
from understudy.net import HttpClient
from understudy.protocol.items import InputText, Item, Message, OutputText, Usage
from understudy.testing.waiting import WAIT_SECONDS

BOUND = WAIT_SECONDS  # any wait in these tests may take

CLOSE = "close"  # the connection ends in good order
RESET = "reset"  # … in bad order
HANG = "hang"  # silence until the other side goes
Action = bytes | float | str  # bytes to send, seconds to pause, or one of the three above


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Loopback:
    """Plays one list of actions per request, in the order in which requests arrive."""

    script: list[Sequence[Action]]
    port: int = 0
    scheme: str = "http"
    requests: list[Request] = field(default_factory=list[Request])
    connections: int = 0
    handlers: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    asked: asyncio.Event = field(default_factory=asyncio.Event)  # a first request is here
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)  # a peer went while the script hung

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/v1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.handlers.add(cast(asyncio.Task[None], asyncio.current_task()))
        try:
            while True:
                self.requests.append(await read_request(reader))
                self.asked.set()
                assert self.script, "the client asked more often than the test expected"
                if not await self._play(self.script.pop(0), reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went, or the test is over
        finally:
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def used_up(self) -> None:
        """A client that gives up soon may be gone before its request has been read here."""
        limit = asyncio.get_running_loop().time() + BOUND
        while self.script:
            assert asyncio.get_running_loop().time() < limit, "the client asked less often than the test expected"
            await asyncio.sleep(0.01)

    async def _play(self, actions: Iterable[Action], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        for action in actions:
            match action:
                case bytes():
                    writer.write(action)
                    await writer.drain()
                case float():
                    await asyncio.sleep(action)
                case "close":
                    return False
                case "reset":
                    sock: socket.socket = writer.get_extra_info("socket")
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    writer.transport.abort()
                    return False
                case _:
                    with suppress(ConnectionError):
                        await reader.read()
                    self.hung_up.set()
                    return False
        return True


async def settle() -> None:
    """Let the loop look at its sockets many times. One long pause would do on a machine that is never busy only."""
    for _ in range(20):
        await asyncio.sleep(0.01)


async def read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Request(method, target, headers, await reader.readexactly(int(headers.get("content-length", 0))))


@asynccontextmanager
async def loopback(
    *script: Sequence[Action], tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncGenerator[Loopback]:
    """The script must be used up, or the test fails."""
    server = Loopback(list(script), scheme="https" if tls else "http")
    listener = await asyncio.start_server(server.serve, host, 0, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
        await server.used_up()
    finally:
        listener.close()
        for task in server.handlers:
            task.cancel()
        await asyncio.gather(*server.handlers, return_exceptions=True)
        await listener.wait_closed()


STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(value: Any) -> bytes:
    data = value if isinstance(value, str) else json.dumps(value)
    return f"data: {data}\n\n".encode()


def stream(*values: Any, done: bool = True) -> list[Action]:
    """A whole SSE answer, one chunk an event."""
    actions: list[Action] = [STREAM_HEAD, *(value if isinstance(value, float) else chunk(event(value)) for value in values)]
    if done:
        actions.append(chunk(b"data: [DONE]\n\n"))
    return [*actions, LAST_CHUNK]


def status(code: int, reason: str, body: str = "", **headers: str) -> list[Action]:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = "\r\n".join([f"HTTP/1.1 {code} {reason}", f"Content-Length: {len(body.encode())}", *lines])
    return [f"{head}\r\n\r\n{body}".encode()]


def delta(finish_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish_reason}]}


def call_delta(index: int | None, call_id: str | None, name: str | None, arguments: str) -> dict[str, Any]:
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    fields: dict[str, Any] = {"function": function, "type": "function"}
    if index is not None:
        fields["index"] = index
    if call_id is not None:
        fields["id"] = call_id
    return fields


def user(text: str) -> Message:
    return Message("user", (InputText(text),))


def said(text: str) -> Message:
    return Message("assistant", (OutputText(text),))


def prompt(*items: Item, tools: Iterable[ToolSpec] = (), conversation: str = "conversation") -> Prompt:
    return Prompt("be brief", items or (user("hi"),), tuple(tools), conversation)


USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
COUNTED = Usage(3, 2, 5)


def built_in(name: str, env: dict[str, str] | None = None) -> Provider:
    provider = built_in_provider(name, env or {})
    assert provider is not None
    return provider


@dataclass
class Opened:
    """A model of the server under test."""

    model: Model
    http: HttpClient

    async def answer(self, asked: Prompt | None = None) -> list[ModelEvent]:
        async with asyncio.timeout(BOUND), self.model.stream(asked or prompt()) as answer:
            return [event async for event in answer]

    async def failing_answer(self, asked: Prompt | None = None) -> tuple[list[ModelEvent], ModelError]:
        """What came, and then the failure."""
        seen: list[ModelEvent] = []
        async with asyncio.timeout(BOUND), self.model.stream(asked or prompt()) as answer:
            try:
                while True:
                    seen.append(await anext(answer))
            except ModelError as failure:
                return seen, failure


@asynccontextmanager
async def opened(
    url: str,
    *,
    wire: WireApi = "chat",
    env: dict[str, str] | None = None,
    home: Path = Path("nowhere"),
    settings: ModelSettings | None = None,
    **fields: Any,
) -> AsyncGenerator[Opened]:
    """A model at `url`; `fields` are the provider's. Without retries, unless it says so."""
    fields.setdefault("request_max_retries", 0)
    provider = Provider("mock", "Mock", url, wire_api=wire, **fields)
    http = HttpClient(env or {}, connect_seconds=BOUND)
    model = open_model(provider, settings or ModelSettings("mock-model"), Credentials(env or {}, home), http)
    try:
        yield Opened(model, http)
    finally:
        await http.aclose()
