"""One request of a client, from its arrival to its one answer.

A `codex` or `codex-reply` call also watches its conversation as a `CallViewer`: it gets events and questions, and is answered at
the end of the turn.
"""

from typing import TYPE_CHECKING, Any

import msgspec

from understudy.engine.handle import Handle
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.engine.log.durable import Durable
from understudy.engine.turn.approvals import CLIENT
from understudy.errors import AgentError
from understudy.protocol.items import Message
from understudy.protocol.jsonrpc import RequestId
from understudy.protocol.records import ApprovalDecided, Question, Terms, TurnEnded
from understudy.servers.failures import answer_result, failed_result, thread_note, to_text
from understudy.servers.mcp.peer import Envelope
from understudy.servers.report import report_of
from understudy.servers.wire_events.presentation import Presentation

if TYPE_CHECKING:
    from understudy.servers.mcp.progress import Progress
import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from understudy.engine.engine import Engine
from understudy.protocol.callers import Caller
from understudy.protocol.ids import ConversationId
from understudy.protocol.jsonrpc import result_line
from understudy.servers.failures import to_rpc_error
from understudy.servers.in_order import InOrder
from understudy.servers.mcp.peer import Peer
from understudy.servers.sink import Sink

if TYPE_CHECKING:
    from understudy.servers.mcp.progress import Progress
    from understudy.servers.mcp.stream_viewer import Snapshots, StreamViewer
    from understudy.servers.wire_events.presentation import Presentation

logger = logging.getLogger(__name__)

SERVER_ENDED = "the server ended before this was done"


class AnswerShape(Protocol):
    """How a handler's result or error is written on the wire."""

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
    """Returned by a handler if somebody else answers the call: the viewer that waits for the end of a turn."""


LATER: Final = Later()


class OnceDurable(msgspec.Struct, frozen=True):
    """Returned by a handler if its result is only valid once the log has what the handler gave it."""

    durable: Durable
    result: Any


class MakeViewer(Protocol):
    """Makes the viewer that watches a call's turn and answers the call."""

    def __call__(
        self, call: "Call", handle: Handle, presentation: "Presentation", progress: "Progress | None", *, created: bool = False
    ) -> "CallViewer": ...


class ClientContext:
    """What the calls of one client share."""

    def __init__(self, engine: Engine, caller: Caller, peer: Peer, sink: Sink) -> None:
        self.engine = engine
        self.caller = caller  # in whose name the client speaks
        self.peer = peer
        self.sink = sink  # for messages that belong to several requests
        self.call_viewer: MakeViewer | None = None  # set if a transport needs more than the plain viewer
        self.stream_viewer: Callable[..., StreamViewer] | None = None  # set if a transport needs more than the plain viewer
        self.streams_answer_at_end = False  # in this era a client can only be reached through its open requests
        self.capabilities: Mapping[str, Any] = {}  # what a client of that era declared with its request
        self.loop = asyncio.get_running_loop()
        self.created_by: dict[ConversationId, RequestId] = {}  # which of its requests made a conversation
        self.streams: dict[ConversationId, StreamViewer] = {}  # one for each conversation it watches
        self.snapshots: Snapshots | None = None
        self._order = InOrder()

    async def find(self, conversation_id: ConversationId, *, to_send: bool = False) -> Handle:
        """Requests about one conversation continue from here in the order in which the client sent them, however long the log takes
        for each. To keep that order, a handler submits its op without waiting for anything in between.

        Raises `UnknownConversation`, also for a caller who may not read it.
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
        self.arguments = arguments  # a tool's arguments; for a method its undecoded `params`
        self.progress_token: RequestId | None = None
        self.sink = sink  # the connection to the sender
        self.client = client
        self.shape: AnswerShape = METHOD_SHAPE
        self.answered = False
        self.cancelled = False
        self.lasts: Callable[[], bool] | None = None  # whether it can still be cancelled after its answer
        self.result_at_end: Callable[[], Any] | None = None  # its answer if the server ends first
        self._on_answered: list[Callable[[Call], None]] = []
        self._on_cancelled: Callable[[], object] | None = None

    # -- answering

    def finish(self, returned: Any) -> None:
        """Answer with the handler's result as soon as that is valid."""
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
        except Exception as error:  # it cannot be written: tell the client at least that
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
            self._on_cancelled = None  # breaks a reference cycle, so that both are freed at once
        told, self._on_answered = self._on_answered, []
        for tell in told:
            tell(self)

    def server_ends(self) -> None:
        """Tell a caller who still waits that the server ends."""
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
        """Set what a cancellation of this request does. If one came while the handler was waiting, it happens now."""
        if self.answered and self.lasts is None:
            return  # already finished
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
"""Serves a call: returns its result (or `OnceDurable`, or `LATER`), or raises what the client should be told."""


