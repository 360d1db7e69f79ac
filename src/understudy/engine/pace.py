"""How much is done in one step of the event loop, by all who have much to do together.

Whoever reads a page of a log, or shows one to a viewer, first asks for its share of the step. Where a thousand viewers come back
at once, the others wait in line, and between two steps the loop looks at its input: a ping waits for one step, not for all.
"""

import asyncio
from collections import deque

PAGE_RECORDS = 128  # of a log that are read in a step, and no more than so many bytes of JSON:
PAGE_BYTES = 512 * 1024
SHARES = 256  # of a step; a record that is read, folded or encoded is about one


class Pace:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left = SHARES
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    async def take(self, shares: int) -> None:
        """Wait for a step that has room for this much. What asks for more than a step has gets a step of its own."""
        if self._left > 0 and not self._waiting:
            self._spend(shares)
            return
        waiter = self._loop.create_future()
        self._waiting.append((waiter, shares))
        await waiter

    def _spend(self, shares: int) -> None:
        if self._left == SHARES:
            self._loop.call_soon(self._renew)
        self._left -= max(1, shares)

    def _renew(self) -> None:
        """In the next step: who has waited longest goes first."""
        self._left = SHARES
        while self._waiting and self._left > 0:
            waiter, shares = self._waiting.popleft()
            if not waiter.done():  # else whoever waited has been cancelled
                self._spend(shares)
                waiter.set_result(None)
