"""Records that nobody waits for are held back a moment, so that they share a commit with others of the same turn.

A turn whose model answers at once is then one batch instead of two, and with fifty sessions at work five to twenty batches share a
commit. Under load, records are held longer, to share it with more.
"""

import asyncio
from collections.abc import Callable

HOLD_SECONDS = 0.002  # for each conversation that is held
MOST_SECONDS = 0.05

Flush = Callable[[], None]


class CommitDelay:
    """For all conversations of a process: one timer, which runs only while something is held."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._held: dict[Flush, None] = {}
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def hold(self, flush: Flush) -> None:
        self._held[flush] = None
        if self._timer is None:
            self._since = self._loop.time()
            self._timer = self._loop.call_later(HOLD_SECONDS, self._look)

    def let_go(self, flush: Flush) -> None:
        """It has been flushed."""
        self._held.pop(flush, None)
        if not self._held and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        left = min(HOLD_SECONDS * len(self._held), MOST_SECONDS) - (self._loop.time() - self._since)
        if left >= HOLD_SECONDS / 2:
            self._timer = self._loop.call_later(left, self._look)
            return
        held, self._held, self._timer = self._held, {}, None
        for flush in held:
            flush()
