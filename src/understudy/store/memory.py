"""The event log in memory: for conversations of which nothing may outlive the process. No other process knows of them."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from understudy.errors import BadRequest, Fenced
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Entry
from understudy.store.log import Batch, Committed, Letter, LetterOp, Listed, Page, Partial, Position, Summary

MARK = "m"  # what cursors begin with, so that they cannot be taken for those of a store on disk


@dataclass
class _Kept:
    epoch: int
    created_at: float
    updated_at: float
    summary: Summary
    entries: list[Entry] = field(default_factory=list[Entry])
    said: list[Partial] = field(default_factory=list[Partial])

    @property
    def place(self) -> tuple[int, int]:
        return self.epoch, len(self.entries)


def _offset(cursor: str | None) -> int:
    try:
        return 0 if cursor is None else int(cursor.removeprefix(MARK))
    except ValueError:
        raise BadRequest("invalid cursor") from None


class _Claim:
    def release(self) -> None:
        """There is nobody to give it to."""


class MemoryLog:
    shared = False

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._kept: dict[ConversationId, _Kept] = {}

    def __contains__(self, conversation_id: object) -> bool:
        return conversation_id in self._kept

    def append(self, batch: Batch, done: Committed) -> None:
        self._loop.call_soon(done, self._append(batch))

    def _append(self, batch: Batch) -> BaseException | None:
        first, last = batch.entries[0], batch.entries[-1]
        if batch.creates:
            self._kept[batch.conversation_id] = _Kept(batch.epoch, first.at, last.at, batch.summary)
        kept = self._kept.get(batch.conversation_id)
        if kept is None or (not batch.creates and kept.place != (batch.epoch - batch.claims, batch.previous_seq)):
            return Fenced(f"conversation {batch.conversation_id} is not where it was left")
        kept.epoch, kept.summary, kept.updated_at = batch.epoch, batch.summary, max(kept.updated_at, last.at)
        kept.entries.extend(batch.entries)
        if batch.clears_partial:
            kept.said.clear()
        return None

    def claim(self, conversation_id: ConversationId) -> _Claim:
        return _Claim()

    def is_claimed(self, conversation_id: ConversationId) -> bool:
        return False

    def holder(self, conversation_id: ConversationId) -> int | None:
        return None

    def position(self, conversation_id: ConversationId) -> Position | None:
        kept = self._kept.get(conversation_id)
        return None if kept is None else Position(kept.epoch, len(kept.entries))

    def positions(self, conversation_ids: Iterable[ConversationId]) -> dict[ConversationId, Position]:
        found = {conversation_id: self.position(conversation_id) for conversation_id in conversation_ids}
        return {conversation_id: position for conversation_id, position in found.items() if position is not None}

    def read(self, conversation_id: ConversationId, after: int = 0, limit: int | None = None) -> Sequence[Entry]:
        kept = self._kept.get(conversation_id)
        return [] if kept is None else kept.entries[after : None if limit is None else after + limit]

    def partial(self, conversation_id: ConversationId) -> Partial | None:
        kept = self._kept.get(conversation_id)
        return None if kept is None or not kept.said else Partial.of(kept.said)

    def save_partial(
        self, conversation_id: ConversationId, epoch: int, said: Partial, done: Committed | None = None, *, adds: bool = False
    ) -> None:
        if (kept := self._kept.get(conversation_id)) is not None:
            if not adds:
                kept.said.clear()
            kept.said.append(said)

    def post(self, conversation_id: ConversationId, op: LetterOp, done: Committed | None = None) -> None:
        raise AssertionError("no other process can have the conversation")

    def letters(self, conversation_id: ConversationId) -> Sequence[Letter]:
        return []

    def delete(self, conversation_id: ConversationId, done: Committed) -> None:
        self._kept.pop(conversation_id, None)
        self._loop.call_soon(done, None)

    def list(self, limit: int, cursor: str | None = None, *, archived: bool = False) -> Page:
        listed = [Listed(name, kept.created_at, kept.updated_at, kept.summary) for name, kept in self._kept.items()]
        rows = sorted(listed, key=lambda row: row.updated_at, reverse=True) if not archived else []
        offset = _offset(cursor)
        following = offset + max(limit, 0)
        return Page(tuple(rows[offset:following]), f"{MARK}{following}" if limit > 0 and following < len(rows) else None)

    def count(self) -> int:
        return len(self._kept)

    def changes(self) -> bytes:
        return b""
