"""What can be written, as statements of SQL, and that they are carried out together or not at all."""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from understudy.protocol.callers import LOCAL_NAME
from understudy.protocol.ops import Op
from understudy.protocol.records import Opened
from understudy.store.chain import FIRST, Heads, link
from understudy.store.log import Batch, SavedText

PACKED_RECORD = 1024 * 1024  # bytes from which a record is compressed: few ever are
PACKED_PIECE = 16 * 1024  # and a piece of the text so far

# The writer's thread gives up the interpreter's lock around every call into SQLite, and has to get it back from the event loop
# afterwards. So the records of a turn are one call, not one each.
AT_ONCE = 16

# Blobs of an append are `bytearray`: for `bytes` the module looks for an adapter that somebody may have registered, which is an
# eighth of what a commit costs the writer.
Value = int | float | str | bytes | bytearray


class Statement(NamedTuple):
    sql: str
    values: Sequence[Value]
    refusal: "type[Refused] | None" = None  # what it means that there was nothing to change


class Refused(Exception):
    """There was nothing to change."""


class Overtaken(Refused):
    """The conversation is not where its owner left it."""


class Gone(Refused):
    """The conversation has been deleted meanwhile."""


_encode = msgspec.json.Encoder().encode

_OPEN = (
    "INSERT INTO conversations(number, id, epoch, last_seq, created_at, updated_at, summary, digest)"
    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
)
_OWNER = "UPDATE conversations SET owner = ?2 WHERE number = ?1"
_MOVE = (
    "UPDATE conversations SET epoch = ?2, last_seq = ?3, updated_at = max(?4, updated_at), summary = ?5, digest = ?6"
    " WHERE number = ?1 AND epoch = ?7 AND last_seq = ?8"
)
# OR ROLLBACK: else SQLite copies every page that a statement of several rows changes, to be able to undo that statement alone.
_RECORDS = tuple(
    "INSERT OR ROLLBACK INTO records VALUES " + ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * count) for count in range(AT_ONCE + 1)
)

# The text so far, only of one who still has the conversation, and of one that is still there.
_HOLDS = "EXISTS (SELECT 1 FROM conversations WHERE number = ?1 AND epoch <= ?2)"
_SAID = f"INSERT INTO said SELECT ?1, (SELECT coalesce(max(number), 0) + 1 FROM said WHERE conversation = ?1), ?3 WHERE {_HOLDS}"
_PRINTED = f"INSERT OR REPLACE INTO said SELECT ?1, 0, ?3 WHERE {_HOLDS}"
_UNSAID = tuple(f"DELETE FROM {table} WHERE conversation = ?1 AND {_HOLDS}" for table in ("said", "partials"))

_LETTER = "INSERT INTO inbox(conversation, op) SELECT number, ?2 FROM conversations WHERE number = ?1"
_READ = "DELETE FROM inbox WHERE conversation = ?1 AND number <= ?2"
_ARCHIVE = "UPDATE conversations SET archived = ?2 WHERE number = ?1"
_DELETE = (
    "DELETE FROM conversations WHERE number = ?1",
    *(f"DELETE FROM {table} WHERE conversation = ?1" for table in ("records", "said", "partials", "older_digests", "inbox")),
)


def write(connection: sqlite3.Connection, statements: Sequence[Statement]) -> None:
    """All of it, durably, or nothing and an exception: `Refused`, `sqlite3.Error`, or whatever a value that SQLite cannot hold
    gives.
    """
    execute = connection.execute
    execute("BEGIN IMMEDIATE")
    try:
        for sql, values, refusal in statements:
            changed = execute(sql, values).rowcount
            if refusal is not None and changed == 0:
                raise refusal
        execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite may have ended it already
            execute("ROLLBACK")
        raise


# -- what is asked for


def append(number: int, batch: Batch, heads: Heads) -> list[Statement]:
    first, last = batch.entries[0], batch.entries[-1]
    summary = bytearray(_encode(batch.summary))
    encoded = batch.encoded or [_encode(entry.record) for entry in batch.entries]
    before = batch.epoch - int(batch.claims)
    digest = FIRST if batch.creates else heads.find(number, before, batch.previous_seq)
    values: list[Value] = []
    for entry, data in zip(batch.entries, encoded, strict=True):
        digest = link(digest, entry.seq, entry.parent, entry.turn, entry.at, data)
        stored = data if len(data) < PACKED_RECORD else packed(data, PACKED_RECORD)
        values += (number, entry.seq, entry.parent, entry.turn, entry.at, bytearray(stored), bytearray(digest))
    heads.note(number, batch.epoch, last.seq, digest)
    head = bytearray(digest)
    if batch.creates:
        opened = (number, batch.conversation_id, batch.epoch, last.seq, first.at, last.at, summary, head)
        statements = [Statement(_OPEN, opened)]
        if isinstance(first.record, Opened) and first.record.owner != LOCAL_NAME:
            statements.append(Statement(_OWNER, (number, first.record.owner)))
    else:
        moved = (number, batch.epoch, last.seq, last.at, summary, head, before, batch.previous_seq)
        statements = [Statement(_MOVE, moved, Overtaken)]
    if batch.clears_text:  # before the records, which can then use its pages
        statements += _unsaid(number, batch.epoch)
    statements += _records(values)
    if batch.takes_letters:
        statements.append(Statement(_READ, (number, batch.takes_letters)))
    return statements


def _records(values: list[Value]) -> list[Statement]:
    """Rows of seven columns, one behind the other."""
    most = AT_ONCE * 7
    pieces = [values] if len(values) <= most else [values[start : start + most] for start in range(0, len(values), most)]
    return [Statement(_RECORDS[len(piece) // 7], piece) for piece in pieces]


def said(number: int, epoch: int, saved: SavedText, *, adds: bool) -> list[Statement]:
    """Of one who was overtaken, or of a conversation that was deleted, nothing is kept. Nobody need be told of it."""
    statements = [] if adds else _unsaid(number, epoch)
    if saved.outputs:
        printed = SavedText(saved.after, outputs=saved.outputs)
        statements.append(Statement(_PRINTED, (number, epoch, packed(_encode(printed), PACKED_PIECE))))
    if saved.text or saved.reasoning or saved.raw_reasoning or not saved.outputs:
        piece = SavedText(saved.after, saved.text, saved.reasoning, saved.raw_reasoning)
        statements.append(Statement(_SAID, (number, epoch, packed(_encode(piece), PACKED_PIECE))))
    return statements


def _unsaid(number: int, epoch: int) -> list[Statement]:
    return [Statement(sql, (number, epoch)) for sql in _UNSAID]


def letter(number: int, op: Op) -> list[Statement]:
    return [Statement(_LETTER, (number, _encode(op)), Gone)]


def archive(number: int, archived: bool) -> list[Statement]:
    return [Statement(_ARCHIVE, (number, int(archived)), Gone)]


def delete(number: int) -> list[Statement]:
    return [Statement(sql, (number,)) for sql in _DELETE]


def packed(data: bytes, least: int) -> bytes:
    """Large JSON is stored compressed: every byte of it is written twice, to the write-ahead log and to the file."""
    if len(data) < least:
        return data
    import zlib

    return zlib.compress(data, 1)
