"""One request of a client, from its arrival to its one answer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.engine.log.durable import Durable
from understudy.errors import AgentError
from understudy.protocol.callers import Caller
from understudy.protocol.ids import ConversationId
from understudy.protocol.jsonrpc import RequestId, result_line
from understudy.servers.failures import to_rpc_error
from understudy.servers.in_order import InOrder
from understudy.servers.mcp.peer import Peer
from understudy.servers.sink import Sink

if TYPE_CHECKING:
    from understudy.servers.mcp.call_viewer import CallViewer
    from understudy.servers.mcp.progress import Progress
    from understudy.servers.mcp.rounds import AskedAgain
    from understudy.servers.mcp.stream_viewer import Snapshots, StreamViewer
    from understudy.servers.mcp.task_board import TaskBoard
    from understudy.servers.wire_events.presentation import Presentation

logger = logging.getLogger(__name__)

SERVER_ENDED = "the server ended before this was done"


class AnswerShape(Protocol):
    """How what a handler returned or raised is written on the wire."""

    def succeeded(self, request_id: RequestId, result: Any) -> bytes: ...

    def failed(self, request_id: RequestId, error: BaseException) -> bytes: ...


class _MethodShape:
    """A method's result is what its handler returned; an error is a JSON-RPC error."""

    def succeeded(self, request_id: RequestId, result: Any) -> bytes:
        return result_line(request_id, result)

    def failed(self, request_id: RequestId, error: BaseException) -> bytes:
        return to_rpc_error(request_id, error)


METHOD_SHAPE: Final = _MethodShape()


class Later:
    """What a handler returns when somebody else answers the call: the viewer that waits for the end of a turn."""


LATER: Final = Later()


class OnceDurable(msgspec.Struct, frozen=True):
    """What a handler returns when its result holds only once the log has what it was given."""

    durable: Durable
    result: Any


class MakeViewer(Protocol):
    """Makes whoever watches the turn of a call, and answers it."""

    def __call__(
        self, call: "Call", handle: Handle, presentation: "Presentation", progress: "Progress | None", *, created: bool = False
    ) -> "CallViewer": ...


class ClientContext:
    """What the calls of one client have in common."""

    def __init__(self, engine: Engine, caller: Caller, peer: Peer, sink: Sink) -> None:
        self.engine = engine
        self.caller = caller  # in whose name the client speaks
        self.peer = peer
        self.sink = sink  # for what belongs to several requests
        self.call_viewer: MakeViewer | None = None  # where a transport needs more of it than the plain one
        self.stream_viewer: Callable[..., StreamViewer] | None = None  # likewise
        self.streams_answer_at_end = False  # the era has no way to a client beside its open requests
        self.capabilities: Mapping[str, Any] = {}  # what a client of that era declared with its request
        self.asked: AskedAgain | None = None  # what a call of a tool said there of rounds before it
        self.board: TaskBoard | None = None  # the tasks of its server, in that era
        self.loop = asyncio.get_running_loop()
        self.created_by: dict[ConversationId, RequestId] = {}  # which of its requests made a conversation
        self.streams: dict[ConversationId, StreamViewer] = {}  # one for each conversation it watches
        self.snapshots: Snapshots | None = None
        self._order = InOrder()

    async def find(self, conversation_id: ConversationId, *, to_send: bool = False) -> Handle:
        """Requests about one conversation get on from here in the order in which the client sent them, however long the log
        takes for each; a handler that submits an op does so without waiting for anything else before it.

        Raises `UnknownConversation`, also where the caller may not read it.
        """
        if (behind_others := self._order.enter(conversation_id)) is not None:
            await behind_others
        try:
            return await self.engine.find(self.caller, conversation_id, to_send=to_send)
        finally:
            self._order.leave(conversation_id)


class Call:
    """A request that is being served. The first answer counts; a second one is dropped."""

    __slots__ = (
        "_on_answered",
        "_on_cancelled",
        "answered",
        "arguments",
        "cancelled",
        "client",
        "id",
        "lasts",
        "progress_token",
        "result_at_end",
        "shape",
        "sink",
    )

    def __init__(self, request_id: RequestId, arguments: Any, sink: Sink, client: ClientContext) -> None:
        self.id = request_id
        self.arguments = arguments  # of a tool; of a method its `params`, not decoded yet
        self.progress_token: RequestId | None = None
        self.sink = sink  # the way back to whoever sent it
        self.client = client
        self.shape: AnswerShape = METHOD_SHAPE
        self.answered = False
        self.cancelled = False
        self.lasts: Callable[[], bool] | None = None  # whether it can still be cancelled, after its answer
        self.result_at_end: Callable[[], Any] | None = None  # its answer, should the server end first
        self._on_answered: list[Callable[[Call], None]] = []
        self._on_cancelled: Callable[[], object] | None = None

    # -- answering

    def finish(self, returned: Any) -> None:
        """Answer with what the handler returned, as soon as that holds."""
        if returned is LATER:
            return
        if type(returned) is OnceDurable:
            result = returned.result
            returned.durable.when_known(lambda error: self.answer(result) if error is None else self.fail(error))
        else:
            self.answer(returned)

    def answer(self, result: Any) -> None:
        if self.answered:
            logger.info("a second answer to request %.100r is dropped", self.id)
            return
        try:
            line = self.shape.succeeded(self.id, result)
        except Exception as error:  # it cannot be written: the client is told at least that
            self.fail(error)
        else:
            self._send(line)

    def fail(self, error: BaseException) -> None:
        if self.answered:
            logger.info("request %.100r failed after its answer: %s", self.id, error)
            return
        try:
            line = self.shape.failed(self.id, error)
        except Exception as second:  # the error's own text may be what cannot be written
            line = to_rpc_error(self.id, second)
        self._send(line)

    def _send(self, line: bytes) -> None:
        self.answered = True
        self.sink.answer(line, self.id)
        if self.lasts is None:
            self._on_cancelled = None  # what it refers to refers to this call; both are freed at once this way
        told, self._on_answered = self._on_answered, []
        for tell in told:
            tell(self)

    def server_ends(self) -> None:
        """Whoever still waits is told so."""
        if not self.answered:
            if self.result_at_end is None:
                self.fail(AgentError(SERVER_ENDED))
            else:
                self.answer(self.result_at_end())

    def when_answered(self, callback: "Callable[[Call], None]") -> None:
        """Call back once, right after the answer was sent."""
        self._on_answered.append(callback)

    # -- cancelling

    def when_cancelled(self, callback: Callable[[], object]) -> None:
        """What a cancellation of this request does. One that came while the handler was still waiting for something counts."""
        if self.answered and self.lasts is None:
            return  # it is over
        self._on_cancelled = callback
        if self.cancelled:
            callback()

    def cancel(self) -> None:
        """The client no longer wants it."""
        if not self.cancelled:
            self.cancelled = True
            if self._on_cancelled is not None:
                self._on_cancelled()


Handler = Callable[[Call], Awaitable[Any]]
"""Serves a call: returns its result (or `OnceDurable`, or `LATER`), or raises what the client is to be told."""
