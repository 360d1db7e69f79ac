"""A log with writes that fail on demand."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.around_log import AroundLog, Write
from understudy.errors import StoreError
from understudy.store.log import Committed


class FailingLog(AroundLog):
    """Counts every write; the `fail_at`-th fails, and `length - 1` after it, in their places among the others."""

    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop, fail_at: int, length: int = 1) -> None:
        super().__init__(folder.parent, loop)
        self.writes = 0
        self._failing = range(fail_at, fail_at + length)
        self._failed = 0
        self.over = asyncio.Event()  # all that was to fail has failed, and who waited for it was told

    @property
    def has_failed(self) -> bool:
        return self.writes >= self._failing.start

    def fail_next(self) -> None:
        self._failing = range(self.writes + 1, self.writes + 2)

    def _submit(self, write: Write, done: Committed) -> None:
        self.writes += 1
        if self.writes not in self._failing:
            write(done)
            return

        def told(error: BaseException | None) -> None:
            done(error)
            self._failed += 1
            if self._failed == len(self._failing):
                self.over.set()

        self._fail(told, StoreError("conversation store: disk I/O error on demand"))
