"""The chain of digests over a conversation's records, and the seal on its last one. They reveal any record that was changed,
left out or cut off.
"""

import logging
import os
import sqlite3
import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from understudy.errors import StoreError
from understudy.protocol.records import Entry
from understudy.store.decoding import unpacked

logger = logging.getLogger(__name__)

KEY_FILE = "audit.key"
KEY_SIZE = 32

_WORD = b"understudy head\0"
_number = struct.Struct("<q")
_HMAC_SIZE = 32
_END = _number.size + _HMAC_SIZE  # of a seal, behind the digest


class Seals:
    """Makes and checks seals. Used by several threads. Without a readable key nothing is sealed and no seal is valid."""

    def __init__(self, state_dir: Path, key: Path | None = None) -> None:
        """`key`: a key file shared by servers that have separate folders."""
        self._path = key or state_dir / KEY_FILE
        self._sign: Callable[[bytes], bytes] | None = None
        self.problem = ""  # why there is no key
        self._unread = False  # the key exists, but reading it failed

    @property
    def path(self) -> Path:
        """The file of the key."""
        return self._path

    @property
    def is_there(self) -> bool:
        return self._path.exists()

    def prepare(self, *, may_make: bool) -> None:
        """Read the key, or make it if there is none yet.

        Raises StoreError if a key exists but cannot be read: records written without it would count as forged for ever.
        """
        if self._sign is None:
            self._find_key(may_make=may_make)
        if self._unread:
            raise StoreError(
                f"conversation store: {self.problem}. Everything in the store is sealed with it: make it readable for this user, "
                "or, if it is lost, delete it, and a new one is made"
            )

    def make(self, conversation_id: str, last_seq: int, digest: bytes) -> bytes:
        sign = self._sign or self._find_key(may_make=True)
        if sign is None:
            return digest
        head = digest + _number.pack(last_seq)
        return head + sign(conversation_id.encode() + head)

    def holds(self, conversation_id: str, last_seq: int, digest: bytes, seal: bytes) -> bool:
        """Whether the seal is valid for exactly this last record."""
        return self.open(conversation_id, seal) == (last_seq, digest)

    def open(self, conversation_id: str, seal: bytes) -> tuple[int, bytes] | None:
        """The sealed number and digest. None if this key did not seal it, or not for this conversation."""
        sign = self._sign or self._find_key(may_make=False)
        if sign is None or not isinstance(seal, bytes) or len(seal) <= _END:  # pyright: ignore[reportUnnecessaryIsInstance]  # damaged
            return None
        head, given = seal[:-_HMAC_SIZE], seal[-_HMAC_SIZE:]
        if given != sign(conversation_id.encode() + head):  # timing tells nobody anything: it comes from our own file
            return None
        return _number.unpack(seal[-_END:-_HMAC_SIZE])[0], seal[:-_END]

    def _find_key(self, *, may_make: bool) -> Callable[[bytes], bytes] | None:
        if self.problem:  # reported only once
            return None
        try:
            key = self._path.read_bytes()
        except FileNotFoundError:
            if not may_make:
                return None
            try:
                key = _make_key(self._path, KEY_SIZE)
            except OSError as error:
                return self._do_without(f"cannot be made: {error.strerror}")
        except OSError as error:
            self._unread = True
            return self._do_without(f"cannot be read: {error.strerror}")
        if len(key) != KEY_SIZE:
            return self._do_without(
                f"does not hold {KEY_SIZE} bytes; put it back from a backup, or delete it to have a new one made"
            )
        self._sign = _signer(key)
        return self._sign

    def _do_without(self, why: str) -> None:
        self.problem = f"{self._path} {why}"
        logger.warning("conversations are not sealed: %s", self.problem)


def _signer(key: bytes) -> Callable[[bytes], bytes]:
    """HMAC-SHA256 of a fixed word and the data. Copies a prepared state: `hmac.digest` reads the key each time and takes twice as
    long."""
    padded = key.ljust(sha256().block_size, b"\0")
    inner = sha256(bytes(byte ^ 0x36 for byte in padded) + _WORD)
    outer = sha256(bytes(byte ^ 0x5C for byte in padded))

    def sign(said: bytes) -> bytes:
        within, around = inner.copy(), outer.copy()
        within.update(said)
        around.update(within.digest())
        return around.digest()

    return sign


