"""Takes requests about one conversation in the order in which a client sent them, even while a slow log makes one wait."""

import asyncio
from collections import deque
from collections.abc import Coroutine, Hashable
from typing import Any


class InOrder:
    """Lets in one at a time for each key, first come, first served. If nobody is in, the next one does not wait and costs no
    future.
    """

    def __init__(self) -> None:
        self._waiting: dict[Hashable, deque[asyncio.Future[None]] | None] = {}  # behind the one who is in; None: nobody waits

    def enter(self, key: Hashable) -> Coroutine[Any, Any, None] | None:
        """None: the caller is in. Otherwise they are in once they have awaited the result. Whoever is in must call `leave`."""
        if key in self._waiting:
            return self._wait(key)
        self._waiting[key] = None
        return None

    async def _wait(self, key: Hashable) -> None:
        queue = self._waiting[key]
        if queue is None:
            queue = self._waiting[key] = deque()
        let_in: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(let_in)
        try:
            await let_in
        except asyncio.CancelledError:
            if let_in.done() and not let_in.cancelled():  # it was let in and left in the same moment
                self.leave(key)
            raise

    def leave(self, key: Hashable) -> None:
        """The next one continues in a later step of the event loop, after everything done in this step."""
        queue = self._waiting[key]
        while queue:
            let_in = queue.popleft()
            if not let_in.done():
                let_in.set_result(None)
                return
        del self._waiting[key]
