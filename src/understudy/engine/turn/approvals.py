"""Questions and answers, keyed by call id. A question is open before anyone is shown it; the first valid answer counts.

If `question_timeout` is set, a question without an answer in that time is answered by a no. The time runs from the question's
record, so that a restart does not begin it anew.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from understudy.config.model import QuestionSettings
from understudy.engine.log.tail import Tail
from understudy.protocol.choices import Decision
from understudy.protocol.ops import Answer, Decide
from understudy.protocol.records import (
    ApprovalDecided,
    BudgetAsked,
    CommandApprovalAsked,
    Noticed,
    Question,
    ToolApprovalAsked,
    UserInputAsked,
)
from understudy.tools.host import ApprovalAnswer

if TYPE_CHECKING:
    from understudy.engine.services.question_news import OpenedQuestion

logger = logging.getLogger(__name__)

CLIENT = "client"


def decided_notice(decision: Decision, source: str, *, is_input: bool = False) -> str:
    """What viewers are told of a decision that no person made."""
    return f"question not answered: {source}" if is_input else f"approval {decision}: {source}"


def timed_out(seconds: float) -> str:
    return f"nobody answered within {seconds:g} seconds, the time that `question_timeout` gives"


class Approvals:
    """The questions of one conversation. `ask` records a question, `decide` its answer."""

    def __init__(self, tail: Tail) -> None:
        self._tail = tail
        self._open: dict[str, tuple[Question, asyncio.Future[ApprovalAnswer]]] = {}  # asked by this process
        # answers to questions that are open since before a restart and not yet asked again here
        self._early: dict[str, tuple[Question, list[Decide]]] = {}
        self._settings = QuestionSettings()
        self._on_question: Callable[[OpenedQuestion], None] | None = None

    def begin_turn(self, settings: QuestionSettings, on_question: "Callable[[OpenedQuestion], None] | None" = None) -> None:
        self._early.clear()
        self._settings, self._on_question = settings, on_question

    @property
    def waits(self) -> bool:
        """Whether a question stays open although nobody can be asked."""
        return self._settings.unasked == "wait"

    def has_early(self, call_id: str) -> bool:
        """Whether there are answers that wait for the turn to ask its question again: only then are they recorded."""
        return call_id in self._early

    async def ask(self, question: Question, turn: str) -> ApprovalAnswer:
        """Wait for an answer, without a time limit by default. A question that was open before a restart is not recorded again."""
        waiter: asyncio.Future[ApprovalAnswer] = asyncio.get_running_loop().create_future()
        call_id = question.call_id
        self._open[call_id] = question, waiter
        timer: asyncio.TimerHandle | None = None
        try:
            known = self._tail.state.questions.get(call_id)
            if known is None or not _is_same(known, question):
                self._tail.append(question, turn=turn)
                self._tail.flush_soon()
                self._tell(question, turn)
            answered, early = self._early.pop(call_id, (question, ()))
            for op in early:
                if _is_same(answered, question):
                    self.decide(op, turn)
                else:
                    self._record(op, turn, counts=False, key=None)
            if (left := self._seconds_left(call_id)) is not None:
                timer = asyncio.get_running_loop().call_later(left, self._time_out, call_id, turn)
            return await waiter
        finally:
            self._open.pop(call_id, None)
            if timer is not None:
                timer.cancel()

    def decide(self, op: Decide, turn: str) -> bool:
        """True if this answer is the one that counts."""
        call_id, decision = op.call_id, op.decision
        asked, waiter = self._open.get(call_id, (None, None))
        recorded = self._tail.state.questions.get(call_id)
        # the open question is a later one that the answerer has not seen
        if op.asked_at not in (0.0, self._tail.state.asked_at.get(call_id)):
            asked = waiter = recorded = None
        if waiter is None and recorded is not None and self._seconds_left(call_id) != 0:
            _, early = self._early.setdefault(call_id, (recorded, []))
            early.append(op)
            return early[0] is op
        counts = waiter is not None and not waiter.done() and asked is not None and _fits(asked, op)
        if not counts:
            logger.info("answer %s to %s came too late and is ignored", decision, call_id)
        key = asked.key if counts and isinstance(asked, CommandApprovalAsked | ToolApprovalAsked) else None
        self._record(op, turn, counts=counts, key=key)
        if counts and waiter is not None:
            if op.source != CLIENT:
                notice = decided_notice(decision, op.source, is_input=isinstance(asked, UserInputAsked))
                self._tail.append(Noticed(notice), turn=turn)
            waiter.set_result(ApprovalAnswer(decision, op.source, op.word, op.answers if isinstance(op, Answer) else {}))
        return counts

    def _record(self, op: Decide, turn: str, *, counts: bool, key: str | None) -> None:
        decided = ApprovalDecided(
            op.call_id,
            op.decision,
            op.source,
            counts,
            key,
            op.by,
            op.word if counts else "",
            op.answer_id,
            op.door,
            op.address,
            op.client,
            op.answers if counts and isinstance(op, Answer) else msgspec.UNSET,
        )
        self._tail.append(decided, turn=turn)

    def _seconds_left(self, call_id: str) -> float | None:
        """The time left for an answer. None: no limit; 0: it is over."""
        seconds = self._settings.timeout_seconds
        asked_at = self._tail.state.asked_at.get(call_id)
        if not seconds or asked_at is None:
            return None
        return min(max(asked_at + seconds - time.time(), 0.0), seconds)  # a clock that was set back does not extend the time

    def _time_out(self, call_id: str, turn: str) -> None:
        self.decide(Decide(call_id, "denied", timed_out(self._settings.timeout_seconds)), turn)

    def _tell(self, question: Question, turn: str) -> None:
        """Tell the user's own program once the question is on disk."""
        on_question, tail = self._on_question, self._tail
        if on_question is None:
            return
        from understudy.engine.services.question_news import OpenedQuestion  # few users have such a program

        opened = OpenedQuestion(tail.conversation_id, turn, tail.state.overrides.cwd or "", question)
        tail.when_committed(lambda: None if tail.failure else on_question(opened))


def _fits(question: Question, op: Decide) -> bool:
    """Whether the kind of answer fits: a question of the model takes words or a no, an approval takes no words."""
    if isinstance(question, UserInputAsked):
        return isinstance(op, Answer) or op.decision in ("denied", "abort")
    return not isinstance(op, Answer)


def _is_same(one: Question, other: Question) -> bool:
    """Whether an answer to one question also answers the other: everything shown and everything it depends on is the same.

    `one` comes from the log and may have been written by another process or machine. The key of a command is not compared, since it
    depends on the environment: the answer is recorded with the key of the question asked here.
    """
    match one, other:
        case BudgetAsked(), BudgetAsked():  # more may have been used since
            return (one.limit, one.message_id, one.raised_to) == (other.limit, other.message_id, other.raised_to)
        case CommandApprovalAsked(), CommandApprovalAsked():
            return msgspec.structs.replace(one, key=other.key) == other
        case _:
            return one == other
