"""What all simulated processes share: the logs of all conversations, their claims and letters. It survives every crash."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.history import History
from understudy.errors import AgentError, Fenced, StoreError, UnknownConversation
from understudy.protocol.callers import LOCAL_NAME
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Op
from understudy.protocol.records import Entry, Opened
from understudy.store.log import NOWHERE, Batch, Letter, Listed, Position, SavedText, Summary


@dataclass
class StoredLog:
    epoch: int
    created_at: float
    updated_at: float
    summary: Summary
    owner: str
    entries: list[Entry] = field(default_factory=list[Entry])
    said: list[SavedText] = field(default_factory=list[SavedText])
    letters: list[Letter] = field(default_factory=list[Letter])
    archived: bool = False

    def listed(self, name: ConversationId) -> Listed:
        times = self.created_at, self.updated_at
        return Listed(name, *times, self.summary, self.archived, self.owner, b"", len(self.entries))


class Disk:
    """Writes are applied here at once and whole; when that is, and who hears of it, the logs of the processes decide."""

    def __init__(self, history: History) -> None:
        self.logs: dict[ConversationId, StoredLog] = {}
        self.claims: dict[ConversationId, object] = {}  # by the claim of whichever process
        self.deleted: set[ConversationId] = set()
        self.writes = 0
        self.on_write: list[Callable[[ConversationId, object], None]] = []
        self._letters = 0
        self._history = history

    def _told(self, name: ConversationId, by: object) -> None:
        self.writes += 1
        for told in tuple(self.on_write):
            told(name, by)

    def changed(self, name: ConversationId, by: object) -> None:
        for told in tuple(self.on_write):
            told(name, by)

    def position(self, name: ConversationId, as_of: int) -> Position:
        one = self.logs.get(name)
        if one is None:
            return Position(NOWHERE.epoch, NOWHERE.last_seq, False, as_of)
        return Position(one.epoch, len(one.entries), bool(one.letters), as_of)

    def append(self, batch: Batch, by: object) -> AgentError | None:
        name, first, last = batch.conversation_id, batch.entries[0], batch.entries[-1]
        one = self.logs.get(name)
        if batch.creates:
            if one is not None:
                return StoreError(f"conversation {name} is there already")
            owner = first.record.owner if isinstance(first.record, Opened) else LOCAL_NAME
            one = self.logs[name] = StoredLog(batch.epoch, first.at, last.at, batch.summary, owner)
        elif one is None or (one.epoch, len(one.entries)) != (batch.epoch - batch.claims, batch.previous_seq):
            return Fenced(f"conversation {name} has been taken over by another process")
        one.epoch, one.summary, one.updated_at = batch.epoch, batch.summary, max(one.updated_at, last.at)
        one.entries += batch.entries
        if batch.clears_text:
            one.said.clear()
        one.letters = [letter for letter in one.letters if letter.number > batch.takes_letters]
        self._history.committed(name, batch.entries)
        self._told(name, by)
        return None

    def save_text(self, name: ConversationId, epoch: int, said: SavedText, by: object, *, adds: bool) -> None:
        one = self.logs.get(name)
        if one is not None and one.epoch <= epoch:
            if not adds:
                one.said.clear()
            one.said.append(said)
            self._told(name, by)

    def post(self, name: ConversationId, op: Op, by: object) -> AgentError | None:
        one = self.logs.get(name)
        if one is None:
            return UnknownConversation(f"no conversation {name}")
        self._letters += 1
        one.letters.append(Letter(self._letters, op))
        self._history.note("letter", name, op=op)
        self._told(name, by)
        return None

    def archive(self, name: ConversationId, archived: bool, by: object) -> AgentError | None:
        one = self.logs.get(name)
        if one is None:
            return UnknownConversation(f"no conversation {name}")
        one.archived = archived
        self._told(name, by)
        return None

    def delete(self, name: ConversationId, by: object) -> None:
        if self.logs.pop(name, None) is not None:
            self._history.note("deleted", name)
        self.deleted.add(name)
        self._told(name, by)
