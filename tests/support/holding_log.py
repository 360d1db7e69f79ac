"""The real store, on a disk that writes nothing until a test lets it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from understudy.protocol.ids import ConversationId
from understudy.store.log import Committed
from understudy.store.sqlite.event_log import SqliteLog
from understudy.store.sqlite.writing import Row


class HoldingLog(SqliteLog):
    """Commits nothing while it holds, and everything in its order afterwards."""

    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(folder, loop)
        self.holds = False
        self.held: list[Callable[[], None]] = []
        self.holding = asyncio.Event()

    def _submit(self, conversation_id: ConversationId, rows: Callable[[int], list[Row]], done: Committed | None = None) -> None:
        if self.holds:
            self.held.append(lambda: super(HoldingLog, self)._submit(conversation_id, rows, done))
            self.holding.set()
        else:
            super()._submit(conversation_id, rows, done)

    def let_go(self) -> None:
        self.holds = False
        for submit in self.held:
            submit()
