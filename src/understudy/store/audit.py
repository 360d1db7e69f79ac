"""Checks the chain of digests and the seal of a conversation, and says where the first damage is. Changes nothing."""

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from understudy.protocol.records import Opened, Record
from understudy.store.chain import FIRST, SIZE, Seals, link_stored
from understudy.store.decoding import unpacked
from understudy.store.log import Audited, Broken, BrokenKind

_MOST_TAKEN_OUT = 64  # the most missing records that we recognize when the rest were renumbered


class _Row(NamedTuple):
    seq: Any
    parent: Any
    turn: Any
    at: Any
    data: Any
    digest: Any

    def link(self, previous: bytes, seq: int | None = None, parent: int | None = None) -> bytes:
        at = self.seq if seq is None else seq
        return link_stored(previous, at, self.parent if parent is None else parent, self.turn, self.at, self.data)


class Head(NamedTuple):
    """What the store keeps about a conversation beside its records."""

    name: str
    last_seq: Any
    digest: Any
    seal: Any
    owner: Any


class _Break(Exception):
    def __init__(self, seq: int, kind: BrokenKind, text: str) -> None:
        self.broken = Broken(seq, kind, text)


def audit_conversation(connection: sqlite3.Connection, number: int, seals: Seals, head: str | None) -> Audited | None:
    """Check the conversation as it is at one moment, even if others write to it meanwhile. None if it does not exist.

    The connection must return texts as bytes. Raises `sqlite3.Error`.
    """
    connection.execute("BEGIN")
    try:
        wanted = "SELECT id, last_seq, digest, seal, owner FROM conversations WHERE number = ?"
        found = connection.execute(wanted, (number,)).fetchone()
        if found is None:
            return None
        stands = Head(found[0].decode("utf-8", "replace"), *found[1:])
        older = connection.execute("SELECT digests FROM older_digests WHERE conversation = ?", (number,)).fetchone()
        digests = older[0] if older is not None and isinstance(older[0], bytes) else b""
        return audit_rows(stands, _rows(connection, number), digests, seals, head)
    finally:
        connection.execute("ROLLBACK")


def _rows(connection: sqlite3.Connection, number: int) -> Iterator[tuple[Any, ...]]:
    """The rows, read one at a time as the caller asks for them, so damage is found only then."""
    wanted = "SELECT seq, parent, turn, at, data, digest FROM records WHERE conversation = ? ORDER BY seq"
    yield from connection.execute(wanted, (number,))


def audit_rows(stands: Head, rows: Iterable[tuple[Any, ...]], older: bytes, seals: Seals, head: str | None) -> Audited:
    """Check records in order. A row is number, parent, turn, time, JSON and digest, with texts as bytes; `older` holds the digests
    of records that have none of their own.
    """
    return _Walk(rows, older, seals, head).audit(stands)