TURN_GOES_ON = "the server ended before the turn did; continue with codex-reply, which asks an open question again"

WHAT_TO_DO = (
    "Use a client that can be asked for approval, attach one by conversationStream, or choose another approval-policy or sandbox."
)


CUT_OFF = "the server that ran this turn ended before it was over: what it was doing then may be half done"
OTHER_FORM = "a later message of this turn asked for another output schema, and the answer has that form; ask again"


class CallViewer:
    """Events go to the call that began the turn; a call that joined the turn gets only its answer."""

    def __init__(
        self,
        call: Call,
        handle: Handle,
        presentation: Presentation,
        progress: "Progress | None",
        *,
        created: bool = False,
        after: int | None = None,
    ) -> None:
        """`created`: the call has just made the conversation, and is shown it from its first record on. `after`: where else to
        begin, for a call that is watched again.
        """
        self.call = call
        self.handle = handle
        self.presentation = presentation
        self._peer = peer = call.client.peer
        self._sink = call.sink
        self._codec = codec = presentation.codec(handle)
        methods = peer.methods if presentation.events == "auto" else presentation.events
        self._envelope = Envelope(methods, request_id=call.id, thread_id=handle.id, plain_method=codec.plain_method)
        self._output_schema: dict[str, Any] | None = None  # the form that the caller wants
        self.only_waits = False  # it waits for the answer to somebody else's message and has none of its own
        self._questions: dict[str, Question] = {}  # undecided questions of its turn
        self.refused: list[dict[str, str]] = []
        self._cut_off = False  # the turn ended with the process that ran it
        self._progress = progress
        call.result_at_end = lambda: failed_result(TURN_GOES_ON, handle.id)
        self.following = handle.follow(
            self, after=0 if created else after, outlet=call.sink, only_its_turn=True, hides_reasoning=presentation.hides_reasoning
        )
        self.following.leads = created
        call.when_answered(self._leave)

    @property
    def can_answer(self) -> bool:
        return self._peer.can_be_asked and not self._sink.closed

    async def send(self, message: Message, terms: Terms | None, durable: Durable | None = None) -> None:
        """Send the message and wait for the end of its turn. `durable` is told when the message is on disk."""
        self._output_schema = None if terms is None else terms.output_schema
        if self.following.caught_up:
            self.following.go_live()
        else:
            await self.following.go_live_from_cursor()
        self.following.wait()
        await self.handle.submit(self.handle.message(message, terms=terms), self.following, durable)

    def watching(self) -> None:
        """The awaited turn is already running, begun by an earlier message."""

    # -- called by the following

    def entry(self, live: LiveEntry) -> None:
        record = live.entry.record
        if self.following.leads and not self._envelope.silent:
            for event in self._codec.events(live):
                self._sink.send(self._envelope.wrap(event, live.entry.turn), self.call.id)
        if self._progress is not None:
            self._progress.step(record)
        if type(record) is ApprovalDecided and record.effective:
            self._note_refusal(record)

    def delta(self, live: LiveDelta) -> None:
        if not self._envelope.silent:
            self._sink.send(self._envelope.wrap(self._codec.delta(live), live.turn), self.call.id)

    def question(self, question: Question, turn: str) -> None:
        self._questions[question.call_id] = question
        from understudy.servers.mcp.asking import CANNOT_BE_ASKED, CLIENT_GONE, ask_peer, why_unasked  # most turns ask nothing

        if self.following.can_answer:
            ask_peer(self._peer, self._sink, self.call.id, self.handle, question, turn)
        elif self.handle.can_be_answered():
            pass
        elif self.handle.only_looks:  # the owners of the conversation may come back and answer
            self.answer_unfinished()
        else:
            reason = why_unasked(self.handle) if self.can_answer else CLIENT_GONE if self._peer.can_be_asked else CANNOT_BE_ASKED
            self.handle.deny_unasked(question.call_id, reason, turn)

    def question_closed(self, call_id: str, turn: str) -> None:
        self._peer.withdraw_question(self.handle.id, turn, call_id)

    def ended(self, ended: TurnEnded) -> None:
        self._cut_off = ended.cut_at is not None
        if ended.reason == "completed" and (schema := self._form()) is not None:
            self._answer_in_form(ended.message or "", schema)
        elif ended.reason == "completed":
            self.answer(answer_result(ended.message or "", self.handle.id, self.notes(), **self.details()))
        else:
            self.answer_failure(ended.message or "the turn failed")

    def failed(self, error: AgentError) -> None:
        self.answer_failure(to_text(error))

    # -- answering

    def answer_failure(self, text: str) -> None:
        self.answer(failed_result(text, self.handle.id, self.notes(), **self.details()))

    def answer(self, result: object) -> None:
        """Answer after everything that was sent before."""
        if not self.call.answered:
            self.call.answer(result)

    def leave_running(self, result: object) -> None:
        """The turn continues, but its waiting caller is told something now."""
        self.answer(result)

    def answer_unfinished(self) -> None:
        """The turn continues; its end can be waited for later."""
        thread = self.handle.id
        text = f"The turn is still running. To wait for its answer, call codex-reply with threadId {thread} and without a prompt."
        going_on = self.handle.going_on().shown()
        running = {**going_on, "turn": self.following.turn or "", "questions": list(self.handle.facts.questions)}
        self.leave_running(answer_result(text, thread, self.notes(), **{**self.details(), "running": running}))

    def leave(self) -> None:
        """Stop watching for this call: it is refused, or another viewer watches for it."""
        self._leave(self.call)

    def _leave(self, _: Call) -> None:
        """The call is answered, by whomever: nothing more may be sent for it."""
        self.following.stop()
        if self._progress is not None:
            self._progress.stop()

    def _answer_in_form(self, text: str, schema: dict[str, Any]) -> None:
        work = self.handle.work_of(self.following.turn or "")
        if work is None or work.schema != schema:
            self.answer_failure(OTHER_FORM)
            return
        from understudy.engine.turn.answer_form import parse_answer, without_fence

        details = {"output": parse_answer(text), **self.details()}
        self.answer(answer_result(without_fence(text), self.handle.id, (), **details))

    def _form(self) -> dict[str, Any] | None:
        """The requested form. A waiting call answers in the form that the original call asked for."""
        if not self.only_waits:
            return self._output_schema
        work = self.handle.work_of(self.following.turn or "")
        return None if work is None else work.schema

    def notes(self) -> list[str]:
        if self._form() is not None:  # a caller that asked for a form reads nothing else
            return []
        notes = [f"refused: {refused['what']}: {refused['reason']}" for refused in self.refused]
        if notes:
            notes.append(WHAT_TO_DO)
        if self._cut_off:
            notes.append(CUT_OFF)
        return [*notes, thread_note(self.handle.id)] if self.presentation.thread_in_text else notes

    def details(self) -> dict[str, Any]:
        """What a result holds beside the answer."""
        details: dict[str, Any] = {"refused": self.refused} if self.refused else {}
        # only commands: the call's turn is over, and another turn is not for its caller to wait for
        if commands := self.handle.commands_going_on():
            details["running"] = {"commands": [command.shown() for command in commands]}
        work = self.handle.work_of(self.following.turn or "")
        return details if work is None else {**details, "report": report_of(work, self.presentation.report)}

    def _note_refusal(self, decided: ApprovalDecided) -> None:
        """Note refusals that nobody decided: the caller cannot learn of them otherwise."""
        question = self._questions.pop(decided.call_id, None)
        if question is None or decided.decision not in ("denied", "abort") or decided.source == CLIENT:
            return
        from understudy.servers.mcp.progress import describe_question  # most turns ask nothing

        self.refused.append({"call_id": decided.call_id, "what": describe_question(question), "reason": decided.source})
