"""A log with answers that are as slow as a test wants them: as those of a database on another machine are."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.support.around_log import AroundLog
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Entry
from understudy.store.log import Claim, Holder, Letter, Page, Position, SavedText


class SlowLog(AroundLog):
    """Each read takes as many steps of the event loop as `steps` says, from its front; those after them take none.

    While `stalls` is set no read is answered at all.
    """

    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(folder.parent, loop)
        self.steps: deque[int] = deque()
        self.waiting = 0  # reads that are not answered yet
        self._goes_on = asyncio.Event()
        self._goes_on.set()

    def stall(self) -> None:
        self._goes_on.clear()

    def go_on(self) -> None:
        self._goes_on.set()

    async def _slowly(self) -> None:
        self.waiting += 1
        try:
            for _ in range(self.steps.popleft() if self.steps else 0):
                await asyncio.sleep(0)
            await self._goes_on.wait()  # does not suspend where it is set
        finally:
            self.waiting -= 1

    async def claim(self, conversation_id: ConversationId, known: Position | None = None) -> Claim | Holder:
        await self._slowly()
        return await self._log.claim(conversation_id, known)

    async def holder(self, conversation_id: ConversationId, *, identify: bool = False) -> Holder | None:
        await self._slowly()
        return await self._log.holder(conversation_id, identify=identify)

    async def positions(self, conversation_ids: Iterable[ConversationId]) -> dict[ConversationId, Position]:
        await self._slowly()
        return await self._log.positions(conversation_ids)

    async def read(
        self, conversation_id: ConversationId, after: int = 0, limit: int | None = None, most_bytes: int | None = None
    ) -> Sequence[Entry]:
        await self._slowly()
        return await self._log.read(conversation_id, after, limit, most_bytes)

    async def saved_text(self, conversation_id: ConversationId) -> SavedText | None:
        await self._slowly()
        return await self._log.saved_text(conversation_id)

    async def letters(self, conversation_id: ConversationId) -> Sequence[Letter]:
        await self._slowly()
        return await self._log.letters(conversation_id)

    async def list(self, limit: int, cursor: str | None = None, *, archived: bool = False) -> Page:
        await self._slowly()
        return await self._log.list(limit, cursor, archived=archived)
