"""One run of a server, from start to end: the handshake, requests with a time limit, and a guard in front of the SDK, which would
accept anything.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import Any, Protocol, cast

import anyio
from mcp.shared.dispatcher import CallOptions, DispatchContext
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    CONNECTION_CLOSED,
    METHOD_NOT_FOUND,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from understudy import __version__
from understudy.tools.mcp.reading import MOST_UNANSWERED

_MOST_BITS = 1_000  # of a number


class Guard:
    """Filters both streams of one session. `problem` says why it was ended here, if it was."""

    def __init__(self, read: Any, write: Any) -> None:
        self.problem: str | None = None
        self.read = _Incoming(self, read)
        self.write = _Outgoing(self, write)
        self._unanswered: set[int | str] = set()

    def passes(self, message: JSONRPCMessage) -> bool:
        """Whether the message is passed on. Raises `AnswerUnread`, which ends the session."""
        match message:
            case JSONRPCRequest():
                self._unanswered.add(message.id)
                if len(self._unanswered) > MOST_UNANSWERED:
                    self.problem = "it was ended because it asks and asks and does not read the answers"
                    raise AnswerUnread(self.problem)
            case JSONRPCNotification(method="notifications/cancelled"):
                self._unanswered.discard(cast(int | str, (message.params or {}).get("requestId")))
            case JSONRPCNotification(method="notifications/progress"):
                return not _is_endless(message)
            case _:
                pass
        return True

    def answered(self, message: JSONRPCMessage) -> None:
        if isinstance(message, (JSONRPCResponse, JSONRPCError)) and message.id is not None:
            self._unanswered.discard(message.id)


class AnswerUnread(Exception):
    """The server does not read our answers."""


def _is_endless(message: JSONRPCNotification) -> bool:
    """Whether it reports progress too large for a float, for which the SDK would end the session."""
    return any(isinstance(value, int) and value.bit_length() > _MOST_BITS for value in (message.params or {}).values())


class _Stream:
    def __init__(self, guard: Guard, inner: Any) -> None:
        self._guard = guard
        self._inner = inner

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Any:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)


class _Incoming(_Stream):
    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Any:
        while True:
            item = await self._inner.receive()
            if not isinstance(item, SessionMessage) or self._guard.passes(item.message):
                return item

    def __aiter__(self) -> "_Incoming":
        return self

    async def __anext__(self) -> Any:
        while True:
            item = await self._inner.__anext__()
            if not isinstance(item, SessionMessage) or self._guard.passes(item.message):
                return item


class _Outgoing(_Stream):
    async def send(self, item: SessionMessage, /) -> None:
        await self._inner.send(item)
        self._guard.answered(item.message)


PROTOCOL_VERSION = "2025-11-25"
VERSIONS = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
_LONGEST_TEXT = 2_000
_CLOSE_SECONDS = 3.0

Progress = Callable[[float, float | None, str | None], None]
Heard = Callable[[str, Mapping[str, Any]], None]


class Way(Protocol):
    """Carries messages to a server and back."""

    def streams(self) -> AbstractAsyncContextManager[Any, bool | None] | AsyncGenerator[Any]: ...

    def why_ended(self) -> str: ...


class Refused(Exception):
    """The server answered with an error."""


class Lost(Exception):
    """The server is gone, or could not be reached."""


class NoAnswerInTime(Exception):
    """No answer came in time."""


class OtherServerSession:
    """`heard` is called with what the server sends by itself: notifications, and questions, which are declined."""

    def __init__(self, way: Way, roots: tuple[str, ...], heard: Heard) -> None:
        self._way = way
        self._roots = roots
        self._heard = heard
        self._dispatcher: JSONRPCDispatcher[TransportContext] | None = None
        self._guard: Guard | None = None
        self._headers: dict[str, str] = {}
        self._up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._keep(), name="another MCP server")
        self._calls: set[asyncio.Task[dict[str, Any]]] = set()
        self.capabilities: Mapping[str, Any] = {}
        self.instructions = ""

    @property
    def over(self) -> bool:
        return self._task.done()

    async def start(self, seconds: float) -> None:
        """Raises `Lost`, `NoAnswerInTime` or `Refused`."""
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._up)
                await self._shake_hands()
        except TimeoutError:
            raise NoAnswerInTime(f"timed out after {seconds:g} seconds") from None

    async def _shake_hands(self) -> None:
        params = {
            "protocolVersion": PROTOCOL_VERSION,
            "capabilities": {"elicitation": {}, **({"roots": {"listChanged": False}} if self._roots else {})},
            "clientInfo": {"name": "understudy", "version": __version__},
        }
        answer = await self.request("initialize", params, None)
        version = answer.get("protocolVersion")
        if version not in VERSIONS:
            raise Refused(f"it speaks another version of MCP: {str(version)[:40]!r}")
        self._headers = {"mcp-protocol-version": str(version)}
        capabilities, instructions = answer.get("capabilities"), answer.get("instructions")
        self.capabilities = cast(Mapping[str, Any], capabilities) if isinstance(capabilities, dict) else {}
        self.instructions = instructions if isinstance(instructions, str) else ""
        assert self._dispatcher is not None
        await self._dispatcher.notify("notifications/initialized", None, {"headers": dict(self._headers)})

    async def request(
        self, method: str, params: Mapping[str, Any], seconds: float | None, on_progress: Progress | None = None
    ) -> dict[str, Any]:
        """Raises `Lost`, `NoAnswerInTime` or `Refused`. If we stop waiting, the server is told to cancel; nobody waits for that."""
        if self._dispatcher is None or self.over:
            raise Lost(self.why_over())
        call = asyncio.create_task(self._ask(method, params, on_progress))
        self._calls.add(call)
        call.add_done_callback(self._forget)
        try:
            await asyncio.wait([call], timeout=seconds)
            if not call.done():
                raise NoAnswerInTime(f"timed out awaiting {method} after {round((seconds or 0) * 1000)}ms")
        finally:
            call.cancel()
        return call.result()

    def _forget(self, call: asyncio.Task[dict[str, Any]]) -> None:
        self._calls.discard(call)
        if not call.cancelled():
            call.exception()  # whoever waited has been told, or has left

    async def _ask(self, method: str, params: Mapping[str, Any], on_progress: Progress | None) -> dict[str, Any]:
        options: CallOptions = {"headers": dict(self._headers)} if self._headers else {}
        if method == "initialize":
            options["cancel_on_abandon"] = False
        if on_progress is not None:

            async def pass_on(progress: float, total: float | None, message: str | None) -> None:
                on_progress(progress, total, message)

            options["on_progress"] = pass_on
        assert self._dispatcher is not None
        try:
            return await self._dispatcher.send_raw_request(method, params, options)
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                if error.message == "Connection closed":
                    await asyncio.wait([self._task], timeout=_CLOSE_SECONDS)  # the task knows the reason
                raise Lost(self.why_over()) from None
            if error.message == "Session terminated":
                self._task.cancel()
                raise Lost("the server has ended the session") from None
            text = error.message if error.message != "Server returned an error response" else self._way.why_ended()
            raise Refused(f"Mcp error: {error.code}: {text[:_LONGEST_TEXT]}") from None

    def why_over(self) -> str:
        problem = None if self._guard is None else self._guard.problem
        return problem or self._way.why_ended()[:_LONGEST_TEXT]

    async def close(self) -> None:
        for call in tuple(self._calls):
            call.cancel()
        self._task.cancel()
        await asyncio.wait([self._task], timeout=_CLOSE_SECONDS)

    # -- the task that keeps it

    async def _keep(self) -> None:
        try:
            async with cast("AbstractAsyncContextManager[Any]", self._way.streams()) as (read, write):
                guard = self._guard = Guard(read, write)
                dispatcher = self._dispatcher = JSONRPCDispatcher(guard.read, guard.write)
                async with anyio.create_task_group() as tasks:
                    await tasks.start(dispatcher.run, self._on_request, self._on_notify)
                    if not self._up.done():
                        self._up.set_result(None)
        except Exception:  # `why_ended` says what ended it
            pass
        finally:
            if not self._up.done():
                self._up.set_exception(Lost(self.why_over()))
                self._up.exception()

    async def _on_request(
        self, context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        match method:
            case "ping":
                return {}
            case "roots/list" if self._roots:
                return {"roots": [{"uri": uri} for uri in self._roots]}
            case "elicitation/create":
                self._tell(method, params)
                return {"action": "decline"}
            case _:
                raise MCPError(METHOD_NOT_FOUND, "understudy does not do this for servers")

    async def _on_notify(self, context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None) -> None:
        self._tell(method, params)

    def _tell(self, method: str, params: Mapping[str, Any] | None) -> None:
        with suppress(Exception):  # an error of the listener, which must not end the session
            self._heard(method, params or {})
