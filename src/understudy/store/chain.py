"""The chain of digests over a conversation's records, by number: none can be changed, left out or moved without a trace.

The digest of a record is the SHA-256 of the digest before it (nothing, for the first record), its number, the number of its parent,
its time, the length of its turn's name, that name, and the JSON of the record. Numbers have 64 bits, the time is a 64-bit float,
the length has 32 bits, all little-endian. The last digest is kept beside the conversation too, so that records missing at
the end are noticed; and it is sealed with a key of the state folder (`seals.py`), so that nobody without that key can write a
chain anew.
"""

import logging
import sqlite3
import struct
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

from understudy.protocol.records import Entry
from understudy.store.decoding import unpacked
from understudy.store.seals import Seals

logger = logging.getLogger(__name__)

SIZE = 32
FIRST = b""  # before the first record
MOST_KNOWN = 4096

_PLACE = struct.Struct("<qqdI")


def link(previous: bytes, seq: int, parent: int, turn: str, at: float, data: bytes) -> bytes:
    """The digest of a record whose JSON is `data`."""
    name = turn.encode()
    return sha256(b"".join((previous, _PLACE.pack(seq, parent, at, len(name)), name, data))).digest()


def link_all(previous: bytes, entries: Sequence[Entry], encoded: Sequence[bytes]) -> list[bytes]:
    """The digests of records that follow each other, whose JSON is `encoded`. All their places are packed by one call, which takes
    a batch of six from 42 calls to 14: every reply has one.
    """
    places: list[int | float] = []
    names: list[bytes] = []
    turn, name, size = "", b"", 0
    for entry in entries:
        if entry.turn != turn:
            turn = entry.turn
            name = turn.encode()
            size = len(name)
        places += (entry.seq, entry.parent, entry.at, size)
        names += (name,)
    packed, at = struct.pack("<" + "qqdI" * len(names), *places), 0
    digests: list[bytes] = []
    for name, data in zip(names, encoded, strict=True):
        previous = sha256(previous + packed[at : at + _PLACE.size] + name + data).digest()
        at += _PLACE.size
        digests += (previous,)
    return digests


def link_stored(previous: bytes, seq: Any, parent: Any, turn: Any, at: Any, data: Any) -> bytes:
    """The same of a row as it lies in the store, texts as bytes. A damaged row has a digest too."""
    try:
        return link(previous, seq, parent, turn.decode("utf-8", "surrogateescape"), at, unpacked(data))
    except (ValueError, TypeError, AttributeError, struct.error):
        return link(previous, 0, 0, "", 0.0, repr((seq, parent, turn, at, data)).encode())


class LastDigests:
    """The last digests of conversations that are written to here, so that the thread that writes need not read them.

    Each was read with the claim under which it is used, or was written since, and nobody else has written meanwhile. With it stands
    whether its seal was good: what follows a head without a good one is not sealed, or the next turn would cover up a forgery.
    """

    def __init__(self, connection: sqlite3.Connection, seals: Seals) -> None:
        self._connection = connection
        self._seals = seals
        self._known: dict[int, tuple[int, int, bytes, bool]] = {}

    def find(self, number: int, epoch: int, last_seq: int) -> tuple[bytes, bool]:
        """The digest of the record `last_seq`, and whether its seal was good. Where the conversation does not stand there, what is
        written with it is fenced.
        """
        known = self._known.get(number)
        if known is not None and known[0] == epoch and known[1] == last_seq:
            return known[2], known[3]
        wanted = "SELECT digest, id, last_seq, seal FROM conversations WHERE number = ?"
        found = self._connection.execute(wanted, (number,)).fetchone()
        return (FIRST, False) if found is None else (found[0], self._seals.holds(found[1], found[2], found[0], found[3]))

    def read(self, number: int, conversation_id: str, epoch: int, last_seq: int, digest: bytes, seal: bytes) -> None:
        """It was read, under a claim."""
        self.note(number, epoch, last_seq, digest, self._seals.holds(conversation_id, last_seq, digest, seal))

    def seal(self, conversation_id: str, last_seq: int, digest: bytes) -> bytes:
        return self._seals.make(conversation_id, last_seq, digest)

    def note(self, number: int, epoch: int, last_seq: int, digest: bytes, is_sealed: bool) -> None:
        """It was read, or is about to be written."""
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[number] = epoch, last_seq, digest, is_sealed

    def forget(self) -> None:
        """Something was not written after all."""
        self._known.clear()


def link_older_records(connection: sqlite3.Connection, _: Seals) -> None:
    """Give every record of a store from before there were digests its own, in one value for each conversation.

    Rows of records stay as they are: writing all of them again would take minutes in a large store.
    """
    connection.text_factory = bytes  # none of it need be text
    try:
        for (number,) in connection.execute("SELECT number FROM conversations").fetchall():
            try:
                _link_older(connection, number)
            except sqlite3.DatabaseError as error:  # pages are damaged: it must not keep the others from being used
                logger.error("conversation number %d cannot be read, and gets no digests: %s", number, error)
    finally:
        connection.text_factory = str


def _link_older(connection: sqlite3.Connection, number: int) -> None:
    previous, digests = FIRST, bytearray()
    rows: Iterable[tuple[Any, ...]] = connection.execute(
        "SELECT seq, parent, turn, at, data FROM records WHERE conversation = ? ORDER BY seq", (number,)
    )
    for row in rows:
        previous = link_stored(previous, *row)
        digests += previous
    connection.execute("UPDATE conversations SET digest = ? WHERE number = ?", (previous, number))
    connection.execute("INSERT INTO older_digests VALUES (?, ?)", (number, bytes(digests)))


def seal_older_heads(connection: sqlite3.Connection, seals: Seals) -> None:
    """Seal every conversation of a store from before there were seals as it is. From now on, one without a seal has lost it."""
    rows = connection.execute("SELECT number, id, last_seq, digest FROM conversations").fetchall()
    sealed = [(seals.make(name, last_seq, digest), number) for number, name, last_seq, digest in rows]
    connection.executemany("UPDATE conversations SET seal = ? WHERE number = ?", sealed)
