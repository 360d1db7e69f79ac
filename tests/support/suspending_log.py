"""The real store, answering late: every read and claim suspends, as those of a log on another machine do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from understudy.config.home import state_dir
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Entry
from understudy.store.log import Holder, Letter, Page, Position, SavedText
from understudy.store.sqlite.claims import SqliteClaim
from understudy.store.sqlite.event_log import SqliteLog

T = TypeVar("T")


class SuspendingLog(SqliteLog):
    """`seconds` before and after each answer; 0 is one trip round the event loop. While `stalled` is set, nothing is answered."""

    def __init__(self, home: Path, loop: asyncio.AbstractEventLoop, seconds: float = 0.0) -> None:
        super().__init__(state_dir(home), loop)
        self._seconds = seconds
        self.asked: list[str] = []  # what is being waited for, or was
        self._moving = asyncio.Event()
        self._moving.set()

    def stall(self) -> None:
        self._moving.clear()

    def move_on(self) -> None:
        self._moving.set()

    async def _late(self, name: str, ask: Callable[[], Awaitable[T]]) -> T:
        self.asked.append(name)
        await asyncio.sleep(self._seconds)
        await self._moving.wait()
        found = await ask()
        await asyncio.sleep(self._seconds)
        return found

    async def claim(self, conversation_id: ConversationId, known: Position | None = None) -> SqliteClaim | Holder:
        claim: SqliteClaim | Holder | None = None
        try:
            self.asked.append("claim")
            await asyncio.sleep(self._seconds)
            await self._moving.wait()
            claim = await super().claim(conversation_id, known)
            await asyncio.sleep(self._seconds)
        except BaseException:  # nobody has it who was cut short in taking it
            if isinstance(claim, SqliteClaim):
                claim.release()
            raise
        return claim

    async def holder(self, conversation_id: ConversationId, *, identify: bool = False) -> Holder | None:
        return await self._late("holder", lambda: SqliteLog.holder(self, conversation_id, identify=identify))

    async def positions(self, conversation_ids: Iterable[ConversationId]) -> dict[ConversationId, Position]:
        return await self._late("positions", lambda: SqliteLog.positions(self, conversation_ids))

    async def read(
        self, conversation_id: ConversationId, after: int = 0, limit: int | None = None, most_bytes: int | None = None
    ) -> Sequence[Entry]:
        return await self._late("read", lambda: SqliteLog.read(self, conversation_id, after, limit, most_bytes))

    async def saved_text(self, conversation_id: ConversationId) -> SavedText | None:
        return await self._late("saved_text", lambda: SqliteLog.saved_text(self, conversation_id))

    async def letters(self, conversation_id: ConversationId) -> Sequence[Letter]:
        return await self._late("letters", lambda: SqliteLog.letters(self, conversation_id))

    async def list(self, limit: int, cursor: str | None = None, *, archived: bool = False) -> Page:
        return await self._late("list", lambda: SqliteLog.list(self, limit, cursor, archived=archived))
