"""A `codex` or `codex-reply` call as a viewer of its conversation: its events, its questions, and one answer at the end.

An event's way onto the wire: the same `params` under one method or two, put together from ready bytes.
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
from understudy.servers.mcp.call import Call
from understudy.servers.mcp.peer import Methods
from understudy.servers.report import report_of
from understudy.servers.wire_events.event_codec import Encoded
from understudy.servers.wire_events.presentation import Presentation

if TYPE_CHECKING:
    from understudy.servers.mcp.progress import Progress


_encode = msgspec.json.Encoder().encode


class Envelope:
    """For one call. `codex/event` first, then the event's own name as the method."""

    def __init__(self, methods: Methods, *, request_id: RequestId, thread_id: str, plain_method: bool) -> None:
        meta = _encode({"requestId": request_id, "threadId": thread_id})
        self._before_turn = b'"params":{"_meta":' + meta + b',"id":"'
        self._turn, self._before_event = "", self._before_turn + b'","msg":'  # nearly all events are of one turn
        self._both = methods == "both" and plain_method
        self.silent = methods == "none"  # the client is to get no events
        self._numbered = plain_method

    def wrap(self, event: Encoded, turn: str) -> bytes:
        if not self._numbered and turn == "0":
            turn = ""  # the modern face has no number for the configuration
        if turn != self._turn:
            self._turn, self._before_event = turn, self._before_turn + turn.encode() + b'","msg":'
        params = self._before_event + event.msg + b"}}\n"
        framed = b'{"jsonrpc":"2.0","method":"codex/event",' + params
        if not self._both:
            return framed
        return framed + b'{"jsonrpc":"2.0","method":"' + event.type + b'",' + params


SERVER_ENDED = "the server ended before the turn did; continue with codex-reply, which asks an open question again"

WHAT_TO_DO = (
    "Use a client that can be asked for approval, attach one by conversationStream, or choose another approval-policy or sandbox."
)


OTHER_FORM = "a later message of this turn asked for another output schema, and the answer has that form; ask again"


class CallViewer:
    """Events go to the call that began the turn; one that joined it gets only its answer."""

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
        """`created`: the call has just made the conversation, and is shown it from its first record on. `after`: where else it is
        to begin, for a call that is watched again.
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
        self.only_waits = False  # for the answer to somebody's message; it has none of its own
        self._questions: dict[str, Question] = {}  # of its turn, not decided yet
        self.refused: list[dict[str, str]] = []
        self._progress = progress
        call.result_at_end = lambda: failed_result(SERVER_ENDED, handle.id)
        self.following = handle.follow(
            self, after=0 if created else after, outlet=call.sink, only_its_turn=True, hides_reasoning=presentation.hides_reasoning
        )
        self.following.leads = created
        call.when_answered(self._leave)

    @property
    def can_answer(self) -> bool:
        return self._peer.can_be_asked and not self._sink.closed

    async def send(self, message: Message, terms: Terms | None, durable: Durable | None = None) -> None:
        """Send the message, and wait for the end of its turn from now on. `durable` is told when the message is on disk."""
        self._output_schema = None if terms is None else terms.output_schema
        if self.following.caught_up:
            self.following.go_live()
        else:
            await self.following.go_live_from_cursor()
        self.following.wait()
        await self.handle.submit(self.handle.message(message, terms=terms), self.following, durable)

    def watching(self) -> None:
        """The turn that it waits for is under way, begun by a message that somebody had sent before."""

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
        elif self.handle.only_looks:  # those whose conversation it is may come back and answer
            from understudy.servers.mcp.waiting_calls import answer_unfinished

            answer_unfinished(self)
        else:
            reason = why_unasked(self.handle) if self.can_answer else CLIENT_GONE if self._peer.can_be_asked else CANNOT_BE_ASKED
            self.handle.deny_unasked(question.call_id, reason, turn)

    def question_closed(self, call_id: str, turn: str) -> None:
        self._peer.withdraw_question(self.handle.id, turn, call_id)

    def ended(self, ended: TurnEnded) -> None:
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
        """After everything that was sent before it."""
        if not self.call.answered:
            self.call.answer(result)

    def leave_running(self, result: object) -> None:
        """The turn goes on, but whoever waits for it is told something now."""
        self.answer(result)

    def leave(self) -> None:
        """Nobody watches by this any more: the call is refused, or somebody else watches in its name."""
        self._leave(self.call)

    def _leave(self, _: Call) -> None:
        """The call is answered, whoever did it: nothing more may be said in its name."""
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
        """A call that only waits stands for those that could not wait as long: the answer has the form that they asked for."""
        if not self.only_waits:
            return self._output_schema
        work = self.handle.work_of(self.following.turn or "")
        return None if work is None else work.schema

    def notes(self) -> list[str]:
        if self._form() is not None:  # whoever asked for a form reads nothing else
            return []
        notes = [f"refused: {refused['what']}: {refused['reason']}" for refused in self.refused]
        if notes:
            notes.append(WHAT_TO_DO)
        return [*notes, thread_note(self.handle.id)] if self.presentation.thread_in_text else notes

    def details(self) -> dict[str, Any]:
        """What a result says beside the answer."""
        details: dict[str, Any] = {"refused": self.refused} if self.refused else {}
        if commands := self.handle.commands_going_on():  # the call's turn is over; another one is not the caller's to wait for
            details["running"] = {"commands": [command.shown() for command in commands]}
        work = self.handle.work_of(self.following.turn or "")
        return details if work is None else {**details, "report": report_of(work, self.presentation.report)}

    def _note_refusal(self, decided: ApprovalDecided) -> None:
        """What was refused though nobody decided so: the caller cannot know it otherwise."""
        question = self._questions.pop(decided.call_id, None)
        if question is None or decided.decision not in ("denied", "abort") or decided.source == CLIENT:
            return
        from understudy.servers.mcp.progress import describe_question  # most turns ask nothing

        self.refused.append({"call_id": decided.call_id, "what": describe_question(question), "reason": decided.source})
