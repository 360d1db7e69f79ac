"""Where a process's conversations are kept: in the store, or only in memory. Each log is opened on first use."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.config.home import state_dir
from understudy.protocol.ids import ConversationId
from understudy.store.log import EventLog, Page, Store

if TYPE_CHECKING:
    from understudy.engine.log.in_memory import InMemory

OpenLog = Callable[[Path, asyncio.AbstractEventLoop], Store]


class Logs:
    def __init__(self, home: Callable[[], Path], loop: asyncio.AbstractEventLoop, open_log: OpenLog) -> None:
        self._home = home
        self._loop = loop
        self._open_log = open_log
        self._store: Store | None = None
        self._temporary: Path | None = None
        self._in_memory: InMemory | None = None

    def store(self) -> Store:
        """Raises `ConfigError` or `StoreError` if it cannot be opened."""
        if self._store is None:
            self._store = self._open_log(self._home(), self._loop)
        return self._store

    def in_memory(self) -> "InMemory":
        if self._in_memory is None:
            from understudy.engine.log.in_memory import InMemory  # few processes have such conversations

            self._in_memory = InMemory(self._loop)
        return self._in_memory

    def is_kept(self, conversation_id: ConversationId) -> bool:
        """Whether it is on disk, as far as this process knows."""
        return self._in_memory is None or conversation_id not in self._in_memory.log

    def of(self, *, kept: bool) -> EventLog:
        return self.store() if kept else self.in_memory().log

    def temporary_folder(self, conversation_id: ConversationId, *, kept: bool) -> Path:
        """The folder for temporary files of the conversation's commands."""
        if self._in_memory is not None and (not kept or not self.is_kept(conversation_id)):
            return self._in_memory.temporary_folder(conversation_id)
        if self._temporary is None:
            self._temporary = state_dir(self._home()) / "tmp"
        return self._temporary / conversation_id

    async def is_held(self, conversation_id: ConversationId) -> bool:
        """Whether any process holds the claim."""
        return self.is_kept(conversation_id) and await self.store().holder(conversation_id) is not None

    async def list(self, limit: int, cursor: str | None, *, archived: bool) -> Page:
        if self._in_memory is not None and not archived:
            return await self._in_memory.list(limit, cursor, self.store())
        return await self.store().list(limit, cursor, archived=archived)

    async def close(self) -> None:
        """Finish writing to disk."""
        if self._store is not None:
            if self._store.is_remote:  # finishing waits for the database's answers
                await asyncio.to_thread(self._store.finish)
                await asyncio.to_thread(self._store.close)
                return
            self._store.finish()
            await asyncio.sleep(0)  # lets those who waited for the disk run
            self._store.close()

    def forget_memory(self) -> None:
        """Remove the temporary files of conversations that are not kept."""
        if self._in_memory is not None:
            self._in_memory.close()
