"""Answers a question and waits to learn whether the answer counts, whichever process runs the asking turn."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec

from understudy.engine.conversation.conversation import Conversation
from understudy.engine.log.broadcast import LiveEntry
from understudy.engine.viewers.following import Following
from understudy.engine.viewers.viewer import QuietViewer
from understudy.errors import AgentError
from understudy.protocol.ids import new_uuid
from understudy.protocol.ops import Accepted, Decide
from understudy.protocol.records import ApprovalDecided, ToolAnswered, TurnEnded

Outcome = Literal["counts", "closed", "requested"]
"""`closed`: the question was no longer open, or another answer came first. `requested`: another process has not replied yet."""


async def answer_question(
    conversation: Conversation,
    submit: Callable[[Decide], Awaitable[Accepted]],
    op: Decide,
    seconds: float,
) -> Outcome:
    """Raises `AgentError` if the answer is not accepted, or if the log can no longer say what became of it."""
    if not op.answer_id:
        op = msgspec.structs.replace(op, answer_id=new_uuid())
    fate = _Fate(op)
    following = Following(conversation, fate)
    following.go_live()
    try:
        accepted = await submit(op)
        if not accepted.posted:
            return "counts" if accepted.effective else "closed"
        conversation.when_durable(lambda error: None if error is None else fate.failed(error))
        fate.expect(accepted.turn or "")
        await asyncio.wait([fate.known], timeout=seconds)
        return fate.known.result() if fate.known.done() else "requested"
    finally:
        following.stop()


class _Fate(QuietViewer):
    """What becomes of an answer left for another process. It may be in the log before its letter is known to be on disk."""

    def __init__(self, op: Decide) -> None:
        self.known: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._op = op
        self._turn: str | None = None
        self._seen: list[LiveEntry] = []  # before the turn was known

    def expect(self, turn: str) -> None:
        self._turn = turn
        for live in self._seen:
            self.entry(live)

    def entry(self, live: LiveEntry) -> None:
        if self._turn is None:
            self._seen.append(live)
        elif self._turn in ("", live.entry.turn) and not self.known.done():
            match live.entry.record:
                case ApprovalDecided(call_id=self._op.call_id, effective=effective, answer_id=self._op.answer_id):
                    self.known.set_result("counts" if effective else "closed")
                case ApprovalDecided(call_id=self._op.call_id, effective=True):
                    self.known.set_result("closed")
                case ToolAnswered(output=output) if output.call_id == self._op.call_id:
                    self.known.set_result("closed")
                case TurnEnded():
                    self.known.set_result("closed")
                case _:
                    pass

    def failed(self, error: AgentError) -> None:
        if not self.known.done():
            self.known.set_exception(error)
            self.known.exception()  # the waiter may have left
