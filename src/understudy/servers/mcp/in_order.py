"""Requests about one conversation are taken in the order in which a client sent them, also while a slow log lets one wait."""

import asyncio
from collections import deque
from collections.abc import Hashable


class InOrder:
    """Lets in one at a time for each key, first come, first served. Whoever comes alone does not wait, and costs no future."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}  # behind whoever is in

    async def enter(self, key: Hashable) -> None:
        """Whoever returns from this calls `leave`."""
        queue = self._waiting.get(key)
        if queue is None:
            self._waiting[key] = deque()
            return
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
