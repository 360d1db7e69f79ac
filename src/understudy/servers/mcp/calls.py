"""A `codex` or `codex-reply` call as a viewer of its conversation: its events, its questions, and one answer at the end."""

from typing import TYPE_CHECKING, Any

from understudy.engine.approvals import CLIENT
from understudy.engine.broadcast import LiveDelta, LiveEntry
from understudy.engine.conversation import Conversation, Sent
from understudy.engine.report import report_of
from understudy.errors import AgentError
from understudy.protocol.records import (
    ApprovalDecided,
    CommandApprovalAsked,
    Entry,
    Opened,
    PatchApprovalAsked,
    RequestSent,
    ToolAnswered,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from understudy.servers.failures import answer_result, failed_result, thread_note, to_text
from understudy.servers.mcp.call import Call
from understudy.servers.mcp.envelopes import Envelope
from understudy.servers.mcp.presentation import Presentation
from understudy.servers.mcp.reader import Reader

if TYPE_CHECKING:
    from understudy.servers.mcp.progress import Progress


WHAT_TO_DO = (
    "Use a client that can be asked for approval, attach one by conversationStream, or choose another approval-policy or sandbox."
)

SERVER_ENDED = "the server ended before the turn did; continue with codex-reply, which asks an open question again"

# what tells where a call's message is, and what a call acts upon; the others are only shown
_FOLLOWED = frozenset({UserMessage, TurnStarted, RequestSent})
_ANSWERED = frozenset({CommandApprovalAsked, PatchApprovalAsked, ApprovalDecided, ToolAnswered, TurnEnded})


class CallReader(Reader):
    def __init__(self, call: Call, conversation: Conversation, presentation: Presentation, progress: "Progress | None") -> None:
        super().__init__(
            conversation, call.sink, conversation.tail.broadcast.published, hides_reasoning=presentation.hides_reasoning
        )
        self.call = call
        self.request_id = call.id
        self.turn: str | None = None
        self.began_turn = False  # events go to the call that began the turn; one that joined gets only its answer
        self._peer = peer = call.client.peer
        self._codec = codec = presentation.codec(conversation)
        methods = peer.methods if presentation.events == "auto" else presentation.events
        self._envelope = Envelope(methods, request_id=call.id, thread_id=conversation.id, plain_method=codec.plain_method)
        self._thread_in_text = presentation.thread_in_text
        self._questions: dict[str, CommandApprovalAsked | PatchApprovalAsked] = {}  # of its turn, not decided yet
        self._refused: list[dict[str, str]] = []
        self._progress = progress
        self.message_id = ""
        self._recorded = False  # the message is in the log
        self._read = False  # the model has been given it
        call.when_answered(self._leave)
        call.result_at_end = failed_result(SERVER_ENDED, conversation.id)

    @property
    def can_answer(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._peer.can_be_asked and not self._sink.closed

    def follow(self, sent: Sent) -> None:
        self.turn, self.began_turn, self.message_id = sent.turn, not sent.joined, sent.message_id
        if not sent.held:
            for question in tuple(self.conversation.state.questions.values()):  # open since before a restart
                self._ask(question)

    def attach(self) -> None:
        super().attach()
        self.conversation.callers.append(self)

    def detach(self) -> None:
        super().detach()
        if self in self.conversation.callers:
            self.conversation.callers.remove(self)

    def taken_up(self) -> None:
        """The turn it had joined goes on here: from now on it is this call's."""
        self.began_turn = True
        for question in tuple(self.conversation.state.questions.values()):
            self._ask(question)

    def deliver(self, live: LiveEntry) -> None:
        entry = live.entry
        kind = type(entry.record)
        if kind in _FOLLOWED:
            self._follow_message(entry)
        if entry.turn != self.turn and kind is not Opened:
            return
        if self.began_turn and not self._envelope.silent:
            for event in self._codec.events(live):
                self._sink.send(self._envelope.wrap(event, entry.turn), self.request_id)
        if self._progress is not None:
            self._progress.step(entry.record)
        if kind in _ANSWERED:
            self._answer_to(entry)

    def _answer_to(self, entry: Entry) -> None:
        match entry.record:
            case CommandApprovalAsked() | PatchApprovalAsked():
                self._ask(entry.record)
            case ApprovalDecided(call_id=call_id, effective=True) as decided:
                self._peer.withdraw_question(self.conversation.id, entry.turn, call_id)
                self._note_refusal(decided)
            case ToolAnswered(output=output):
                self._peer.withdraw_question(self.conversation.id, entry.turn, output.call_id)
            case TurnEnded() as ended:
                if self._read or (self._recorded and ended.reason != "completed"):  # else the message goes to the turn after it
                    self._answer_turn(ended)
            case _:
                pass

    def _follow_message(self, entry: Entry) -> None:
        """Where the message is: nearly always in the turn it was sent to, but another process may have ended that meanwhile."""
        match entry.record:
            case UserMessage(message_id=message_id) if message_id == self.message_id:
                self.turn, self._recorded = entry.turn, True
            case TurnStarted(turn_id=turn) if self.conversation.state.turn_messages.get(turn) == self.message_id:
                self.began_turn = True
            case RequestSent(consumed=consumed) if self.message_id in consumed:
                self.turn, self._read = entry.turn, True
            case _:
                pass

    def deliver_delta(self, live: LiveDelta) -> None:
        if self.began_turn and live.turn == self.turn and not self._envelope.silent:
            self._sink.send(self._envelope.wrap(self._codec.delta(live), live.turn), self.request_id)

    def fail(self, error: AgentError) -> None:
        self.answer_failure(to_text(error))

    def answer_failure(self, text: str) -> None:
        self.answer(failed_result(text, self.conversation.id, self._notes(), **self._details()))

    def answer(self, result: object) -> None:
        """After everything that was sent before it."""
        if not self.call.answered:
            self.call.answer(result)

    def _leave(self, call: Call) -> None:
        """The call is answered, by whomever: nothing more may be said in its name."""
        self.detach()
        if self._progress is not None:
            self._progress.stop()

    def _answer_turn(self, ended: TurnEnded) -> None:
        if ended.reason == "completed":
            self.answer(answer_result(ended.message or "", self.conversation.id, self._notes(), **self._details()))
        else:
            self.answer_failure(ended.message or "the turn failed")

    def _notes(self) -> list[str]:
        notes = [f"refused: {refused['what']}: {refused['reason']}" for refused in self._refused]
        if notes:
            notes.append(WHAT_TO_DO)
        return [*notes, thread_note(self.conversation.id)] if self._thread_in_text else notes

    def _details(self) -> dict[str, Any]:
        """What a result says beside the answer."""
        details: dict[str, Any] = {"refused": self._refused} if self._refused else {}
        work = self.conversation.state.ledger.work(self.turn or "")
        return details if work is None else {**details, "report": report_of(work)}

    def _note_refusal(self, decided: ApprovalDecided) -> None:
        """What was refused though nobody decided so: the caller cannot know it otherwise."""
        question = self._questions.pop(decided.call_id, None)
        if question is None or decided.decision != "denied" or decided.source == CLIENT:
            return
        from understudy.servers.mcp.progress import describe_question  # most turns ask nothing

        self._refused.append({"call_id": decided.call_id, "what": describe_question(question), "reason": decided.source})

    def _ask(self, question: CommandApprovalAsked | PatchApprovalAsked) -> None:
        if not self.began_turn:
            return
        self._questions[question.call_id] = question
        from understudy.servers.mcp.asking import CANNOT_BE_ASKED, ask_peer  # most turns ask nothing

        if self.can_answer:
            ask_peer(self._peer, self._sink, self.request_id, self.conversation, question, self.turn or "")
        elif not any(follower.can_answer for follower in self.conversation.tail.broadcast.followers):
            self.conversation.decide(question.call_id, "denied", CANNOT_BE_ASKED)
