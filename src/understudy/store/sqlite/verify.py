"""Verifies that a store holds what was written: reads every record and summary, checks every log and chain. Changes nothing."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from understudy.protocol.records import Opened, Record
from understudy.store.chain import FIRST, SIZE, link_stored
from understudy.store.decoding import unpacked
from understudy.store.log import Summary, Verified
from understudy.store.sqlite.writer import explain

MOST_NAMED = 20


def verify_records(path: Path, most: int | None) -> Verified:
    """The newest conversations first, until `most` records were read. Raises `StoreError` if nothing can be read."""
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        connection.text_factory = bytes  # damaged rows may not be valid text
        try:
            return _verify(connection, most)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise explain(error, str(path)) from error


def _verify(connection: sqlite3.Connection, most: int | None) -> Verified:
    connection.execute("BEGIN")  # one snapshot, although others may write
    rows = connection.execute("SELECT id, number, last_seq, summary, digest FROM conversations ORDER BY updated_at DESC").fetchall()
    heads = [Stored(row[0].decode(errors="replace"), *row[1:]) for row in rows]
    return verify_stored(heads, partial(_records, connection), most)


def _records(connection: sqlite3.Connection, number: int) -> "Records":
    wanted = "SELECT seq, parent, turn, at, data, digest FROM records WHERE conversation = ? ORDER BY seq"
    older = connection.execute("SELECT digests FROM older_digests WHERE conversation = ?", (number,)).fetchone()
    return connection.execute(wanted, (number,)), older[0] if older else b""


class Stored(NamedTuple):
    """What the store keeps about a conversation beside its records."""

    name: str
    number: int
    last_seq: int
    summary: bytes
    head: bytes


# Number, parent, turn, time, JSON and digest of each record, with texts as bytes; and the digests of records that have none of
# their own.
Records = tuple[Iterable[tuple[Any, ...]], bytes]


def verify_stored(conversations: Sequence[Stored], records_of: Callable[[int], Records], most: int | None) -> Verified:
    """The first of them, until `most` records were read."""
    records = damaged = 0
    problems: list[str] = []
    for stored in conversations:
        if most is not None and records >= most:
            break
        found = list(_problems(stored, *records_of(stored.number)))
        records += stored.last_seq
        damaged += bool(found)
        problems += [f"{stored.name}: {problem}" for problem in found[:3]]
    total = sum(stored.last_seq for stored in conversations)
    return Verified(records, total, tuple(problems[:MOST_NAMED]), damaged)


_decode_record = msgspec.json.Decoder(Record).decode
_decode_summary = msgspec.json.Decoder(Summary).decode


def _problems(stored: Stored, rows: Iterable[tuple[Any, ...]], older: bytes) -> Iterator[str]:
    last_seq = stored.last_seq
    try:
        _decode_summary(stored.summary)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        yield f"its summary cannot be read: {error}"
    expected = 0
    chain = _Chain(older)
    for seq, parent, turn, at, data, digest in rows:
        expected += 1
        if seq != expected:
            yield f"record {expected} is missing"
            expected = seq
        is_linked = chain.holds((seq, parent, turn, at, data), digest)
        try:
            record = _decode_record(unpacked(data))
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
            yield f"record {seq} cannot be read: {error}"
            continue
        if not is_linked:
            yield f"the chain of digests is broken at record {seq}: it, or one before it, is not what was written"
        if (seq == 1) != isinstance(record, Opened) or not 0 <= parent < seq:
            yield f"record {seq} is out of its place"
    if expected != last_seq:
        yield f"it should have {last_seq} records, and the last one is {expected}"
    elif chain.last != stored.head and not chain.broken:
        yield f"the chain of digests does not end as it did: record {last_seq} is not the one that was written last"


class _Chain:
    """Checks the digests of one conversation, up to the first that is wrong."""

    def __init__(self, older: bytes) -> None:
        self._older = older
        self._rows = 0
        self.last = FIRST
        self.broken = False

    def holds(self, row: tuple[Any, ...], digest: bytes | None) -> bool:
        """Whether the next record is unchanged. A record without a digest was already unreadable when digests were introduced."""
        expected = self._older[self._rows * SIZE : (self._rows + 1) * SIZE] if digest is None else digest
        self._rows += 1
        if self.broken:
            return True
        self.last = link_stored(self.last, *row) if expected else FIRST
        self.broken = self.last != expected
        return not self.broken
