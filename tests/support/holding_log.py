"""A log, on a disk that writes nothing until a test lets it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from tests.support.around_log import AroundLog, Write
from understudy.store.log import Committed


class HoldingLog(AroundLog):
    """Commits nothing while it holds, and everything in its order afterwards."""

    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(folder.parent, loop)
        self.holds = False
        self.held: list[Callable[[], None]] = []
        self.holding = asyncio.Event()

    def _submit(self, write: Write, done: Committed) -> None:
        if self.holds:
            self.held.append(lambda: write(done))
            self.holding.set()
        else:
            write(done)

    def let_go(self) -> None:
        self.holds = False
        for submit in self.held:
            submit()