def _make_key(path: Path, size: int) -> bytes:
    """Make the key. If several processes do so at once, all get the same one. Raises OSError."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(os.urandom(size))
            file.flush()
            os.fsync(file.fileno())  # records sealed with the key reach the disk a moment later, so the key has to be there first
        with suppress(FileExistsError):
            os.link(beside, path)  # unlike a rename, this does not replace the key that another process has just made
    finally:
        os.unlink(beside)
    return path.read_bytes()


SIZE = 32
FIRST = b""  # before the first record
MOST_KNOWN = 4096

_PLACE = struct.Struct("<qqdI")


def link(previous: bytes, seq: int, parent: int, turn: str, at: float, data: bytes) -> bytes:
    """The digest of a record whose JSON is `data`."""
    name = turn.encode()
    return sha256(b"".join((previous, _PLACE.pack(seq, parent, at, len(name)), name, data))).digest()


def link_all(previous: bytes, entries: Sequence[Entry], encoded: Sequence[bytes]) -> list[bytes]:
    """The digests of consecutive records, whose JSON is `encoded`. One call packs all their fields: a batch of six takes 14 calls
    instead of 42, and every reply writes a batch.
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
    """Like `link`, for a row as the store has it, with texts as bytes. Works for damaged rows, too."""
    try:
        return link(previous, seq, parent, turn.decode("utf-8", "surrogateescape"), at, unpacked(data))
    except (ValueError, TypeError, AttributeError, struct.error):
        return link(previous, 0, 0, "", 0.0, repr((seq, parent, turn, at, data)).encode())


class LastDigests:
    """The last digests of conversations that this process writes to, so that the writer thread need not read them.

    Each digest was read under the claim that uses it, or written since; nobody else has written meanwhile. Each also says whether
    its seal was valid: after a head without a valid seal nothing more is sealed, because that would cover up a forgery.
    """

    def __init__(self, connection: sqlite3.Connection, seals: Seals) -> None:
        self._connection = connection
        self._seals = seals
        self._known: dict[int, tuple[int, int, bytes, bool]] = {}

    def find(self, number: int, epoch: int, last_seq: int) -> tuple[bytes, bool]:
        """The digest of the record `last_seq`, and whether its seal was valid. If the conversation is at another record, the digest
        is useless, and the write will be fenced.
        """
        known = self._known.get(number)
        if known is not None and known[0] == epoch and known[1] == last_seq:
            return known[2], known[3]
        wanted = "SELECT digest, id, last_seq, seal FROM conversations WHERE number = ?"
        found = self._connection.execute(wanted, (number,)).fetchone()
        return (FIRST, False) if found is None else (found[0], self._seals.holds(found[1], found[2], found[0], found[3]))

    def read(self, number: int, conversation_id: str, epoch: int, last_seq: int, digest: bytes, seal: bytes) -> None:
        """Remember a digest that was read under a claim."""
        self.note(number, epoch, last_seq, digest, self._seals.holds(conversation_id, last_seq, digest, seal))

    def seal(self, conversation_id: str, last_seq: int, digest: bytes) -> bytes:
        return self._seals.make(conversation_id, last_seq, digest)

    def note(self, number: int, epoch: int, last_seq: int, digest: bytes, is_sealed: bool) -> None:
        """Remember a digest that was read or is about to be written."""
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[number] = epoch, last_seq, digest, is_sealed

    def forget(self) -> None:
        """Forget all: a write has failed."""
        self._known.clear()


def link_older_records(connection: sqlite3.Connection, _: Seals) -> None:
    """Give every record from before there were digests its own, in one value for each conversation.

    The rows themselves stay as they are: rewriting them would take minutes in a large store.
    """
    connection.text_factory = bytes  # damaged rows may not be valid text
    try:
        for (number,) in connection.execute("SELECT number FROM conversations").fetchall():
            try:
                _link_older(connection, number)
            except sqlite3.DatabaseError as error:  # damaged pages must not make the other conversations unusable
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
    """Seal every conversation from before there were seals, as it is now. From then on, a missing seal means that it was
    removed."""
    rows = connection.execute("SELECT number, id, last_seq, digest FROM conversations").fetchall()
    sealed = [(seals.make(name, last_seq, digest), number) for number, name, last_seq, digest in rows]
    connection.executemany("UPDATE conversations SET seal = ? WHERE number = ?", sealed)
