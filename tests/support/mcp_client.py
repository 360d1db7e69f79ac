"""An MCP client for tests: the real server as a child process, its frames read in the background.

Every wait has the bound of `waiting`; a server that dies fails every waiter at once, with its stderr.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.frames import FrameChecker, kind_of
from tests.support.waiting import WAIT_SECONDS, Watched

SERVER_COMMAND = (sys.executable, "-m", "understudy", "mcp-server")
_LARGEST_LINE = 512 * 2**20


class ServerDied(AssertionError):
    pass


class RpcError(Exception):
    """The server answered with a JSON-RPC error."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(f"{error.get('code')} {error.get('message')}")
        self.code = error.get("code")
        self.message = error.get("message")
        self.data = error.get("data")


class Call:
    """A request under way; awaiting it gives the result."""

    def __init__(self, request_id: int | str, method: str, client: McpProcess) -> None:
        self.id = request_id
        self.method = method
        self._client = client

    def __await__(self) -> Generator[Any, None, Any]:
        return self._client.answer(self.id).__await__()

    @property
    def done(self) -> bool:
        return self._client.find_response(self.id) is not None


def write_config(path: Path, settings: Mapping[str, Any]) -> None:
    """A config.toml of dotted keys. JSON spells strings, numbers, booleans and lists of them as TOML does."""
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()))


def provider_settings(model_url: str, wire: str = "chat") -> dict[str, Any]:
    """Settings that make `model_url` the model: full access and no questions, no retries, so that a test says what it needs."""
    provider = "model_providers.mock"
    return {
        "model": "mock-model",
        "model_provider": "mock",
        f"{provider}.name": "Mock provider",
        f"{provider}.base_url": model_url,
        f"{provider}.wire_api": wire,
        f"{provider}.request_max_retries": 0,
        f"{provider}.stream_max_retries": 0,
        "approval_policy": "never",
        "sandbox_mode": "danger-full-access",
    }


