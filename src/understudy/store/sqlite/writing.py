"""All kinds of writes, as rows of a view: one `INSERT` of many rows is one transaction, and one call into SQLite.

The writer's thread shares the interpreter's lock with the event loop and releases it around every call, so each call costs both of
them time. Triggers replace what would be a statement for every row: plain statements take a quarter less of the writer's time, but
50 sessions then get 1,835 replies a second instead of 2,245.
"""

import sqlite3
from collections.abc import Sequence
from itertools import chain

import msgspec

from understudy.protocol.callers import LOCAL_NAME
from understudy.protocol.ops import Op
from understudy.protocol.records import Opened
from understudy.store.chain import FIRST, SIZE, LastDigests, link_all
from understudy.store.log import Batch, SavedText

PACKED_RECORD = 1024 * 1024  # records of this many bytes are compressed; few are so large
PACKED_PIECE = 16 * 1024  # and pieces of the text so far
AT_ONCE = 256  # rows in one statement; more of them make one transaction of several

# Unused columns are 0, and the blobs of an append are `bytearray`: for `None` and `bytes` the sqlite3 module looks for a registered
# adapter each time, which takes an eighth of the writer's time for a commit.
Value = int | float | str | bytes | bytearray
Row = tuple[str, int, Value, Value, Value, Value, Value, Value, Value]  # kind, conversation, seven columns of that kind

_encode = msgspec.json.Encoder().encode

_HOLDS = "EXISTS (SELECT 1 FROM conversations WHERE number = NEW.conversation AND epoch <= NEW.b)"
_GONE = "SELECT RAISE(ABORT, 'gone') WHERE changes() = 0;"

_FENCED = "SELECT RAISE(ABORT, 'fenced') WHERE changes() = 0;"
_MOVED = "UPDATE conversations SET epoch = NEW.a, last_seq = NEW.b, updated_at = max(NEW.c, updated_at), summary = NEW.d"
_FROM = f"WHERE number = NEW.conversation AND epoch = NEW.e AND last_seq = NEW.f; {_FENCED}"
_HEAD = f"substr(NEW.g, 1, {SIZE})"  # a seal begins with the digest that it seals

_KINDS = {
    "open": "INSERT INTO conversations(number, id, epoch, last_seq, created_at, updated_at, summary, digest, seal)"
    f" VALUES (NEW.conversation, NEW.a, NEW.b, NEW.c, NEW.d, NEW.e, NEW.f, {_HEAD}, NEW.g);",
    "append": f"{_MOVED}, digest = {_HEAD}, seal = NEW.g {_FROM}",
    "append_unsealed": f"{_MOVED}, digest = NEW.g {_FROM}",  # keep the last valid seal: it shows where things went wrong
    "seal": "UPDATE conversations SET seal = NEW.a"
    f" WHERE number = NEW.conversation AND last_seq = NEW.b AND digest = NEW.c; {_FENCED}",
    "spent": "INSERT INTO spending VALUES (NEW.a, NEW.b, NEW.c, NEW.d, NEW.e) ON CONFLICT(name, day) DO UPDATE SET"
    " tokens = tokens + excluded.tokens, cost_usd = cost_usd + excluded.cost_usd, requests = requests + excluded.requests;",
    "record": "INSERT INTO records VALUES (NEW.conversation, NEW.a, NEW.b, NEW.c, NEW.d, NEW.e, NEW.f);",
    "owner": "UPDATE conversations SET owner = NEW.a WHERE number = NEW.conversation;",
    # text so far: only if the claim is still valid and the conversation still exists
    "said": "INSERT INTO said SELECT NEW.conversation,"
    " (SELECT coalesce(max(number), 0) + 1 FROM said WHERE conversation = NEW.conversation), NEW.a"
    f" WHERE {_HOLDS};",
    "printed": f"INSERT OR REPLACE INTO said SELECT NEW.conversation, 0, NEW.a WHERE {_HOLDS};",
    "unsaid": f"DELETE FROM said WHERE conversation = NEW.conversation AND {_HOLDS};"
    f" DELETE FROM partials WHERE conversation = NEW.conversation AND {_HOLDS};",
    "letter": "INSERT INTO inbox(conversation, op) SELECT number, NEW.a FROM conversations WHERE number = NEW.conversation;"
    f" {_GONE}",
    "read": "DELETE FROM inbox WHERE conversation = NEW.conversation AND number <= NEW.a;",
    "archive": f"UPDATE conversations SET archived = NEW.a WHERE number = NEW.conversation; {_GONE}",
    "delete": "DELETE FROM conversations WHERE number = NEW.conversation;"
    " DELETE FROM records WHERE conversation = NEW.conversation;"
    " DELETE FROM said WHERE conversation = NEW.conversation;"
    " DELETE FROM partials WHERE conversation = NEW.conversation;"
    " DELETE FROM older_digests WHERE conversation = NEW.conversation;"
    " DELETE FROM inbox WHERE conversation = NEW.conversation;",
}


