"""Requests about one conversation are taken in the order in which a client sent them, also while a slow log lets one wait."""

import asyncio
from collections import deque
from collections.abc import Coroutine, Hashable
from typing import Any


class InOrder:
    """Lets in one at a time for each key, first come, first served. Whoever comes alone does not wait, and costs no future."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, deque[asyncio.Future[None]] | None] = {}  # behind whoever is in; None: nobody

    def enter(self, key: Hashable) -> Coroutine[Any, Any, None] | None:
        """None: whoever asked is in. Else they are once they have awaited what this returns. Whoever is in calls `leave`."""
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
            if let_in.done() and not let_in.cancelled():  # it was let in, and left in the same moment
                self.leave(key)
            raise

    def leave(self, key: Hashable) -> None:
        """The next one goes on in another step of the event loop: what is done in this step comes before it."""
        queue = self._waiting[key]
        while queue:
            let_in = queue.popleft()
            if not let_in.done():
                let_in.set_result(None)
                return
        del self._waiting[key]
