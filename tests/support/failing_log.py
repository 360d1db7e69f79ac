"""The real store, with writes that fail on demand."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

from understudy.protocol.ids import ConversationId
from understudy.store.log import Committed
from understudy.store.sqlite.event_log import SqliteLog
from understudy.store.sqlite.writing import Row


class FailingLog(SqliteLog):
    """Counts every write; the `fail_at`-th fails, and `length - 1` after it, in their places among the others."""

    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop, fail_at: int, length: int = 1) -> None:
        super().__init__(folder, loop)
        self.writes = 0
        self._failing = range(fail_at, fail_at + length)
        self._failed = 0
        self.over = asyncio.Event()  # all that was to fail has failed, and who waited for it was told

    @property
    def has_failed(self) -> bool:
        return self.writes >= self._failing.start

    def fail_next(self) -> None:
        self._failing = range(self.writes + 1, self.writes + 2)

    def _submit(self, conversation_id: ConversationId, rows: Callable[[int], list[Row]], done: Committed | None = None) -> None:
        self.writes += 1
        if self.writes not in self._failing:
            super()._submit(conversation_id, rows, done)
            return

        def told(error: BaseException | None) -> None:
            if done is not None:
                done(error)
            self._failed += 1
            if self._failed == len(self._failing):
                self.over.set()

        super()._submit(conversation_id, _fail, told)


def _fail(_: int) -> list[Row]:
    raise sqlite3.OperationalError("disk I/O error on demand")
