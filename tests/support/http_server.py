"""`understudy serve` as a child process, and a client that speaks HTTP by itself, so that nothing is hidden by a library."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from understudy.testing import CodexHome, ScriptedModel
from understudy.testing.waiting import WAIT_SECONDS

Json = dict[str, Any]
LEGACY = "2025-11-25"
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
BOTH = "application/json, text/event-stream"
DRAIN_SECONDS = 5  # that a server gives its turns when it is told to end, unless it is configured otherwise
LAST_WORDS_SECONDS = 5
_open_connections: list[asyncio.StreamWriter] = []  # of clients, until their server is left


class HttpServer:
    """A server on a port of its own choice. `stop` ends it politely, `kill` does not; `start` begins it again, on the same port."""

    def __init__(
        self,
        tmp_path: Path,
        model: ScriptedModel | str | None = None,
        *,
        args: Sequence[str] = (),
        config: Mapping[str, Any] | None = None,
        port_flag: bool = True,
        env: Mapping[str, str] | None = None,
        started_by: Sequence[str] = (),
    ) -> None:
        """`started_by`: a program, with its arguments, that is given the command to run."""
        self._port_flag = port_flag
        self._env = env
        self._started_by = started_by
        self.home = CodexHome(tmp_path / "user" / ".codex", model, config=config)
        self.cwd = tmp_path / "work"
        self.cwd.mkdir(exist_ok=True)
        self._args = args
        self._process: asyncio.subprocess.Process | None = None
        self._errors: asyncio.Task[None] | None = None
        self.port = 0
        self._entered = False  # so that somebody gives the port up in the end
        self._kept: socket.socket | None = None  # has the port while the server is away
        self.said: list[str] = []
        self.stderr = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def token(self) -> str:
        return (self.home.path / "understudy" / "token").read_text().strip()

    @property
    def process(self) -> asyncio.subprocess.Process:
        assert self._process is not None
        return self._process

    async def start(self) -> None:
        flag = ("--port", str(self.port)) if self._port_flag else ()
        command = (*self._started_by, sys.executable, "-m", "understudy", "serve", *flag, *self._args)
        self._process = await asyncio.create_subprocess_exec(
            *command,
            cwd=self.cwd,
            env=self.home.environment(self._env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._errors = asyncio.create_task(self._read_errors(self.process.stderr))
        first = (await asyncio.wait_for(self.process.stdout.readline(), WAIT_SECONDS)).decode()
        if " MCP at " not in first:
            await asyncio.wait([self._errors], timeout=LAST_WORDS_SECONDS)
            raise AssertionError(f"the server did not start: {first}{self.stderr}")
        self.said = [first.strip()]
        port = first.split("://")[1].split("/")[0].rpartition(":")[2]
        self.port = int(port) if port.isdecimal() else 0
        self._give_up_port()

    async def _read_errors(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(1 << 16):
            self.stderr += data.decode(errors="replace")

    async def add_token(self, name: str, *flags: str) -> str:
        """A token of that name, once the server takes it."""
        token = await self.make_token(name, *flags)
        await self.until_status(HttpClient(self.port, token), 400)
        return token

    async def make_token(self, name: str, *flags: str) -> str:
        """A token of that name, which the server may not have heard of yet."""
        command = (sys.executable, "-m", "understudy", "token", "add", name, *flags)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, env=self.home.environment(), stdout=pipe, stderr=pipe)
        out, err = await asyncio.wait_for(process.communicate(), WAIT_SECONDS)
        assert process.returncode == 0, err.decode()
        return out.decode().strip()

    async def revoke_token(self, name: str) -> None:
        command = (sys.executable, "-m", "understudy", "token", "revoke", name)
        process = await asyncio.create_subprocess_exec(*command, env=self.home.environment(), stderr=asyncio.subprocess.DEVNULL)
        assert await asyncio.wait_for(process.wait(), WAIT_SECONDS) == 0

    async def until_status(self, client: HttpClient, status: int) -> None:
        """A request without a session is answered with 400, and without a valid token with 401."""
        async with asyncio.timeout(WAIT_SECONDS):
            while (await client.request("DELETE", {"Mcp-Session-Id": None})).status != status:  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    async def until_told(self, words: str) -> None:
        """Until the server has written this to its log."""
        async with asyncio.timeout(WAIT_SECONDS):
            while words not in self.stderr:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.process.returncode is None:
            self.process.send_signal(number)
        return await self.ended()

    async def ended(self) -> int:
        """The exit code, once it has gone."""
        code = await asyncio.wait_for(self.process.wait(), DRAIN_SECONDS + WAIT_SECONDS)
        if self.port and self._entered:
            self._keep_port()
        if self._errors is not None:
            await asyncio.wait([self._errors], timeout=LAST_WORDS_SECONDS)  # a grandchild may hold it open for longer
            self._errors.cancel()
        return code

    def _keep_port(self) -> None:
        """Or a server of another test could be given it before this one is started again. Only who names it gets it now."""
        self._give_up_port()
        self._kept = socket.socket()
        self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # it does not listen, so the server may bind it too
        with suppress(OSError):  # another server of this test has it
            self._kept.bind(("127.0.0.1", self.port))

    def _give_up_port(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    async def kill(self) -> None:
        await self.stop(signal.SIGKILL)

    async def __aenter__(self) -> Self:
        self._entered = True
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._entered = False
        for writer in _open_connections:
            writer.transport.abort()
        _open_connections.clear()
        await asyncio.sleep(0)  # the transports close in the next step of the event loop
        if self.process.returncode is None:
            await self.stop(signal.SIGTERM if kind is None else signal.SIGKILL)
        self._give_up_port()
        assert "Traceback" not in self.stderr, self.stderr
        assert "bug" not in self.stderr, self.stderr


class Response:
    """An answer, of which the body is read as it comes."""

    def __init__(self, status: int, headers: dict[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.status = status
        self.headers = headers
        self._reader = reader
        self._writer = writer
        self._buffer = b""
        self._over = False

    @property
    def is_stream(self) -> bool:
        return self.headers.get("content-type") == "text/event-stream"

    async def body(self) -> bytes:
        """All of it."""
        if "content-length" in self.headers:
            body = await asyncio.wait_for(self._reader.readexactly(int(self.headers["content-length"])), WAIT_SECONDS)
            self._writer.close()
            return body
        while await self._more():
            pass
        return self._buffer

    async def json(self) -> Any:
        return json.loads(await self.body())

    async def _more(self) -> bool:
        """Another chunk; False at the end."""
        if self._over:
            return False
        size = int((await asyncio.wait_for(self._reader.readline(), WAIT_SECONDS)) or b"0", 16)
        data = await asyncio.wait_for(self._reader.readexactly(size + 2), WAIT_SECONDS)
        self._buffer += data[:-2]
        self._over = size == 0
        if self._over:
            self._writer.close()
        return not self._over

    async def events(self) -> AsyncIterator[Json]:
        """The events of a stream, as their fields; `data` parsed where there is some. Comments are left out."""
        while True:
            while b"\r\n\r\n" not in self._buffer:
                if not await self._more():
                    return
            raw, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
            fields: Json = {}
            for line in raw.decode().split("\r\n"):
                name, _, value = line.partition(":")
                if name:
                    fields[name] = value.removeprefix(" ")
            if fields:
                if fields.get("data"):
                    fields["data"] = json.loads(fields["data"])
                yield fields

    async def messages(self) -> list[Json]:
        """The messages of a stream up to its end, or of an answer in JSON."""
        if not self.is_stream:
            return [await self.json()]
        return [event["data"] async for event in self.events() if event.get("data")]

    def close(self) -> None:
        """Cut the connection."""
        self._writer.transport.abort()


class HttpClient:
    """Requests with a token, each on a connection of its own."""

    def __init__(self, port: int, token: str | None) -> None:
        self.port = port
        self.token = token
        self.session: str | None = None
        self._next_id = 0

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 26)

    async def raw(self, data: bytes) -> Response:
        reader, writer = await asyncio.wait_for(self.connect(), WAIT_SECONDS)
        if len(_open_connections) > 1000:  # tests that run for long
            _open_connections[:] = [each for each in _open_connections if not each.transport.is_closing()]
        _open_connections.append(writer)
        try:
            writer.write(data)
            await writer.drain()
            status_line = await asyncio.wait_for(reader.readline(), WAIT_SECONDS)
            if not status_line:
                raise ConnectionError("the server closed the connection")
            headers: dict[str, str] = {}
            while (line := (await asyncio.wait_for(reader.readline(), WAIT_SECONDS)).strip()) != b"":
                name, _, value = line.decode("latin-1").partition(":")
                headers[name.lower()] = value.strip()
        except BaseException:
            writer.transport.abort()  # nobody else knows of it, and tests that run for long would run out of descriptors
            raise
        return Response(int(status_line.split()[1]), headers, reader, writer)

    async def request(
        self, method: str, headers: Mapping[str, str | None] | None = None, body: bytes = b"", path: str = "/mcp"
    ) -> Response:
        """`headers` replace those that are usual; None leaves one out."""
        usual: dict[str, str | None] = {
            "Host": f"127.0.0.1:{self.port}",
            "Authorization": None if self.token is None else f"Bearer {self.token}",
            "Accept": BOTH,
            "Content-Type": "application/json" if method == "POST" else None,
            "Content-Length": str(len(body)) if method == "POST" else None,
        }
        lines = [f"{name}: {value}" for name, value in (usual | dict(headers or {})).items() if value is not None]
        head = "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""])
        return await self.raw(head.encode("latin-1") + body)

    # -- with a session

    def session_headers(self) -> dict[str, str | None]:
        return {} if self.session is None else {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": LEGACY}

    async def initialize(self, version: str = LEGACY, capabilities: Json | None = None) -> Json:
        declared: Json = {"elicitation": {}} if capabilities is None else capabilities
        info = {"name": "raw", "version": "0"}
        params = {"protocolVersion": version, "capabilities": declared, "clientInfo": info}
        response = await self.post("initialize", params)
        assert response.status == 200, await response.body()
        self.session = response.headers["mcp-session-id"]
        assert (await self.notify("notifications/initialized")).status == 202
        return (await response.json())["result"]

    async def post(self, method: str, params: Json | None = None, request_id: int | str | None = None, **headers: str) -> Response:
        if request_id is None:
            self._next_id += 1
            request_id = self._next_id
        message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}}
        return await self.send(message, **headers)

    async def notify(self, method: str, params: Json | None = None) -> Response:
        return await self.send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    async def send(self, message: Any, **headers: str) -> Response:
        return await self.request("POST", {**self.session_headers(), **headers}, json.dumps(message).encode())

    async def call(self, tool: str, arguments: Json, *, progress: int | str | None = None) -> Response:
        meta = {} if progress is None else {"_meta": {"progressToken": progress}}
        return await self.post("tools/call", {"name": tool, "arguments": arguments, **meta})

    async def result(self, tool: str, arguments: Json) -> Json:
        messages = await (await self.call(tool, arguments)).messages()
        return messages[-1]["result"]

    async def listen(self, last_event_id: str | None = None) -> Response:
        more = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
        return await self.request("GET", {**self.session_headers(), **more})

    # -- without one

    async def modern(
        self, method: str, params: Json | None = None, headers: Mapping[str, str | None] | None = None, **more: Any
    ) -> Response:
        """A request of the era 2026-07-28. `more`: `capabilities`, `meta` (replaces members, None leaves one out)."""
        self._next_id += 1
        meta: Json = {
            f"{META}protocolVersion": MODERN,
            f"{META}clientCapabilities": more.get("capabilities", {}),
            f"{META}clientInfo": {"name": "raw", "version": "0"},
        } | more.get("meta", {})
        given = {**(params or {}), "_meta": {name: value for name, value in meta.items() if value is not None}}
        named = {"Mcp-Name": str(given["name"])} if method == "tools/call" else {}
        usual = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, **named}
        message = {"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": given}
        return await self.request("POST", usual | dict(headers or {}), json.dumps(message).encode())


@asynccontextmanager
async def serving(
    tmp_path: Path, model: ScriptedModel | str | None = None, *args: str, config: Mapping[str, Any] | None = None
) -> AsyncGenerator[tuple[HttpServer, HttpClient]]:
    """A server and a client with its first token."""
    async with HttpServer(tmp_path, model, args=args, config=config) as server:
        yield server, HttpClient(server.port, server.token)
