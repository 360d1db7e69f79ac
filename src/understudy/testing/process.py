"""An MCP server on stdio as a child process, driven from a test: its frames are read in the background and kept.

Every wait has the bound of `waiting`; a server that dies fails every waiter at once, with its stderr.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, cast

from understudy.testing.calls import Call, RpcError, ServerDied
from understudy.testing.child import Child
from understudy.testing.frames import FrameChecker, kind_of
from understudy.testing.home import SERVER_COMMAND, CodexHome
from understudy.testing.model import ScriptedModel
from understudy.testing.questions import Decide, Decision, Question
from understudy.testing.script import Wire
from understudy.testing.waiting import Watched

T = TypeVar("T")

ASKED = "elicitation/create"


class McpProcess:
    """A server in the folder `cwd` with a `CODEX_HOME` of its own, initialised on entry and ended on exit.

    model             what our server asks: a `ScriptedModel`, or the URL of one
    cwd               the server's working directory; without it, a new folder that goes with it
    wire, config      of config.toml: see `CodexHome`
    home              a `CodexHome`, or the path of one, that outlives the process: to start the server again on what it stored
    command           any MCP server; ours by default. `args` go behind it, `env` into its environment
    capabilities      what the client declares; by default that it can be asked questions
    decide            answers every question: a decision, or a function that makes one
    wait_seconds      the bound of every wait
    check_frames      fail on leaving if the server sent a frame that breaks JSON-RPC or MCP
    """

    def __init__(
        self,
        model: ScriptedModel | str | None = None,
        *,
        cwd: Path | None = None,
        wire: Wire = "chat",
        config: Mapping[str, Any] | None = None,
        home: CodexHome | Path | None = None,
        command: Sequence[str] = SERVER_COMMAND,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        protocol_version: str = "2025-06-18",
        capabilities: Mapping[str, Any] | None = None,
        client_info: Mapping[str, Any] | None = None,
        decide: Decide | Decision | None = None,
        initialize: bool = True,
        wait_seconds: float | None = None,
        check_frames: bool = True,
        watched: Watched | None = None,
    ) -> None:
        self._command = [*command, *args]
        self._cwd = cwd
        self._env = env
        self._home = home
        self._model = model
        self._wire: Wire = wire
        self._config = config
        self._version = protocol_version
        self._capabilities: dict[str, Any] = {"elicitation": {}} if capabilities is None else dict(capabilities)
        self._info = dict(client_info or {"name": "test-client", "version": "0"})
        self._decide: Decide | Decision | None = decide
        self._initialize_on_entry = initialize
        self._checker = FrameChecker() if check_frames else None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._child: Child | None = None
        self._watched = watched or Watched(wait_seconds)
        self._next_id = 0
        self._requests_given = 0
        self._responses: dict[str, dict[str, Any]] = {}  # by the id's repr: 1 and "1" are two ids
        self._requests: list[dict[str, Any]] = []
        self._notifications: dict[str, list[dict[str, Any]]] = {}
        self.frames: list[dict[str, Any]] = []  # all that the server has sent, in order
        self.sent: list[dict[str, Any]] = []
        self.server_info: dict[str, Any] = {}  # the result of `initialize`

    @property
    def home(self) -> Path:
        """The server's `CODEX_HOME`."""
        assert self._home is not None, "the server has not been started"
        return self._home.path if isinstance(self._home, CodexHome) else self._home

    @property
    def cwd(self) -> Path:
        """The server's working directory."""
        assert self._cwd is not None, "the server has not been started"
        return self._cwd

    @property
    def child(self) -> Child:
        assert self._child is not None, "the server has not been started"
        return self._child

    @property
    def process(self) -> asyncio.subprocess.Process:
        """The server's process, for its pid and for signals."""
        return self.child.process

    @property
    def stderr(self) -> str:
        """What the server has written to stderr so far."""
        return self.child.stderr

    async def __aenter__(self) -> Self:
        try:
            await self.start()
            if self._initialize_on_entry:
                await self.initialize()
        except BaseException:
            await self._clean_up()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                await self.close()
        finally:
            await self._clean_up()
        if kind is None:
            self.assert_frames_are_right()

    async def _clean_up(self) -> None:
        try:
            if self._child is not None:
                await self._child.kill()
        finally:
            if self._folder:
                self._folder.cleanup()

    @property
    def frame_faults(self) -> list[str]:
        """Violations of JSON-RPC or MCP in the frames received so far."""
        return self._checker.faults if self._checker else []

    def assert_frames_are_right(self) -> None:
        """Fail if a frame so far breaks JSON-RPC or MCP. Leaving the block does this too."""
        if self.frame_faults:
            raise AssertionError("frames that a client may refuse:\n" + "\n".join(self.frame_faults))

    async def start(self) -> None:
        """Start the process without sending anything; entering the block does this and `initialize`."""
        home = self._prepare()
        child = Child(
            self._command,
            cwd=self.cwd,
            env=home.environment(self._env),
            seconds=self._watched.seconds,
            on_line=self._read_line,
            on_end=lambda reason: self._watched.fail(ServerDied(reason)),
        )
        await child.start()
        self._child = child

    def _prepare(self) -> CodexHome:
        if self._home is None or self._cwd is None:
            self._folder = tempfile.TemporaryDirectory(prefix="understudy-testing-")
        if self._cwd is None:
            self._cwd = self._made("project")
        if self._home is None:
            self._home = self._made("user") / ".codex"
        return CodexHome(self.home, self._model, wire=self._wire, config=self._config)

    def _made(self, name: str) -> Path:
        assert self._folder is not None
        made = Path(self._folder.name, name)
        made.mkdir()
        return made

    async def initialize(self) -> dict[str, Any]:
        """The handshake; the server's answer."""
        params = {"protocolVersion": self._version, "capabilities": self._capabilities, "clientInfo": self._info}
        self.server_info = await self.request("initialize", params)
        await self.notify("notifications/initialized")
        return self.server_info

    # to the server

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send a message as it is, and wait until the server can accept more."""
        self._write(message)
        await self.child.drain()

    async def send_raw(self, line: bytes) -> None:
        """Send bytes, which need not be a message."""
        self.child.write(line)
        await self.child.drain()

    def _write(self, message: Mapping[str, Any]) -> None:
        self.sent.append(dict(message))
        if self._checker:
            self._checker.sent(message)
        self.child.write(json.dumps(message).encode() + b"\n")

    def request(self, method: str, params: Mapping[str, Any] | None = None, *, request_id: int | str | None = None) -> Call:
        """Send a request; await the call, now or later, to get the answer."""
        if request_id is None:
            request_id = self._next_id
            self._next_id += 1
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if params is not None:
            message["params"] = params
        self._write(message)
        return Call(request_id, method, self)

    def codex(self, prompt: str, arguments: Mapping[str, Any] | None = None, /, **more: Any) -> Call:
        """Call the tool `codex`, which begins a conversation. `text_of` and `thread_of` read its result."""
        return self.call_tool("codex", {"prompt": prompt, **(arguments or {})}, **more)

    def reply(self, thread: str, prompt: str) -> Call:
        """Call the tool `codex-reply`, which continues a conversation."""
        return self.call_tool("codex-reply", {"threadId": thread, "prompt": prompt})

    def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None, /, *, meta: Any = None, **more: Any) -> Call:
        """Call a tool. Arguments that are no Python names go in `arguments`; `meta` becomes `_meta`."""
        params: dict[str, Any] = {"name": name, "arguments": {**(arguments or {}), **more}}
        if meta is not None:
            params["_meta"] = meta
        return self.request("tools/call", params)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        await self.send({"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params}))

    async def cancel(self, call: Call) -> None:
        """Ask the server to stop working on a call."""
        await self.notify("notifications/cancelled", {"requestId": call.id})

    async def respond(self, request: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Answer a request of the server."""
        await self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    async def respond_error(self, request: Mapping[str, Any], code: int, message: str) -> None:
        """Answer a request of the server with an error."""
        await self.send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}})

    # from the server

    def find_response(self, request_id: int | str) -> dict[str, Any] | None:
        """The frame that answers a request, if it has come."""
        return self._responses.get(repr(request_id))

    async def answer(self, request_id: int | str) -> Any:
        """The result of a request; raises `RpcError` for an error."""
        frame = await self._watched.until(lambda: self.find_response(request_id), f"the answer to request {request_id!r}")
        if "error" in frame:
            raise RpcError(frame["error"])
        return frame["result"]

    async def next_request(self, method: str | None = None) -> dict[str, Any]:
        """The server's next request that was not returned yet."""

        def find() -> dict[str, Any] | None:
            return self._requests[self._requests_given] if len(self._requests) > self._requests_given else None

        request = await self._watched.until(find, f"a request of the server ({method or 'any'})")
        self._requests_given += 1
        if method not in (None, request["method"]):
            raise AssertionError(f"the server asked {request['method']}, not {method}")
        return request

    async def next_question(self) -> Question:
        """The next approval question that was not returned yet."""
        return self._question(await self.next_request(ASKED))

    @property
    def questions(self) -> list[Question]:
        """All approval questions so far, answered or not."""
        return [self._question(request) for request in self._requests if request["method"] == ASKED]

    def _question(self, request: Mapping[str, Any]) -> Question:
        return Question(request, lambda asked, result: self._write({"jsonrpc": "2.0", "id": asked["id"], "result": result}))

    def notifications(self, method: str) -> list[dict[str, Any]]:
        """The notifications of that method so far."""
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
        """The first frame, from `start` on, for which `fits` is true."""

        def find() -> dict[str, Any] | None:
            return next((frame for frame in self.frames[start:] if fits(frame)), None)

        return await self._watched.until(find, wish)

    async def until(self, find: Callable[[], T | None], wish: str, seconds: float | None = None) -> T:
        """What `find` returns, once that is not None; it is called again whenever the server has sent something."""
        return await self._watched.until(find, wish, seconds)

    async def frames_until(self, count: int) -> None:
        """Wait until the server has sent `count` frames."""
        await self._watched.until(lambda: len(self.frames) >= count or None, f"{count} frames")

    # the process

    async def close(self) -> int:
        """End of input; the exit code, once the server has gone. Leaving the block does this too."""
        return await self.child.close()

    async def kill(self) -> None:
        """SIGKILL, like a power failure."""
        await self.child.kill()

    def kill_now(self) -> None:
        """SIGKILL if the server runs, without waiting for the end."""
        if self._child is not None:
            self._child.kill_now()

    async def exit_code(self) -> int:
        """Wait until the server has gone by itself."""
        return await self.child.exit_code()

    def _read_line(self, line: bytes) -> None:
        try:
            frame = json.loads(line)
        except ValueError:
            self._watched.fail(AssertionError(f"the server wrote a line that is not JSON: {line[:500]!r}"))
            return
        if self._checker:
            self._checker.received(frame)
        if isinstance(frame, dict):
            self._file(cast(dict[str, Any], frame))
        self._watched.change()

    def _file(self, frame: dict[str, Any]) -> None:
        self.frames.append(frame)
        match kind_of(frame):
            case "response":
                self._responses.setdefault(repr(frame.get("id")), frame)
            case "request":
                self._requests.append(frame)
                if self._decide is not None and frame["method"] == ASKED:
                    question = self._question(frame)
                    question.decide(self._decide(question) if callable(self._decide) else self._decide)
            case "notification":
                self._notifications.setdefault(frame["method"], []).append(frame)


class StartServer(Protocol):
    """The fixture `mcp_server`: takes what `McpProcess` takes."""

    def __call__(self, model: ScriptedModel | str | None = None, **options: Any) -> McpProcess: ...
