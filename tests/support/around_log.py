"""Around a log, whichever it is: what is asked of it passes by here. For logs that are slow, fail or are overtaken on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Op
from understudy.protocol.records import Entry
from understudy.store.log import (
    NO_CONVERSATION,
    Attendance,
    Audited,
    Batch,
    Claim,
    Committed,
    Holder,
    Letter,
    Listed,
    Listener,
    Page,
    Position,
    SavedText,
    Spent,
    Store,
    Verified,
)
from understudy.store.opening import open_store
from understudy.store.search.asked import Search

Write = Callable[[Committed], None]


def _nobody(_: BaseException | None) -> None:
    pass


class AroundLog(Store):
    """The log of this home: the file, or the database that the environment names. `_submit` is given each write."""

    def __init__(self, home: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._log = open_store(home, loop)

    def _submit(self, write: Write, done: Committed) -> None:
        write(done)

    def _fail(self, done: Committed, error: BaseException) -> None:
        """In its place among the others: a text of no conversation is kept nowhere, and told of in its order."""
        self._log.save_text(NO_CONVERSATION, 0, SavedText(0), lambda _: done(error))

    def append(self, batch: Batch, done: Committed) -> None:
        self._submit(lambda told: self._log.append(batch, told), done)

    def save_text(
        self, conversation_id: ConversationId, epoch: int, said: SavedText, done: Committed | None = None, *, adds: bool = False
    ) -> None:
        self._submit(lambda told: self._log.save_text(conversation_id, epoch, said, told, adds=adds), done or _nobody)

    def post(self, conversation_id: ConversationId, op: Op, done: Committed | None = None) -> None:
        self._submit(lambda told: self._log.post(conversation_id, op, told), done or _nobody)

    def archive(self, conversation_id: ConversationId, archived: bool, done: Committed) -> None:
        self._submit(lambda told: self._log.archive(conversation_id, archived, told), done)

    def delete(self, conversation_id: ConversationId, done: Committed) -> None:
        self._submit(lambda told: self._log.delete(conversation_id, told), done)

    def spend(self, name: str, day: str, spent: Spent, done: Committed) -> None:
        self._submit(lambda told: self._log.spend(name, day, spent, told), done)

    def seal(self, conversation_id: ConversationId, last_seq: int, digest: bytes, done: Committed) -> None:
        self._submit(lambda told: self._log.seal(conversation_id, last_seq, digest, told), done)

    # -- what only passes by

    @property
    def shared(self) -> bool:
        return self._log.shared

    @property
    def is_remote(self) -> bool:
        return self._log.is_remote

    @property
    def attendance(self) -> Attendance | None:
        return self._log.attendance

    @property
    def place(self) -> str:
        return self._log.place

    @property
    def search(self) -> Search:
        return self._log.search

    def time(self) -> float:
        return self._log.time()

    async def claim(self, conversation_id: ConversationId, known: Position | None = None) -> Claim | Holder:
        return await self._log.claim(conversation_id, known)

    async def holder(self, conversation_id: ConversationId, *, identify: bool = False) -> Holder | None:
        return await self._log.holder(conversation_id, identify=identify)

    async def positions(self, conversation_ids: Iterable[ConversationId]) -> dict[ConversationId, Position]:
        return await self._log.positions(conversation_ids)

    async def read(
        self, conversation_id: ConversationId, after: int = 0, limit: int | None = None, most_bytes: int | None = None
    ) -> Sequence[Entry]:
        return await self._log.read(conversation_id, after, limit, most_bytes)

    async def saved_text(self, conversation_id: ConversationId) -> SavedText | None:
        return await self._log.saved_text(conversation_id)

    async def letters(self, conversation_id: ConversationId) -> Sequence[Letter]:
        return await self._log.letters(conversation_id)

    async def find(self, conversation_id: ConversationId) -> Listed | None:
        return await self._log.find(conversation_id)

    async def list(self, limit: int, cursor: str | None = None, *, archived: bool = False) -> Page:
        return await self._log.list(limit, cursor, archived=archived)

    def listen(self, conversation_id: ConversationId, told: Listener) -> Callable[[], None]:
        return self._log.listen(conversation_id, told)

    async def ids(self, beginning: str = "", limit: int | None = None) -> Sequence[ConversationId]:
        return await self._log.ids(beginning, limit)

    async def spent(self, name: str, since: str) -> Spent:
        return await self._log.spent(name, since)

    async def count(self) -> int:
        return await self._log.count()

    async def size(self) -> int:
        return await self._log.size()

    async def check(self) -> str:
        return await self._log.check()

    async def verify(self, most: int | None) -> Verified:
        return await self._log.verify(most)

    async def audit(self, conversation_id: ConversationId, head: str | None = None) -> Audited | None:
        return await self._log.audit(conversation_id, head)

    async def without_entry(self) -> int:
        return await self._log.without_entry()

    async def oldest(self, limit: int, after: tuple[float, str], *, archived: bool) -> Sequence[Listed]:
        return await self._log.oldest(limit, after, archived=archived)

    async def used(self) -> int:
        return await self._log.used()

    async def shrink(self) -> int:
        return await self._log.shrink()

    def when_renewed(self, told: Callable[[float], None]) -> None:
        self._log.when_renewed(told)

    def time_commits(self, told: Callable[[float], None]) -> None:
        self._log.time_commits(told)

    async def backup(self, target: Path) -> None:
        await self._log.backup(target)

    def finish(self, timeout: float = 5.0) -> bool:
        return self._log.finish(timeout)

    def close(self, timeout: float = 5.0) -> bool:
        return self._log.close(timeout)