class _Walk:
    def __init__(self, rows: Iterable[tuple[Any, ...]], older: bytes, seals: Seals, head: str | None) -> None:
        self._rows = map(_Row._make, rows)
        self._older_digests = older
        self._seals = seals
        self._asked = head
        self._asked_at: int | None = None
        self._records = self._older = self._uncovered = self._sealed = 0
        self._last = self._before_last = FIRST
        self._at_seal = b""  # the digest of the record whose number was sealed

    def audit(self, stands: Head) -> Audited:
        name, broken = stands.name, None
        try:
            self._follow(*stands)
        except _Break as error:
            broken = error.broken
        except sqlite3.DatabaseError as error:
            if not getattr(error, "sqlite_errorname", "").startswith("SQLITE_CORRUPT"):
                raise
            broken = Broken(self._records + 1, "unreadable", f"the file is damaged there: {error}")
        head = self._last.hex()
        return Audited(name, self._records, head, self._sealed, self._older, self._uncovered, self._asked_at, broken)

    def _follow(self, name: str, last_seq: Any, head: Any, seal: Any, owner: Any) -> None:
        sealed = self._seals.open(name, seal)
        first = self._read(last_seq, 0 if sealed is None else sealed[0])
        cut_from = self._records + 1
        if sealed is not None and sealed[0] > self._records:
            raise _Break(cut_from, "cut", f"{_span(cut_from, sealed[0])} cut off at the end: the seal is of record {sealed[0]}")
        if isinstance(last_seq, int) and last_seq > self._records:
            raise _Break(cut_from, "cut", f"{_span(cut_from, last_seq)} cut off at the end")
        if self._last != head:
            why = "records behind it were cut off, or it was changed together with its digest"
            raise _Break(self._records, "cut", f"record {self._records} is not the one that was written last: {why}")
        self._compare_seal(sealed, seal)
        self._compare_owner(first, owner)
        if self._asked is not None and self._asked_at is None:
            why = "the record that had it was cut off or changed, or one before it was"
            raise _Break(self._records, "head", f"no record has the digest {self._asked}: {why}")

    def _read(self, last_seq: Any, sealed_at: int) -> _Row | None:
        rows: Iterator[_Row] = self._rows
        older = self._older_digests
        first: _Row | None = None
        row = next(rows, None)
        while row is not None:
            following = next(rows, None)
            first = first or row
            self._take(row, following, older)
            if row.seq == sealed_at:
                self._at_seal = self._last
            if self._asked is not None and self._last.hex() == self._asked:
                self._asked_at = row.seq
            if not isinstance(last_seq, int) or row.seq > last_seq:
                raise _Break(row.seq, "inserted", f"record {row.seq} was added behind the last one, which is {last_seq}")
            row = following
        return first

    def _take(self, row: _Row, following: _Row | None, older: bytes) -> None:
        """Check the next record, or note the first break."""
        expected = self._records + 1
        if not isinstance(row.seq, int) or row.seq < expected:
            raise _Break(expected, "inserted", f"before record {expected} stands one that was never written, as {row.seq!r}")
        if row.seq > expected:
            raise _Break(expected, "missing", f"{_span(expected, row.seq - 1)} missing")
        digest = row.digest
        if digest is None:
            digest = older[(expected - 1) * SIZE : expected * SIZE]
            self._older += bool(digest)
            if not digest and self._uncovered == self._records:  # since the first record
                self._records = self._uncovered = expected
                return
        linked = row.link(self._last)
        if linked != digest:
            raise self._describe(row, following, digest)
        self._records, self._before_last, self._last = expected, self._last, linked

    def _describe(self, row: _Row, following: _Row | None, digest: bytes) -> _Break:
        """Guess what was done to a record: try which change would make the digests around it fit."""
        seq = row.seq
        if self._uncovered and self._uncovered + 1 == seq:
            return _Break(1, "changed", f"{_span(1, self._uncovered)} without the digest that record {seq} shows there was")
        if not digest:
            return _Break(seq, "changed", f"record {seq} has lost its digest")
        if digest == self._last:
            return _Break(seq, "inserted", f"record {seq} is a copy of the one before it")
        if seq > 1 and _was(row, digest, self._before_last, seq - 1):
            return _Break(seq - 1, "inserted", f"record {seq - 1} was never written: it was put before the one that is now {seq}")
        if following is not None and isinstance(following.digest, bytes) and isinstance(following.parent, int):
            if _was(following, following.digest, self._last, seq):
                if row.link(following.digest, seq + 1) == digest:
                    return _Break(seq, "moved", f"records {seq} and {seq + 1} have changed places")
                return _Break(seq, "inserted", f"record {seq} was never written: it was put before the one that is now {seq + 1}")
            for more in range(1, _MOST_TAKEN_OUT + 1):
                if _was(following, following.digest, digest, following.seq + more if isinstance(following.seq, int) else 0):
                    left_out = _span(seq, seq + more - 1)
                    return _Break(seq, "missing", f"{left_out} missing, and those behind have been given other numbers")
        return _Break(seq, "changed", f"record {seq} is not what was written")

    def _compare_seal(self, sealed: tuple[int, bytes] | None, seal: Any) -> None:
        if sealed is None:
            raise _Break(self._records, "seal", _why_no_seal(self._seals, bool(seal)))
        at, digest = sealed
        if self._at_seal != digest:
            why = "it, or one before it, was written anew with all digests behind it"
            raise _Break(at, "changed", f"record {at} is not the one that was sealed: {why}")
        self._sealed = at
        if at < self._records:
            raise _Break(at + 1, "inserted", f"{_span(at + 1, self._records)} without a seal: added by something that has no key")

    def _compare_owner(self, first: _Row | None, owner: Any) -> None:
        """The owner is stored outside the chain, so it must match what the first record says."""
        try:
            record = None if first is None else msgspec.json.decode(unpacked(first.data), type=Record)
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
            return  # unchanged, or too old to be covered
        if isinstance(record, Opened) and record.owner.encode() != owner:
            named = owner.decode("utf-8", "replace") if isinstance(owner, bytes) else repr(owner)
            raise _Break(1, "owner", f"it is kept as a conversation of {named!r}, and record 1 says {record.owner!r}")


def _was(row: _Row, digest: bytes, previous: bytes, seq: int) -> bool:
    """Whether it was written as record `seq`. A renumbered record may have a renumbered parent, too."""
    if not isinstance(row.parent, int) or not isinstance(row.seq, int):
        return False
    return any(row.link(previous, seq, parent) == digest for parent in {row.parent, row.parent + seq - row.seq})


def _why_no_seal(seals: Seals, has_one: bool) -> str:
    if seals.problem:
        return f"its end cannot be checked: {seals.problem}"
    if not has_one:
        return "its end has lost its seal"
    return (
        "the seal of its end was not made with this key: it was changed, or the store or the key comes from elsewhere, or the key "
        "was deleted and made anew; put the former key back, or, if you trust what is there, use `understudy verify --seal`"
    )


def _span(first: int, last: int) -> str:
    return f"record {first} is" if first == last else f"records {first} to {last} are"
