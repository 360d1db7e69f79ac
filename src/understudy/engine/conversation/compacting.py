"""Asks for a summary and waits for it. The summary may need a turn of its own."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from understudy.engine.conversation.conversation import Conversation
from understudy.engine.log.broadcast import LiveEntry
from understudy.engine.viewers.following import Following
from understudy.engine.viewers.viewer import QuietViewer
from understudy.errors import AgentError
from understudy.protocol.ops import Accepted, Compact
from understudy.protocol.records import Compacted, TurnEnded, TurnStarted

BEGIN_SECONDS = 10.0  # for the worker of another host


class Compacting(QuietViewer):
    """A compaction that was asked for. `turn` was begun for it; None: a running turn makes it when it can."""

    def __init__(self) -> None:
        self.turn: str | None = None
        self._begun = asyncio.Event()  # a turn for a summary
        self._record: Compacted | None = None
        self._over: asyncio.Future[Compacted] = asyncio.get_running_loop().create_future()
        self._over.add_done_callback(lambda over: over.cancelled() or over.exception())  # the asker may have left

    def when_over(self, callback: Callable[[], None]) -> None:
        self._over.add_done_callback(lambda _: callback())

    async def over(self) -> Compacted:
        """The finished compaction. Raises `AgentError` with the reason if there is none."""
        return await asyncio.shield(self._over)

    async def until_begun(self, seconds: float) -> None:
        """On another host; `turn` is None if no turn was begun for it within this time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._begun.wait()

    def entry(self, live: LiveEntry) -> None:
        record = live.entry.record
        if self.turn is None and isinstance(record, TurnStarted) and record.compacts:
            self.turn = live.entry.turn
            self._begun.set()
        if self.turn is None or live.entry.turn != self.turn or self._over.done():
            return
        if isinstance(record, Compacted):
            self._record = record
        elif isinstance(record, TurnEnded):
            if self._record is not None:
                self._over.set_result(self._record)
            else:
                self._over.set_exception(AgentError(record.message or "the turn ended without a summary"))

    def failed(self, error: AgentError) -> None:
        if not self._over.done():
            self._over.set_exception(error)


async def begin_compacting(conversation: Conversation, submit: Callable[[Compact], Awaitable[Accepted]]) -> Compacting:
    """Raises `AgentError` if the op is not accepted."""
    compacting = Compacting()
    following = Following(conversation, compacting)
    following.go_live()
    try:
        accepted = await submit(Compact())
        if accepted.posted:
            await compacting.until_begun(BEGIN_SECONDS)
        else:
            compacting.turn = None if accepted.joined else accepted.turn
    finally:
        if compacting.turn is None:
            following.stop()
        else:
            compacting.when_over(following.stop)
    return compacting
