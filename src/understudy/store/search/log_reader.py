"""Reads the log for the index, through a read-only connection of its own."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Record
from understudy.store.decoding import record_decoder, unpacked
from understudy.store.log import LATEST

READ_AT_ONCE = 64
_UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, RecursionError)


class Standing(msgspec.Struct, frozen=True):
    """The position of a conversation, as its row says."""

    conversation_id: ConversationId
    last_seq: Any
    digest: Any
    owner: str


class Read(msgspec.Struct, frozen=True):
    seq: int
    at: float
    digest: bytes
    record: Record | None  # None: unreadable


def _bytes(stored: Any) -> bytes:
    return stored if isinstance(stored, bytes) else b""


def _decode(text: bytes) -> str:
    return text.decode(errors="replace")  # damaged rows must not hide the others


class LogReader:
    """Used by one thread at a time. Raises `sqlite3.Error`."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
        )
        self._connection.text_factory = _decode

    def close(self) -> None:
        self._connection.close()

    def mark(self) -> bytes | None:
        """The mark of the index that has all conversations but those noted as missing."""
        row = self._connection.execute("SELECT mark FROM search_index").fetchone()
        return None if row is None else row[0]

    def missing(self, most: int, *, only_deleted: bool = False) -> list[int]:
        """Conversations that the index lacks, or has in an older state."""
        gone = "WHERE conversation NOT IN (SELECT number FROM conversations)" if only_deleted else ""
        return [row[0] for row in self._connection.execute(f"SELECT conversation FROM unindexed {gone} LIMIT ?", (most,))]

    def progress(self) -> tuple[int, int]:
        """How many conversations are missing, of how many."""
        return self._connection.execute("SELECT (SELECT count(*) FROM unindexed), (SELECT count(*) FROM conversations)").fetchone()

    def standing(self, conversation: int) -> Standing | None:
        query = "SELECT id, last_seq, digest, owner FROM conversations WHERE number = ?"
        row = self._connection.execute(query, (conversation,)).fetchone()
        return None if row is None else Standing(ConversationId(str(row[0])), row[1], row[2], str(row[3]))

    def digest_of(self, conversation: int, seq: int) -> bytes | None:
        """None if there is no such record."""
        row = self._connection.execute(
            "SELECT digest FROM records WHERE conversation = ? AND seq = ?", (conversation, seq)
        ).fetchone()
        return None if row is None else _bytes(row[0])

    def records(self, conversation: int, after: int, most: int = READ_AT_ONCE) -> Iterator[Read]:
        query = "SELECT seq, at, digest, data FROM records WHERE conversation = ? AND seq > ? ORDER BY seq LIMIT ?"
        decode = record_decoder()
        for seq, at, digest, data in self._connection.execute(query, (conversation, after, most)):
            try:
                record = decode(unpacked(data))
            except _UNREADABLE:  # damage is reported to whoever reads the conversation
                record = None
            yield Read(seq, at if isinstance(at, float) and 0 <= at <= LATEST else 0.0, _bytes(digest), record)

    def record(self, conversation: int, seq: int) -> Read | None:
        return next((read for read in self.records(conversation, seq - 1, 1) if read.seq == seq), None)
