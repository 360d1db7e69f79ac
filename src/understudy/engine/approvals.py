"""Questions and answers, keyed by call id. A question is open before anyone is shown it; the first valid answer counts."""

import asyncio
import logging

from understudy.engine.tail import Tail
from understudy.protocol.callers import LOCAL_NAME
from understudy.protocol.choices import Decision
from understudy.protocol.records import (
    ApprovalDecided,
    BudgetAsked,
    CommandApprovalAsked,
    Noticed,
    PatchApprovalAsked,
    Question,
    ToolApprovalAsked,
)
from understudy.tools.host import Answer

logger = logging.getLogger(__name__)

CLIENT = "client"


def decided_notice(decision: Decision, source: str) -> str:
    """What viewers are told of a decision that no person has made."""
    return f"approval {decision}: {source}"


class Approvals:
    def __init__(self, tail: Tail) -> None:
        self._tail = tail
        self._open: dict[str, asyncio.Future[Answer]] = {}
        self._early: dict[str, tuple[Question, Answer, str]] = {}  # to questions open since before a restart, not asked here yet

    def begin_turn(self) -> None:
        self._early.clear()

    async def ask(self, question: Question, turn: str) -> Answer:
        """Wait for an answer, however long it takes. A question that was open before a restart is not recorded again."""
        waiter: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        call_id = question.call_id
        self._open[call_id] = waiter
        try:
            known = self._tail.state.questions.get(call_id)
            if known is None or not _is_same(known, question):
                self._tail.append(question, turn=turn)
                self._tail.flush_soon()
            early = self._early.pop(call_id, None)
            if early is not None and _is_same(early[0], question):
                self.decide(call_id, early[1].decision, early[1].source, turn, early[2])
            return await waiter
        finally:
            self._open.pop(call_id, None)

    def decide(self, call_id: str, decision: Decision, source: str, turn: str, by: str = LOCAL_NAME) -> bool:
        """True when this answer is the one that counts."""
        waiter = self._open.get(call_id)
        question = self._tail.state.questions.get(call_id)
        if waiter is None and question is not None and call_id not in self._early:
            self._early[call_id] = question, Answer(decision, source), by
            return True
        counts = waiter is not None and not waiter.done()
        if not counts:
            logger.info("answer %s to %s came too late and is ignored", decision, call_id)
        key = question.key if isinstance(question, CommandApprovalAsked | ToolApprovalAsked) else None
        self._tail.append(ApprovalDecided(call_id, decision, source, counts, key, by), turn=turn)
        if counts and waiter is not None:
            if source != CLIENT:
                self._tail.append(Noticed(decided_notice(decision, source)), turn=turn)
            waiter.set_result(Answer(decision, source))
        return counts


def _is_same(one: Question, other: Question) -> bool:
    """Whether an answer to one also answers the other: the same command with the same dependencies, or the same changes."""
    match one, other:
        case CommandApprovalAsked(), CommandApprovalAsked():
            alike = (one.command, one.cwd, one.retries) == (other.command, other.cwd, other.retries)
            return alike and (one.depends_on == other.depends_on or not one.depends_on or not other.depends_on)
        case PatchApprovalAsked(), PatchApprovalAsked():
            return one.changes == other.changes
        case ToolApprovalAsked(), ToolApprovalAsked():
            return one == other
        case BudgetAsked(), BudgetAsked():
            return (one.limit, one.message_id, one.raised_to) == (other.limit, other.message_id, other.raised_to)
        case _:
            return False
