"""What a move needs of a store, and a conversation as it is moved, row by row as stored."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import msgspec

from understudy.store.audit import Head, audit_rows
from understudy.store.chain import Seals
from understudy.store.log import Audited

# Columns of `conversations`, in the order of `Moved.row`.
COLUMNS = "number, id, epoch, last_seq, created_at, updated_at, archived, summary, owner, digest, seal"

SUMMARY = COLUMNS.split(", ").index("summary")

SPENDING = "name, day, tokens, cost_usd, requests"


class Moved(msgspec.Struct):
    row: tuple[Any, ...]
    records: Sequence[tuple[Any, ...]]  # number, parent, turn, time, JSON, digest
    older: bytes  # digests of records that have none of their own
    said: Sequence[tuple[int, bytes]]
    letters: Sequence[tuple[int, bytes]]

    @property
    def name(self) -> str:
        return str(self.row[1])

    def audit(self, seals: Seals) -> Audited:
        _, name, _, last_seq, _, _, _, _, owner, digest, seal = self.row
        rows = ((seq, parent, turn.encode(), at, data, linked) for seq, parent, turn, at, data, linked in self.records)
        return audit_rows(Head(name, last_seq, digest, seal, owner.encode()), rows, self.older, seals, None)


class End(Protocol):
    """The source or the target of a move. Its methods raise `StoreError`."""

    place: str

    def held(self) -> Sequence[str]:
        """Ids of conversations that a process holds."""
        ...

    def moved_to(self) -> str | None: ...

    def mark(self, place: str) -> None:
        """From now on refuse all writes, also by processes that have the store open."""
        ...

    def unmark(self) -> None: ...

    def count(self) -> int: ...

    def names(self) -> Sequence[str]: ...

    def take(self, name: str) -> Moved: ...

    def spending(self) -> Sequence[tuple[Any, ...]]:
        """Name, day, tokens, USD and requests of people with a budget."""
        ...

    def put_all(self, conversations: Iterator[Moved], spending: Sequence[tuple[Any, ...]]) -> None:
        """Put all of them, or none."""
        ...

    def close(self) -> None: ...