class McpProcess:
    """A server in `cwd` with a configuration folder of its own, initialised on entry.

    `config` adds to the settings made for `model_url`. `home` gives a configuration folder that outlives the process.
    """

    def __init__(
        self,
        model_url: str | None = None,
        *,
        cwd: Path,
        wire: str = "chat",
        config: Mapping[str, Any] | None = None,
        home: Path | None = None,
        command: Sequence[str] = SERVER_COMMAND,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        protocol_version: str = "2025-06-18",
        capabilities: Mapping[str, Any] | None = None,
        initialize: bool = True,
        check_frames: bool = True,
        watched: Watched | None = None,
    ) -> None:
        self._command = [*command, *args]
        self._cwd = cwd
        self._env = dict(env or {})
        self._home = home
        self._settings = (provider_settings(model_url, wire) if model_url else {}) | dict(config or {})
        self._version = protocol_version
        self._capabilities: dict[str, Any] = {"elicitation": {}} if capabilities is None else dict(capabilities)
        self._initialize_on_entry = initialize
        self._checker = FrameChecker() if check_frames else None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._readers: list[asyncio.Task[None]] = []
        self._watched = watched or Watched()
        self._stderr = bytearray()
        self._next_id = 0
        self._requests_given = 0
        self._ended_by_us = False
        self._responses: dict[str, dict[str, Any]] = {}  # by the id's repr: 1 and "1" are two ids
        self._requests: list[dict[str, Any]] = []
        self._notifications: dict[str, list[dict[str, Any]]] = {}
        self.frames: list[dict[str, Any]] = []
        self.sent: list[dict[str, Any]] = []
        self.server_info: dict[str, Any] = {}

    @property
    def home(self) -> Path:
        assert self._home is not None, "the client has not been entered"
        return self._home

    @property
    def process(self) -> asyncio.subprocess.Process:
        assert self._process is not None, "the client has not been entered"
        return self._process

    @property
    def stderr(self) -> str:
        return self._stderr.decode(errors="replace")

    async def __aenter__(self) -> Self:
        await self.start()
        if self._initialize_on_entry:
            try:
                await self.initialize()
            except BaseException:
                await self.kill()
                raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                await self.close()
        finally:
            await self.kill()
            if self._folder:
                self._folder.cleanup()
        if kind is None:
            self.assert_frames_are_right()

    @property
    def frame_faults(self) -> list[str]:
        """What is wrong, by JSON-RPC or MCP, with frames received so far."""
        return self._checker.faults if self._checker else []

    def assert_frames_are_right(self) -> None:
        assert not self.frame_faults, "frames that a client may refuse:\n" + "\n".join(self.frame_faults)

    async def start(self) -> None:
        if self._home is None:
            self._folder = tempfile.TemporaryDirectory(prefix="understudy-home-")
            self._home = Path(self._folder.name) / ".codex"
            self._home.mkdir()
        if self._settings:
            write_config(self._home / "config.toml", self._settings)
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            cwd=self._cwd,
            env=self._environment(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LARGEST_LINE,
        )
        self._readers = [asyncio.create_task(self._read_frames()), asyncio.create_task(self._read_stderr())]

    def _environment(self) -> dict[str, str]:
        """Little of our own environment: a test must not depend on keys or proxies that happen to be set."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR", "COVERAGE_PROCESS_START") if name in os.environ}
        kept |= {name: value for name, value in os.environ.items() if name.startswith("UNDERSTUDY_")}
        return {**kept, "HOME": str(self.home.parent), "CODEX_HOME": str(self.home), **self._env}

    async def initialize(self) -> dict[str, Any]:
        info = {"name": "test-client", "version": "0"}
        params = {"protocolVersion": self._version, "capabilities": self._capabilities, "clientInfo": info}
        self.server_info = await self.request("initialize", params)
        await self.notify("notifications/initialized")
        return self.server_info

    # to the server

    async def send(self, message: Mapping[str, Any]) -> None:
        self.sent.append(dict(message))
        if self._checker:
            self._checker.sent(message)
        await self.send_raw(json.dumps(message).encode() + b"\n")

    async def send_raw(self, line: bytes) -> None:
        stdin = self.process.stdin
        assert stdin is not None
        with suppress(ConnectionError):  # a server that died is told to the waiters, with its stderr
            stdin.write(line)
            await stdin.drain()

    def request(self, method: str, params: Mapping[str, Any] | None = None, *, request_id: int | str | None = None) -> Call:
        """Send a request; the answer is there for whoever awaits the call, now or later."""
        if request_id is None:
            request_id = self._next_id
            self._next_id += 1
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if params is not None:
            message["params"] = params
        self.sent.append(message)
        if self._checker:
            self._checker.sent(message)
        stdin = self.process.stdin
        assert stdin is not None
        stdin.write(json.dumps(message).encode() + b"\n")
        return Call(request_id, method, self)

    def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None, /, *, meta: Any = None, **more: Any) -> Call:
        """Call a tool. Arguments that are no Python names go in `arguments`; `meta` becomes `_meta`."""
        params: dict[str, Any] = {"name": name, "arguments": {**(arguments or {}), **more}}
        if meta is not None:
            params["_meta"] = meta
        return self.request("tools/call", params)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        await self.send({"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params}))

    async def cancel(self, call: Call) -> None:
        await self.notify("notifications/cancelled", {"requestId": call.id})

    async def respond(self, request: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        await self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    async def respond_error(self, request: Mapping[str, Any], code: int, message: str) -> None:
        await self.send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}})

    # from the server

    def find_response(self, request_id: int | str) -> dict[str, Any] | None:
        return self._responses.get(repr(request_id))

    async def answer(self, request_id: int | str) -> Any:
        """The result of a request; raises `RpcError` for an error."""
        frame = await self._watched.until(lambda: self.find_response(request_id), f"the answer to request {request_id!r}")
        if "error" in frame:
            raise RpcError(frame["error"])
        return frame["result"]

    async def next_request(self, method: str | None = None) -> dict[str, Any]:
        """The next request of the server that was not handed out yet."""

        def find() -> dict[str, Any] | None:
            return self._requests[self._requests_given] if len(self._requests) > self._requests_given else None

        request = await self._watched.until(find, f"a request of the server ({method or 'any'})")
        self._requests_given += 1
        assert method in (None, request["method"]), f"the server asked {request['method']}, not {method}"
        return request

    def notifications(self, method: str) -> list[dict[str, Any]]:
        return self._notifications.get(method, [])

    async def next_notification(self, method: str, count: int = 1) -> dict[str, Any]:
        """The `count`-th notification (from 1) of that method."""

        def find() -> dict[str, Any] | None:
            found = self.notifications(method)
            return found[count - 1] if len(found) >= count else None

        return await self._watched.until(find, f"notification {count} of {method}")

    def events(self, call: Call | None = None) -> list[dict[str, Any]]:
        """The `msg` of each event so far, of one call or of all."""
        params = [frame["params"] for frame in self.notifications("codex/event")]
        return [one["msg"] for one in params if call is None or one.get("_meta", {}).get("requestId") == call.id]

    async def event(self, kind: str, call: Call | None = None, count: int = 1) -> dict[str, Any]:
        """The `count`-th event (from 1) of that type."""

        def find() -> dict[str, Any] | None:
            found = [event for event in self.events(call) if event["type"] == kind]
            return found[count - 1] if len(found) >= count else None

        return await self._watched.until(find, f"event {count} of type {kind}")

    async def wait_for_frame(self, fits: Callable[[dict[str, Any]], bool], wish: str, start: int = 0) -> dict[str, Any]:
        """The first frame from `start` on that `fits`."""

        def find() -> dict[str, Any] | None:
            return next((frame for frame in self.frames[start:] if fits(frame)), None)

        return await self._watched.until(find, wish)

    async def frames_until(self, count: int) -> None:
        """Wait until the server has sent `count` frames."""
        await self._watched.until(lambda: len(self.frames) >= count or None, f"{count} frames")

    # the process

    async def close(self) -> int:
        """End of input; the exit code, once the server has gone."""
        self._ended_by_us = True
        stdin = self.process.stdin
        assert stdin is not None
        with suppress(ConnectionError):
            stdin.close()
            await stdin.wait_closed()
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await asyncio.wait(self._readers)
                return await self.process.wait()
        except TimeoutError:
            raise AssertionError(f"the server did not go within {WAIT_SECONDS:g} s of the end of input\n{self.stderr}") from None

    async def kill(self) -> None:
        """SIGKILL, as a machine that loses power would."""
        self._ended_by_us = True
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        await asyncio.wait(self._readers, timeout=WAIT_SECONDS)  # a stray grandchild may hold the pipes open
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        transport = getattr(self.process, "_transport", None)
        if transport is not None:
            transport.close()

    async def exit_code(self) -> int:
        async with asyncio.timeout(WAIT_SECONDS):
            return await self.process.wait()

    async def _read_frames(self) -> None:
        stdout = self.process.stdout
        assert stdout is not None
        while line := await stdout.readline():
            try:
                frame = json.loads(line)
            except ValueError:
                self._watched.fail(AssertionError(f"the server wrote a line that is not JSON: {line[:500]!r}"))
                continue
            if self._checker:
                self._checker.received(frame)
            self._file(frame)
            self._watched.change()
        code = await self.process.wait()
        why = "after we ended it" if self._ended_by_us else "by itself"
        self._watched.fail(ServerDied(f"the server went {why}, exit code {code}\n{self.stderr}"))

    def _file(self, frame: dict[str, Any]) -> None:
        self.frames.append(frame)
        match kind_of(frame):
            case "response":
                self._responses.setdefault(repr(frame.get("id")), frame)
            case "request":
                self._requests.append(frame)
            case "notification":
                self._notifications.setdefault(frame["method"], []).append(frame)

    async def _read_stderr(self) -> None:
        stderr = self.process.stderr
        assert stderr is not None
        while data := await stderr.read(2**16):
            self._stderr += data
