"""Conversations under `history.persistence = "none"`: their log is in memory, and their temporary files go with the process."""

import asyncio
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from understudy.protocol.ids import ConversationId
from understudy.sandbox.cell import trees
from understudy.store.locks import ByteLocks
from understudy.store.log import Page, Store
from understudy.store.memory import MARK, MemoryLog

PREFIX = f"understudy-unkept-{os.getuid()}-"
LOCK = "lock"


class InMemory:
    """The conversations of this process that are not kept on disk."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        _sweep()
        self.log = MemoryLog(loop)
        self._folder: Path | None = None
        self._lock: ByteLocks | None = None

    def temporary_folder(self, conversation_id: ConversationId) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix=PREFIX))
            self._lock = ByteLocks(self._folder / LOCK)
            self._lock.try_lock(0)
        return self._folder / conversation_id

    async def list(self, limit: int, cursor: str | None, stored: Store) -> Page:
        """Conversations in memory, then those in the store; a page with both is ordered by last activity."""
        if cursor is not None and not cursor.startswith(MARK):
            return await stored.list(limit, cursor)
        page = await self.log.list(limit, cursor)
        rest = limit - len(page.rows)
        if page.next_cursor is not None or limit <= 0:
            return page
        if rest == 0:
            return Page(page.rows, f"{MARK}{self.log.count()}" if await stored.count() else None)
        others = await stored.list(rest)
        both = sorted((*page.rows, *others.rows), key=lambda row: row.updated_at, reverse=True)
        return Page(tuple(both), others.next_cursor)

    def close(self) -> None:
        if self._folder is not None:
            trees.remove(str(self._folder))
        if self._lock is not None:
            self._lock.close()


def _sweep() -> None:
    """Remove folders of processes that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            lock = ByteLocks(folder / LOCK)
            try:
                if lock.try_lock(0):
                    trees.remove(str(folder))
            finally:
                lock.close()
