"""A log on a disk that is busy: what is written waits for as long as a test wants."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.around_log import AroundLog, Write
from understudy.errors import StoreError
from understudy.store.log import Committed
from understudy.testing.waiting import Watched


class BusyDiskLog(AroundLog):
    """Between `wait` and `go_on` no write gets to the disk; then all of them do, in their order."""

    def __init__(self, home: Path, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(home, loop)
        self._waits = False
        self._kept_back: list[tuple[Write, Committed]] = []
        self._watched = Watched()

    def wait(self) -> None:
        self._waits = True

    def go_on(self) -> None:
        self._waits = False
        for write, done in self._kept_back:
            write(done)
        self._kept_back.clear()

    def fail(self) -> None:
        """Like `go_on`, but none of them gets there."""
        self._waits = False
        for _, done in self._kept_back:
            self._fail(done, StoreError("conversation store: disk I/O error on demand"))
        self._kept_back.clear()

    async def until_asked(self) -> None:
        """Until something is kept back."""
        await self._watched.until(lambda: self._kept_back or None, "a write")

    def _submit(self, write: Write, done: Committed) -> None:
        if not self._waits:
            write(done)
            return
        self._kept_back.append((write, done))
        self._watched.change()
