"""The event log in memory, for conversations that must not outlive the process.

Several logs can share one memory, as processes share a file.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from understudy.errors import BadRequest, Fenced, StoreError, UnknownConversation
from understudy.protocol.callers import LOCAL_NAME
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Op
from understudy.protocol.records import Entry, Opened
from understudy.store.chain import FIRST, link
from understudy.store.log import (
    NOWHERE,
    Batch,
    CanBeLost,
    Committed,
    Holder,
    Letter,
    Listed,
    Listener,
    Page,
    Position,
    SavedText,
    Summary,
)
from understudy.store.record_clock import RecordClock

MARK = "m"  # cursors begin with it, so that they are not mistaken for those of a store on disk


@dataclass
class _OneLog:
    """The log of one conversation, and what lists show of it."""

    epoch: int
    created_at: float
    updated_at: float
    summary: Summary
    owner: str
    archived: bool = False
    digest: bytes = FIRST
    entries: list[Entry] = field(default_factory=list[Entry])
    said: list[SavedText] = field(default_factory=list[SavedText])
    letters: list[Letter] = field(default_factory=list[Letter])

    @property
    def position(self) -> Position:
        return Position(self.epoch, len(self.entries), bool(self.letters))

    def listed(self, conversation_id: ConversationId) -> Listed:
        times = self.created_at, self.updated_at
        return Listed(conversation_id, *times, self.summary, self.archived, self.owner, self.digest, len(self.entries))


class Memory:
    """What several logs share."""

    def __init__(self) -> None:
        self.conversations: dict[ConversationId, _OneLog] = {}
        self.claims: dict[ConversationId, MemoryClaim] = {}
        self.logs: list[MemoryLog] = []
        self._last_letter = 0

    def next_letter(self) -> int:
        self._last_letter += 1
        return self._last_letter

    def tell_others(self, log: "MemoryLog", conversation_id: ConversationId) -> None:
        for other in self.logs:
            if other is not log:
                other.tell(conversation_id)

    def lose(self, conversation_id: ConversationId) -> None:
        """Free the claim, as a server does that has not heard from the holder for too long."""
        claim = self.claims.pop(conversation_id, None)
        if claim is not None:
            claim.lose()
            self.tell_others(claim.log, conversation_id)


class MemoryClaim(CanBeLost):
    def __init__(self, log: "MemoryLog", conversation_id: ConversationId, position: Position) -> None:
        self.log = log
        self.position = position
        self._id = conversation_id

    def release(self) -> None:
        self.log.release(self._id, self)


class MemoryLog:
    def __init__(self, loop: asyncio.AbstractEventLoop, memory: Memory | None = None) -> None:
        self._loop = loop
        self._memory = Memory() if memory is None else memory
        self._memory.logs.append(self)
        self._conversations = self._memory.conversations
        self._listening: dict[ConversationId, list[Listener]] = {}
        self.time = RecordClock().now

    def __contains__(self, conversation_id: object) -> bool:
        return conversation_id in self._conversations

    is_remote = False
    attendance = None

    @property
    def shared(self) -> bool:
        return len(self._memory.logs) > 1

    def close(self) -> None:
        """Free the claims, as when a process ends."""
        for claim in tuple(self._memory.claims.values()):
            if claim.log is self:
                claim.release()
        if self in self._memory.logs:
            self._memory.logs.remove(self)
        self._listening.clear()

    def take_in(self, listed: Listed, entries: Iterable[Entry]) -> None:
        """Add a copy of a conversation from another log."""
        self._conversations[listed.conversation_id] = _OneLog(
            1, listed.created_at, listed.updated_at, listed.summary, listed.owner, digest=listed.digest, entries=list(entries)
        )

    # -- writing

    def append(self, batch: Batch, done: Committed) -> None:
        self._loop.call_soon(done, self._append(batch))

    def _append(self, batch: Batch) -> StoreError | None:
        first, last = batch.entries[0], batch.entries[-1]
        one = self._conversations.get(batch.conversation_id)
        if batch.creates:
            if one is not None:
                return StoreError(f"conversation {batch.conversation_id} is there already")
            made_at = first.at if batch.made_at is None else batch.made_at
            one = self._conversations[batch.conversation_id] = _OneLog(batch.epoch, made_at, last.at, batch.summary, _owner(first))
        elif one is None or (one.epoch, len(one.entries)) != (batch.epoch, batch.previous_seq):
            return Fenced(f"conversation {batch.conversation_id} has been taken over by another process")
        one.epoch, one.summary, one.updated_at = batch.epoch, batch.summary, max(one.updated_at, last.at)
        encoded = batch.encoded or [msgspec.json.encode(entry.record) for entry in batch.entries]
        for entry, data in zip(batch.entries, encoded, strict=True):
            one.entries.append(entry)
            one.digest = link(one.digest, entry.seq, entry.parent, entry.turn, entry.at, data)
        if batch.clears_text:
            one.said.clear()
        one.letters = [letter for letter in one.letters if letter.number > batch.takes_letters]
        if batch.releases and (claim := self._memory.claims.get(batch.conversation_id)) is not None:
            claim.release()
        self._memory.tell_others(self, batch.conversation_id)
        return None

    def save_text(
        self, conversation_id: ConversationId, epoch: int, said: SavedText, done: Committed | None = None, *, adds: bool = False
    ) -> None:
        one = self._conversations.get(conversation_id)
        if one is not None and one.epoch <= epoch:
            if not adds:
                one.said.clear()
            one.said.append(said)
            self._memory.tell_others(self, conversation_id)
        if done is not None:
            self._loop.call_soon(done, None)

    def post(self, conversation_id: ConversationId, op: Op, done: Committed | None = None) -> None:
        one = self._conversations.get(conversation_id)
        if one is not None:
            one.letters.append(Letter(self._memory.next_letter(), op))
            self._memory.tell_others(self, conversation_id)
        if done is not None:
            self._loop.call_soon(done, None if one is not None else _unknown(conversation_id))

    def archive(self, conversation_id: ConversationId, archived: bool, done: Committed) -> None:
        one = self._conversations.get(conversation_id)
        if one is not None:
            one.archived = archived
        self._loop.call_soon(done, None if one is not None else _unknown(conversation_id))

    def delete(self, conversation_id: ConversationId, done: Committed) -> None:
        self._conversations.pop(conversation_id, None)
        self._memory.tell_others(self, conversation_id)
        self._loop.call_soon(done, None)

    # -- claims

    async def claim(self, conversation_id: ConversationId, known: Position | None = None) -> MemoryClaim | Holder:
        if conversation_id in self._memory.claims:
            return Holder()
        one = self._conversations.get(conversation_id)
        claim = MemoryClaim(self, conversation_id, NOWHERE if one is None else one.position)
        if one is not None:
            one.epoch += 1  # whoever had the claim before can no longer write
        self._memory.claims[conversation_id] = claim
        return claim

    def release(self, conversation_id: ConversationId, claim: MemoryClaim) -> None:
        if self._memory.claims.get(conversation_id) is claim:
            del self._memory.claims[conversation_id]
            self._memory.tell_others(self, conversation_id)

    async def holder(self, conversation_id: ConversationId, *, identify: bool = False) -> Holder | None:
        claim = self._memory.claims.get(conversation_id)
        return None if claim is None or claim.log is self else Holder()

    def listen(self, conversation_id: ConversationId, told: Listener) -> Callable[[], None]:
        listening = self._listening.setdefault(conversation_id, [])
        listening.append(told)

        def stop() -> None:
            if told in listening:
                listening.remove(told)
            if not listening and self._listening.get(conversation_id) is listening:
                del self._listening[conversation_id]

        return stop

    def tell(self, conversation_id: ConversationId) -> None:
        for told in self._listening.get(conversation_id, ()):
            self._loop.call_soon(told)

    # -- reading

    async def positions(self, conversation_ids: Iterable[ConversationId]) -> dict[ConversationId, Position]:
        return {name: self._conversations[name].position for name in conversation_ids if name in self._conversations}

    async def read(
        self, conversation_id: ConversationId, after: int = 0, limit: int | None = None, most_bytes: int | None = None
    ) -> Sequence[Entry]:
        """Ignores `most_bytes`: nothing is read or decoded here, so a limit would save nothing."""
        one = self._conversations.get(conversation_id)
        return [] if one is None else one.entries[after : None if limit is None else after + limit]

    async def saved_text(self, conversation_id: ConversationId) -> SavedText | None:
        one = self._conversations.get(conversation_id)
        return None if one is None or not one.said else SavedText.of(one.said)

    async def letters(self, conversation_id: ConversationId) -> Sequence[Letter]:
        one = self._conversations.get(conversation_id)
        return () if one is None else tuple(one.letters)

    async def find(self, conversation_id: ConversationId) -> Listed | None:
        one = self._conversations.get(conversation_id)
        return None if one is None else one.listed(conversation_id)

    async def list(self, limit: int, cursor: str | None = None, *, archived: bool = False) -> Page:
        listed = [one.listed(name) for name, one in self._conversations.items() if one.archived == archived]
        rows = sorted(listed, key=lambda row: row.updated_at, reverse=True)
        offset = _offset(cursor)
        following = offset + max(limit, 0)
        return Page(tuple(rows[offset:following]), f"{MARK}{following}" if limit > 0 and following < len(rows) else None)

    def count(self) -> int:
        return len(self._conversations)


def _offset(cursor: str | None) -> int:
    try:
        return 0 if cursor is None else int(cursor.removeprefix(MARK))
    except ValueError:
        raise BadRequest("invalid cursor") from None


def _owner(first: Entry) -> str:
    return first.record.owner if isinstance(first.record, Opened) else LOCAL_NAME


def _unknown(conversation_id: ConversationId) -> UnknownConversation:
    return UnknownConversation(f"no conversation {conversation_id}")
