"""A turn as a task, watched until it ends, even while nobody asks about it, so that its questions have somebody to wait for."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

from understudy.engine.handle import Handle
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.engine.log.durable import Durable
from understudy.errors import AgentError, NotAllowed
from understudy.protocol.items import Message
from understudy.protocol.jsonrpc import RequestId
from understudy.protocol.records import (
    ApprovalDecided,
    BudgetAsked,
    CommandApprovalAsked,
    HookApprovalAsked,
    PatchApprovalAsked,
    Question,
    Terms,
    ToolApprovalAsked,
    TurnEnded,
    UserInputAsked,
)
from understudy.servers.failures import failed_result, to_text
from understudy.servers.mcp.asking import CANNOT_BE_ASKED, CLIENT_GONE, question_name, question_params, why_unasked
from understudy.servers.mcp.call import Call, CallViewer, ClientContext
from understudy.servers.mcp.peer import Peer
from understudy.servers.mcp.progress import describe, describe_asking
from understudy.servers.mcp.task_names import TaskName, written_time
from understudy.servers.wire_events.presentation import Presentation

POLL_MS = 1000  # between two checks of a task, as clients are told
EXPIRED = "the task has expired, and nobody else can be asked for approval"
CALLER_GONE = "the token of the task's caller is not valid any more, and nobody else can be asked for approval"
NOT_READ = "the server ended before the model had read the message; it is read with the next one: continue with codex-reply"


class TaskViewer(CallViewer):
    """Knows only what the log says, so that every process reports the same."""

    def __init__(
        self,
        client: ClientContext,
        handle: Handle,
        presentation: Presentation,
        *,
        askable: bool,
        asked_by: Call | None = None,
        name: "Callable[[TaskViewer], dict[str, Any]] | None" = None,
        created: bool = False,
        after: int | None = None,
    ) -> None:
        """`askable`: the task's maker can be asked for approval. `asked_by`: the call that makes it; it is answered with the result
        of `name` once the message is on disk. `created`, `after`: see `CallViewer`.
        """
        self.askable = askable
        self.expired = False
        self._caller_gone = False
        self.outcome: dict[str, Any] | None = None  # its reported state once it is over
        self.broken: AgentError | None = None  # the log could not be read
        self.when_changed: set[Callable[[], None]] = set()
        self._asked_by = asked_by
        self._name = name
        self._stopped = False  # a person ended the turn by answering a question
        self._said = ""
        # by call id, for the questions in the log: a question that is not on disk is not shown
        self._asked_at: dict[str, float] = {}
        self._updated = time.time()
        super().__init__(Call("", None, _NOWHERE, client), handle, presentation, None, created=created, after=after)
        self.begin = self.following.cursor  # a record before the message

    @property
    def can_answer(self) -> bool:
        return self.askable and not (self.expired or self._caller_gone) and self.outcome is None

    # -- beginning

    async def send(self, message: Message, terms: Terms | None, durable: Durable | None = None) -> None:
        durable = durable or Durable()
        await super().send(message, terms, durable)
        durable.when_known(self._begun)

    def watching(self) -> None:
        self.begin = -1  # the message's place in the log is unknown here
        self._begun(None)

    def leave_running(self, result: object) -> None:
        """Ignored: a caller that waits only for a while already has the task."""

    def _begun(self, error: AgentError | None) -> None:
        """The message is on disk, or failed. From here on the task has a name."""
        if error is not None:
            self.failed(error)
        elif self._name is not None and self._asked_by is not None:
            self._answer_call(self._name(self))

    def _answer_call(self, result: object) -> None:
        call, self._asked_by = self._asked_by, None
        if call is not None and not call.answered:
            call.answer(result)

    async def resume(self, name: TaskName, message_id: str) -> None:
        """Read the task from the log and continue from there."""
        handle, following = self.handle, self.following
        turn = handle.turn_of_message(message_id)
        work = handle.work_of(turn or "")
        self._output_schema = None if work is None else work.schema
        self._updated = name.created_ms / 1000
        if turn is not None:
            following.follow_turn(turn)
        await following.resume(message_id, leads=turn is not None or name.begin <= 0, shown_to=0, given={})

    # -- called by the following

    def entry(self, live: LiveEntry) -> None:
        record = live.entry.record
        self._updated = live.entry.at
        self._said = describe(record) or self._said
        if isinstance(
            record, CommandApprovalAsked | PatchApprovalAsked | ToolApprovalAsked | BudgetAsked | HookApprovalAsked | UserInputAsked
        ):
            self._asked_at[record.call_id] = live.entry.at
        if type(record) is ApprovalDecided and record.effective:
            self._stopped = self._stopped or record.decision == "abort"
            self._note_refusal(record)
        self._tell_changed()

    def delta(self, live: LiveDelta) -> None:
        """Ignored: clients are told of steps."""

    def question(self, question: Question, turn: str) -> None:
        """A question waits for the task's maker to come back, or for somebody else who can answer. If nobody can, it is denied."""
        self._questions[question.call_id] = question
        if self.handle.open_question(question.call_id) != question or not self.handle.asks_for_turn:
            return  # already answered, or the process that runs the turn handles it
        if not (self.following.can_answer or self.handle.can_be_answered()):  # it may be reading, and not follow yet
            self.handle.deny_unasked(question.call_id, self._why_nobody(), turn)

    def _why_nobody(self) -> str:
        if self.can_answer:
            return why_unasked(self.handle)
        if not self.askable:
            return CANNOT_BE_ASKED
        return EXPIRED if self.expired else CALLER_GONE if self._caller_gone else CLIENT_GONE

    def question_closed(self, call_id: str, turn: str) -> None:
        self._tell_changed()

    def ended(self, ended: TurnEnded) -> None:
        if ended.reason == "interrupted" and (ended.asked_for or self._stopped):
            why = {"statusMessage": self.refused[-1]["reason"]} if self.refused else {}
            result = failed_result(ended.message or "", self.handle.id, self.notes(), **self.details())
            self._end({"status": "cancelled", **why}, result)
        else:
            super().ended(ended)

    def failed(self, error: AgentError) -> None:
        self.broken = error
        self._answer_call(failed_result(to_text(error), self.handle.id, self.notes(), **self.details()))
        self._tell_changed()

    def answer(self, result: object) -> None:
        self._end({"status": "completed", "result": _complete(result)}, result)

    def _end(self, outcome: dict[str, Any], result: object) -> None:
        """`result`: the answer of the call, if the turn was over before it became a task."""
        if self.outcome is None:
            self.outcome = outcome
            self._answer_call(result)
            self._tell_changed()

    def _tell_changed(self) -> None:
        for tell in tuple(self.when_changed):
            tell()

    # -- ending

    def note_caller(self, *, gone: bool) -> None:
        """Whether the task's maker cannot come back: its questions then do not wait for them."""
        if gone != self._caller_gone:
            self._caller_gone = gone
            if gone and not self.is_over:
                self.following.put_open_questions()

    def expire(self) -> None:
        """The task has expired. A running turn continues, but its questions do not wait for the task's maker."""
        self.expired = True
        self.following.put_open_questions()
        self.following.stop()
        self._tell_changed()

    def leave_turn(self) -> None:
        """The task is cancelled; its turn, which it did not begin, continues."""
        self.outcome = {"status": "cancelled"}
        self.following.put_open_questions()  # a question that waited only for this client is not kept open
        self.following.stop()
        self._tell_changed()

    @property
    def is_at_work(self) -> bool:
        facts = self.handle.facts
        return not self.is_over and facts.runs_here and not facts.questions

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to watch."""
        return self.outcome is not None or self.broken is not None or self.expired

    @property
    def waits_in_vain(self) -> bool:
        """Whether everything is read and no turn runs, but the task's own turn is not over: nobody here will read its message by
        itself.
        """
        facts = self.handle.facts
        return self.outcome is None and facts.turn is None and self.following.cursor >= facts.last_seq

    # -- states for clients

    def state(self, task_id: str, name: TaskName, handle: Handle, peer: Peer, *, lost: bool = False) -> dict[str, Any]:
        """The state that `handle`'s caller may see. `lost`: no process will read the message by itself."""
        told = {
            "taskId": task_id,
            "createdAt": name.created_at,
            "lastUpdatedAt": written_time(max(self._updated, name.created_ms / 1000)),
            "ttlMs": name.ttl_ms,
            "pollIntervalMs": POLL_MS,
        }
        if self._said:
            told["statusMessage"] = self._said
        if self.outcome is not None:
            return told | self.outcome
        if lost:
            return told | {"status": "completed", "result": _complete(failed_result(NOT_READ, handle.id))}
        questions = self._open_questions(handle, peer)
        if not questions:
            return told | {"status": "working"}
        requests = {
            question_name(handle.id, self.following.turn or "", question, self._asked_at[question.call_id]): {
                "method": "elicitation/create",
                "params": {"mode": "form", **question_params(question, peer, handle), "threadId": handle.id},
            }
            for question in questions
        }
        first, *others = questions
        asks = describe_asking(first) + (f", and {len(others)} more" if others else "")
        return told | {"status": "input_required", "statusMessage": asks, "inputRequests": requests}

    def _open_questions(self, handle: Handle, peer: Peer) -> list[Question]:
        """The open questions, for a client that can be asked and a caller who may answer."""
        facts = handle.facts
        if not peer.can_be_asked or not facts.questions or facts.turn != self.following.turn:
            return []
        try:
            handle.check_right("approve")
        except NotAllowed:
            return []
        known = facts.questions.items()
        return [question for call_id, question in known if self._asked_at.get(call_id, 0.0) == facts.asked_at.get(call_id)]

    async def until_closed(self, asked: Mapping[str, float], seconds: float) -> None:
        """Wait until none of these questions (call id and time of asking) is open, up to a time limit."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()
        end = loop.time() + seconds
        timer = loop.call_at(end, changed.set)  # `asyncio.timeout` needs a task, and a call has none before its first wait
        self.when_changed.add(changed.set)
        try:
            while self.handle.facts.questions and self._any_open(asked) and loop.time() < end:
                changed.clear()
                await changed.wait()
        finally:
            timer.cancel()
            self.when_changed.discard(changed.set)

    def _any_open(self, asked: Mapping[str, float]) -> bool:
        facts = self.handle.facts
        return any(call_id in facts.questions and facts.asked_at.get(call_id) == at for call_id, at in asked.items())


def _complete(result: object) -> dict[str, Any]:
    return {"resultType": "complete", **cast(dict[str, Any], result)}


class _Nowhere:
    """A sink that drops everything."""

    closed = True
    congested = False

    def send(self, message: bytes, related_to: RequestId | None) -> None: ...

    def answer(self, message: bytes, related_to: RequestId) -> None: ...

    def drained(self, callback: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(callback)


_NOWHERE = _Nowhere()
