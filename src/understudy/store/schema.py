"""The tables, and how an older store becomes a newer one."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from understudy.errors import StoreError
from understudy.store.chain import link_older_records, seal_older_heads
from understudy.store.seals import Seals

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE conversations(
        number INTEGER PRIMARY KEY,      -- 63 bits of the id: the key of the other tables, and the byte that is locked
        id TEXT NOT NULL UNIQUE,
        epoch INTEGER NOT NULL,
        last_seq INTEGER NOT NULL,
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        archived INTEGER NOT NULL DEFAULT 0,
        summary BLOB NOT NULL
    );
    CREATE INDEX conversations_by_activity ON conversations(archived, updated_at, number);
    CREATE TABLE records(
        conversation INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        parent INTEGER NOT NULL,
        turn TEXT NOT NULL,
        at REAL NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY(conversation, seq)
    ) WITHOUT ROWID;
    CREATE TABLE partials(conversation INTEGER PRIMARY KEY, data BLOB NOT NULL);
    CREATE TABLE inbox(number INTEGER PRIMARY KEY AUTOINCREMENT, conversation INTEGER NOT NULL, op BLOB NOT NULL);
    CREATE INDEX inbox_by_conversation ON inbox(conversation, number);
    """,
    # The text so far is added to, not written anew each time. The old table stays, empty: an older build may have the store open.
    """
    CREATE TABLE said(
        conversation INTEGER NOT NULL,
        number INTEGER NOT NULL,         -- 0 is what running commands print, from 1 on are pieces of text
        data BLOB NOT NULL,
        PRIMARY KEY(conversation, number)
    ) WITHOUT ROWID;
    INSERT INTO said SELECT conversation, 1, data FROM partials;
    DELETE FROM partials;
    """,
    # Who a conversation belongs to, and the chain of digests. Records from before it have theirs in a table of their own.
    """
    ALTER TABLE conversations ADD COLUMN owner TEXT NOT NULL DEFAULT 'local';
    ALTER TABLE conversations ADD COLUMN digest BLOB NOT NULL DEFAULT x'';
    ALTER TABLE records ADD COLUMN digest BLOB;
    CREATE TABLE older_digests(conversation INTEGER PRIMARY KEY, digests BLOB NOT NULL);
    """,
    # Where the chain of digests ends, sealed.
    """
    ALTER TABLE conversations ADD COLUMN seal BLOB NOT NULL DEFAULT x'';
    """,
    # What a search looks at before it trusts the index of words, which is a file of its own. Triggers of the store, so that whoever
    # writes notes it with the same commit: an older build that has the store open, too.
    """
    CREATE TABLE search_index(mark BLOB NOT NULL);   -- which index has everything but what is unindexed
    CREATE TABLE unindexed(conversation INTEGER PRIMARY KEY);
    CREATE TRIGGER unindexed_new AFTER INSERT ON conversations BEGIN
        INSERT OR IGNORE INTO unindexed VALUES (NEW.number); END;
    CREATE TRIGGER unindexed_more AFTER UPDATE OF last_seq ON conversations BEGIN
        INSERT OR IGNORE INTO unindexed VALUES (NEW.number); END;
    CREATE TRIGGER unindexed_gone AFTER DELETE ON conversations BEGIN
        INSERT OR IGNORE INTO unindexed VALUES (OLD.number); END;
    """,
    # What people with a token of their own have used.
    """
    CREATE TABLE spending(
        name TEXT NOT NULL,
        day TEXT NOT NULL,
        tokens INTEGER NOT NULL,
        cost_usd REAL NOT NULL,
        requests INTEGER NOT NULL,
        PRIMARY KEY(name, day)
    ) WITHOUT ROWID;
    """,
)
# What is left to do for a version.
AFTER: dict[int, Callable[[sqlite3.Connection, Seals], None]] = {3: link_older_records, 4: seal_older_heads}


def refuse_newer(connection: sqlite3.Connection, path: Path) -> None:
    """Raises `StoreError` for a store from the future, and leaves its files as they are. Comes before all else on a connection."""
    version = _version(connection)
    if version <= len(MIGRATIONS):
        return
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as looker:
        _version(looker)
        connection.close()  # the last that may write would put the write-ahead log into the store, which a reader does not
    raise _from_the_future(path, version)


def migrate(connection: sqlite3.Connection, path: Path, seals: Seals) -> None:
    """Bring the store to the newest version, in one transaction."""
    if _version(connection) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection)  # read again: another process may have been first
        if version > len(MIGRATIONS):
            raise _from_the_future(path, version)
        for number in range(version, len(MIGRATIONS)):
            for statement in statements_of(MIGRATIONS[number]):
                connection.execute(statement)
            if number + 1 in AFTER:
                AFTER[number + 1](connection, seals)
            connection.execute(f"PRAGMA user_version = {number + 1}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk, say, has ended it already, and is the reason to be told
            connection.execute("ROLLBACK")
        raise


def statements_of(script: str) -> Iterator[str]:
    """One by one: a trigger has semicolons of its own."""
    statement = ""
    for piece in script.split(";")[:-1]:
        statement += f"{piece};"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _from_the_future(path: Path, version: int) -> StoreError:
    return StoreError(
        f"{path} was written by a newer understudy (version {version}, this one knows {len(MIGRATIONS)}); upgrade understudy"
    )


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
