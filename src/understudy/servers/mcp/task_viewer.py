"""A turn as a task: watched until it ends, also while nobody asks how it is, so that its questions have somebody to wait for."""

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

POLL_MS = 1000  # between two looks at a task, as clients are told
EXPIRED = "the task has expired, and nobody else can be asked for approval"
CALLER_GONE = "the token of the task's caller is not valid any more, and nobody else can be asked for approval"
NOT_READ = "the server ended before the model had read the message; it is read with the next one: continue with codex-reply"


class TaskViewer(CallViewer):
    """Everything that it knows comes from the log, so that every process has the same to say."""

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
        """`askable`: whoever made the task can be asked for approval. `asked_by`: the call that makes it, which is answered by what
        `name` returns once the message is on disk. `created`, `after`: see `CallViewer`.
        """
        self.askable = askable
        self.expired = False
        self._caller_gone = False
        self.outcome: dict[str, Any] | None = None  # what is said of it once it is over
        self.broken: AgentError | None = None  # the log could not be read
        self.when_changed: set[Callable[[], None]] = set()
        self._asked_by = asked_by
        self._name = name
        self._stopped = False  # a person ended the turn by answering a question
        self._said = ""
        self._asked_at: dict[str, float] = {}  # of each question that the log has, by call id: one that is not on disk is not shown
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
        self.begin = -1  # nobody says here where the message is
        self._begun(None)

    def leave_running(self, result: object) -> None:
        """Whoever waited only for a while has the task by now."""

    def _begun(self, error: AgentError | None) -> None:
        """The message is on disk, or cannot be. The task has a name from here on."""
        if error is not None:
            self.failed(error)
        elif self._name is not None and self._asked_by is not None:
            self._answer_call(self._name(self))

    def _answer_call(self, result: object) -> None:
        call, self._asked_by = self._asked_by, None
        if call is not None and not call.answered:
            call.answer(result)

    async def resume(self, name: TaskName, message_id: str) -> None:
        """Read what the log has of it, and go on from there."""
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
        """Clients are told of steps."""

    def question(self, question: Question, turn: str) -> None:
        """It waits for whoever made the task to come back, or for somebody else who can answer. Where nobody can, it is denied."""
        self._questions[question.call_id] = question
        if self.handle.open_question(question.call_id) != question or not self.handle.facts.runs_here:
            return  # answered long ago; or the process that runs the turn sees to it
        if not self.handle.can_be_answered():
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
        """`result`: what the call is answered that would have made the task, had the turn not been over so soon."""
        if self.outcome is None:
            self.outcome = outcome
            self._answer_call(result)
            self._tell_changed()

    def _tell_changed(self) -> None:
        for tell in tuple(self.when_changed):
            tell()

    # -- ending

    def note_caller(self, *, gone: bool) -> None:
        """Whether whoever made the task cannot come back to it: what it asks does not wait for them then."""
        if gone != self._caller_gone:
            self._caller_gone = gone
            if gone and not self.is_over:
                self.following.put_open_questions()

    def expire(self) -> None:
        """Nobody can ask for it any more. A turn that runs goes on, but a question does not wait for whoever made the task."""
        self.expired = True
        self.following.put_open_questions()
        self.following.stop()
        self._tell_changed()

    def leave_turn(self) -> None:
        """The task is cancelled; the turn, which is not its own, goes on."""
        self.outcome = {"status": "cancelled"}
        self.following.put_open_questions()  # one that waited only for this client is not kept open for it
        self.following.stop()
        self._tell_changed()

    @property
    def is_at_work(self) -> bool:
        facts = self.handle.facts
        return not self.is_over and facts.runs_here and not facts.questions

    @property
    def is_over(self) -> bool:
        """There is nothing more to watch."""
        return self.outcome is not None or self.broken is not None or self.expired

    @property
    def waits_in_vain(self) -> bool:
        """Everything is read, no turn is under way, and still its own is not over: nobody here will read the message by itself."""
        facts = self.handle.facts
        return self.outcome is None and facts.turn is None and self.following.cursor >= facts.last_seq

    # -- what clients are told

    def state(self, task_id: str, name: TaskName, handle: Handle, peer: Peer, *, lost: bool = False) -> dict[str, Any]:
        """As `handle`'s caller may see it. `lost`: no process will read the message by itself."""
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
        """For a client that can be asked, and a caller who may answer."""
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
        """Wait until none of these questions is open, by call id and when it was asked; but not for ever."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()
        end = loop.time() + seconds
        timer = loop.call_at(end, changed.set)  # `asyncio.timeout` wants a task, and a call has none before it has waited
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
    """A sink for what nobody is sent."""

    closed = True
    congested = False

    def send(self, message: bytes, related_to: RequestId | None) -> None: ...

    def answer(self, message: bytes, related_to: RequestId) -> None: ...

    def drained(self, callback: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(callback)


_NOWHERE = _Nowhere()
