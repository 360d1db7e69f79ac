"""Whole histories for one client on a pipe: put together one after the other, each once the client has room for it.

Without this a client that asks for many and reads none would have all of them in our memory at once.
"""

import asyncio
from types import TracebackType

from understudy.servers.failures import InvalidRequest
from understudy.servers.sink import Sink

MOST_WAITING = 1_000


class Histories:
    """A block holds the turn until its answer has been handed to the sink: nothing may be awaited between its end and that."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def __aenter__(self) -> None:
        """Raises `InvalidRequest` where too many wait already."""
        if self._waiting >= MOST_WAITING:
            raise InvalidRequest(f"{MOST_WAITING} requests for a history wait already: read their answers first")
        self._waiting += 1
        try:
            await self._turn.acquire()
        finally:
            self._waiting -= 1
        try:
            await self.room()
        except BaseException:
            self._turn.release()
            raise

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._turn.release()

    async def room(self) -> None:
        """A client that reads slowly is waited for."""
        while self._sink.congested and not self._sink.closed:
            drained: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._sink.drained(lambda drained=drained: None if drained.done() else drained.set_result(None))
            await drained