def prepare(connection: sqlite3.Connection) -> None:
    """Make the view and its triggers. They belong to the connection, not to the file."""
    # Another process may have made the tables after this connection read the schema. A statement that misses a table reads it
    # again;
    # a trigger would not, and would always fail.
    connection.execute("SELECT 1 FROM conversations LIMIT 0")
    columns = "NULL AS kind, NULL AS conversation, NULL AS a, NULL AS b, NULL AS c, NULL AS d, NULL AS e, NULL AS f, NULL AS g"
    connection.execute(f"CREATE TEMP VIEW IF NOT EXISTS writing AS SELECT {columns}")
    for kind, action in _KINDS.items():
        when = f"INSTEAD OF INSERT ON writing WHEN NEW.kind = '{kind}'"
        connection.execute(f"CREATE TEMP TRIGGER IF NOT EXISTS writing_{kind} {when} BEGIN {action} END")


def write(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Write all of it durably, or nothing and raise: `sqlite3.Error`, or another error for a value that SQLite cannot hold."""
    if len(rows) <= AT_ONCE:
        connection.execute(_insert(len(rows)), list(chain.from_iterable(rows)))
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for start in range(0, len(rows), AT_ONCE):
            some = rows[start : start + AT_ONCE]
            connection.execute(_insert(len(some)), list(chain.from_iterable(some)))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def is_fenced(error: Exception) -> bool:
    """The conversation was not where the claim's holder left it."""
    return _was_raised(error, "fenced")


def is_gone(error: Exception) -> bool:
    """The conversation was deleted meanwhile."""
    return _was_raised(error, "gone")


def _was_raised(error: Exception, word: str) -> bool:
    return getattr(error, "sqlite_errorname", "") == "SQLITE_CONSTRAINT_TRIGGER" and str(error) == word


def _insert(count: int) -> str:
    return "INSERT INTO writing VALUES " + ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?, ?)"] * count)


# -- the kinds


def append(number: int, batch: Batch, heads: LastDigests) -> list[Row]:
    first, last = batch.entries[0], batch.entries[-1]
    summary = bytearray(_encode(batch.summary))
    encoded = batch.encoded or [_encode(entry.record) for entry in batch.entries]
    before = batch.epoch - int(batch.claims)
    digest, is_sealed = (FIRST, True) if batch.creates else heads.find(number, before, batch.previous_seq)
    digests = link_all(digest, batch.entries, encoded)
    digest = digests[-1]
    stored = [packed(data, PACKED_RECORD) for data in encoded] if max(map(len, encoded)) >= PACKED_RECORD else encoded
    records: list[Row] = [
        ("record", number, entry.seq, entry.parent, entry.turn, entry.at, bytearray(data), bytearray(linked), 0)
        for entry, data, linked in zip(batch.entries, stored, digests, strict=True)
    ]
    heads.note(number, batch.epoch, last.seq, digest, is_sealed)
    head = bytearray(heads.seal(batch.conversation_id, last.seq, digest) if is_sealed else digest)
    if batch.creates:
        made_at = first.at if batch.made_at is None else batch.made_at
        rows: list[Row] = [("open", number, batch.conversation_id, batch.epoch, last.seq, made_at, last.at, summary, head)]
        if isinstance(first.record, Opened) and first.record.owner != LOCAL_NAME:
            rows.append(("owner", number, first.record.owner, 0, 0, 0, 0, 0, 0))
    else:
        kind = "append" if is_sealed else "append_unsealed"
        rows = [(kind, number, batch.epoch, last.seq, last.at, summary, before, batch.previous_seq, head)]
    if batch.clears_text:  # before the records, which can then reuse its pages
        rows.append(("unsaid", number, 0, batch.epoch, 0, 0, 0, 0, 0))
    rows += records
    if batch.takes_letters:
        rows.append(("read", number, batch.takes_letters, 0, 0, 0, 0, 0, 0))
    return rows


def said(number: int, epoch: int, saved: SavedText, *, adds: bool) -> list[Row]:
    """Silently dropped if the claim is lost or the conversation deleted."""
    rows: list[Row] = [] if adds else [("unsaid", number, 0, epoch, 0, 0, 0, 0, 0)]
    if saved.outputs:
        printed = SavedText(saved.after, outputs=saved.outputs)
        rows.append(("printed", number, packed(_encode(printed), PACKED_PIECE), epoch, 0, 0, 0, 0, 0))
    if saved.text or saved.reasoning or saved.raw_reasoning or not saved.outputs:
        piece = SavedText(saved.after, saved.text, saved.reasoning, saved.raw_reasoning)
        rows.append(("said", number, packed(_encode(piece), PACKED_PIECE), epoch, 0, 0, 0, 0, 0))
    return rows


def letter(number: int, op: Op) -> list[Row]:
    return [("letter", number, _encode(op), 0, 0, 0, 0, 0, 0)]


def archive(number: int, archived: bool) -> list[Row]:
    return [("archive", number, int(archived), 0, 0, 0, 0, 0, 0)]


def seal(number: int, last_seq: int, digest: bytes, sealed: bytes) -> list[Row]:
    return [("seal", number, sealed, last_seq, digest, 0, 0, 0, 0)]


def delete(number: int) -> list[Row]:
    return [("delete", number, 0, 0, 0, 0, 0, 0, 0)]


def packed(data: bytes, least: int) -> bytes:
    """Compress large JSON: every byte is written twice, to the write-ahead log and to the database."""
    if len(data) < least:
        return data
    import zlib

    return zlib.compress(data, 1)
