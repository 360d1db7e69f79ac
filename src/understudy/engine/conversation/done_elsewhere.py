"""Submits an op that this process or another one performs, and waits for its record in the log."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from understudy.engine.conversation.conversation import Conversation
from understudy.engine.conversation.stopping import LOOK_SECONDS
from understudy.engine.log.broadcast import LiveEntry
from understudy.engine.ops.table import way_of
from understudy.engine.viewers.following import Following, QuietViewer
from understudy.errors import AgentError, ConversationBusy
from understudy.protocol.ops import Accepted, Op
from understudy.protocol.records import Record

T = TypeVar("T", bound=Op)


async def submit_and_wait(
    conversation: Conversation,
    submit: Callable[[T], Awaitable[Accepted]],
    op: T,
    seconds: float,
) -> Record | None:
    """The record that tells the outcome (`Way.is_done_by`), or None if nothing had to be written because it `is_so` already. Raises
    `AgentError` if the op is refused, or if another process was asked and has not answered in time.
    """
    awaited = _Awaited(op)
    following = Following(conversation, awaited)
    following.go_live()
    try:
        accepted = await submit(op)
        if accepted.posted:
            accepted = await _until_done(conversation, submit, op, awaited, seconds)
        if not accepted.effective:
            await conversation.committed()
            return None
        return await awaited.known
    finally:
        following.stop()


async def _until_done(
    conversation: Conversation,
    submit: Callable[[T], Awaitable[Accepted]],
    op: T,
    awaited: "_Awaited",
    seconds: float,
) -> Accepted:
    conversation.when_durable(lambda error: None if error is None else awaited.failed(error))
    loop = asyncio.get_running_loop()
    give_up = loop.time() + seconds
    while loop.time() < give_up:
        await asyncio.wait([awaited.known], timeout=LOOK_SECONDS)
        if awaited.known.done():
            return Accepted()
        await conversation.look()
        if awaited.known.done():
            return Accepted()
        if way_of(op).is_so(conversation, op):
            return Accepted(effective=False)
        if conversation.is_on_another_host:
            continue
        let_go = conversation.is_written and not await conversation.is_claimed()  # perhaps before it read the letter
        if let_go and not (accepted := await submit(op)).posted:
            return accepted
    holder = await conversation.holder()
    who = "another process" if holder is None else f"process {holder}"
    raise ConversationBusy(f"{who} has conversation {conversation.id} and was asked to do this; it has not answered yet")


class _Awaited(QuietViewer):
    def __init__(self, op: Op) -> None:
        self.known: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
        self.known.add_done_callback(lambda known: known.cancelled() or known.exception())  # the waiter may have left
        self._op = op
        self._way = way_of(op)

    def entry(self, live: LiveEntry) -> None:
        if not self.known.done() and self._way.is_done_by(self._op, live.entry.record):
            self.known.set_result(live.entry.record)

    def failed(self, error: AgentError) -> None:
        if not self.known.done():
            self.known.set_exception(error)
