"""Undoing a turn and hearing what came of it, whichever process has the conversation."""

import asyncio
from collections.abc import Awaitable, Callable

from understudy.engine.broadcast import LiveEntry
from understudy.engine.conversation import Conversation
from understudy.engine.following import Following, QuietViewer
from understudy.engine.stopping import LOOK_SECONDS
from understudy.errors import AgentError, ConversationBusy
from understudy.protocol.ops import Accepted, Undo
from understudy.protocol.records import UndoEnded


async def undo_turn(
    conversation: Conversation, submit: Callable[[Undo], Awaitable[Accepted]], op: Undo, seconds: float
) -> UndoEnded:
    """Raises `AgentError` where it is not done, or where another process was asked to do it and has not said anything so far."""
    end = _End(op.undo_id)
    following = Following(conversation, end)
    following.go_live()
    try:
        accepted = await submit(op)
        if accepted.posted:
            await _until_done(conversation, submit, op, end, seconds)
        return await end.known
    finally:
        following.stop()


async def _until_done(
    conversation: Conversation, submit: Callable[[Undo], Awaitable[Accepted]], op: Undo, end: "_End", seconds: float
) -> None:
    conversation.when_accepted(lambda error: None if error is None else end.failed(error))
    loop = asyncio.get_running_loop()
    give_up = loop.time() + seconds
    while loop.time() < give_up:
        await asyncio.wait([end.known], timeout=LOOK_SECONDS)
        if end.known.done():
            return
        await conversation.elsewhere.look()
        if end.known.done():
            return
        let_go = conversation.tail.idle and not await conversation.elsewhere.has_claim()  # perhaps before it read the letter
        if let_go and not (await submit(op)).posted:
            return
    holder = await conversation.elsewhere.holder()
    who = "another process" if holder is None else f"process {holder}"
    raise ConversationBusy(f"{who} has conversation {conversation.id} and was asked to undo the turn; it has not answered yet")


class _End(QuietViewer):
    def __init__(self, undo_id: str) -> None:
        self.known: asyncio.Future[UndoEnded] = asyncio.get_running_loop().create_future()
        self.known.add_done_callback(lambda known: known.cancelled() or known.exception())  # whoever waited may have left
        self._undo_id = undo_id

    def entry(self, live: LiveEntry) -> None:
        record = live.entry.record
        if isinstance(record, UndoEnded) and record.undo_id == self._undo_id and not self.known.done():
            self.known.set_result(record)

    def failed(self, error: AgentError) -> None:
        if not self.known.done():
            self.known.set_exception(error)
