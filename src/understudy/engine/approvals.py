"""Questions and answers, keyed by call id. A question is open before anyone is shown it; the first valid answer counts."""

import asyncio
import logging

from understudy.engine.feed import Feed
from understudy.protocol.choices import Decision
from understudy.protocol.records import ApprovalDecided, CommandApprovalAsked, Noticed
from understudy.tools.tool import Answer, Question

logger = logging.getLogger(__name__)

CLIENT = "client"


class Approvals:
    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._open: dict[str, asyncio.Future[Answer]] = {}

    async def ask(self, question: Question, turn: str) -> Answer:
        """Wait for an answer, however long it takes. A question that was open before a restart is not recorded again."""
        waiter: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[question.call_id] = waiter
        try:
            if question.call_id not in self._feed.state.questions:
                self._feed.append(question, turn=turn)
            return await waiter
        finally:
            self._open.pop(question.call_id, None)

    def decide(self, call_id: str, decision: Decision, source: str, turn: str) -> bool:
        """True when this answer is the one that counts."""
        waiter = self._open.get(call_id)
        counts = waiter is not None and not waiter.done()
        if not counts:
            logger.info("answer %s to %s came too late and is ignored", decision, call_id)
        question = self._feed.state.questions.get(call_id)
        key = question.key if isinstance(question, CommandApprovalAsked) else None
        self._feed.append(ApprovalDecided(call_id, decision, source, counts, key), turn=turn)
        if counts and waiter is not None:
            if source != CLIENT:
                self._feed.append(Noticed(f"approval {decision}: {source}"), turn=turn)
            waiter.set_result(Answer(decision, source))
        return counts
