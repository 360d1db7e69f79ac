"""The real store on a disk that is busy: what is written waits for as long as a test wants."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

from understudy.config.home import state_dir
from understudy.protocol.ids import ConversationId
from understudy.store.log import Committed
from understudy.store.sqlite.event_log import SqliteLog
from understudy.store.sqlite.writing import Row
from understudy.testing.waiting import Watched


class BusyDiskLog(SqliteLog):
    """Between `wait` and `go_on` no write gets to the disk; then all of them do, in their order."""

    def __init__(self, home: Path, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(state_dir(home), loop)
        self._waits = False
        self._kept_back: list[tuple[ConversationId, Callable[[int], list[Row]], Committed | None]] = []
        self._watched = Watched()

    def wait(self) -> None:
        self._waits = True

    def go_on(self) -> None:
        self._waits = False
        for write in self._kept_back:
            super()._submit(*write)
        self._kept_back.clear()

    def fail(self) -> None:
        """Like `go_on`, but none of them gets there."""
        self._waits = False
        for conversation_id, _, done in self._kept_back:
            super()._submit(conversation_id, _fail, done)
        self._kept_back.clear()

    async def until_asked(self) -> None:
        """Until something is kept back."""
        await self._watched.until(lambda: self._kept_back or None, "a write")

    def _submit(self, conversation_id: ConversationId, rows: Callable[[int], list[Row]], done: Committed | None = None) -> None:
        if not self._waits:
            super()._submit(conversation_id, rows, done)
            return
        self._kept_back.append((conversation_id, rows, done))
        self._watched.change()


def _fail(_: int) -> list[Row]:
    raise sqlite3.OperationalError("disk I/O error on demand")
