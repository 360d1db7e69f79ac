"""Opens the files of a store: makes or upgrades the tables, and gives connections that write and read without doing harm."""

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from understudy.errors import StoreError
from understudy.store.chain import Seals, link_older_records, seal_older_heads
from understudy.store.log import LATEST
from understudy.store.sqlite import writing
from understudy.store.sqlite.second_names import SecondNames
from understudy.store.sqlite.still_there import StillThere
from understudy.store.sqlite.wal import WalCopy

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
    # Text so far is appended, not rewritten each time. The old table stays, empty: an older build may have the store open.
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
    # Who owns a conversation, and the chain of digests. Earlier records have their digests in a table of their own.
    """
    ALTER TABLE conversations ADD COLUMN owner TEXT NOT NULL DEFAULT 'local';
    ALTER TABLE conversations ADD COLUMN digest BLOB NOT NULL DEFAULT x'';
    ALTER TABLE records ADD COLUMN digest BLOB;
    CREATE TABLE older_digests(conversation INTEGER PRIMARY KEY, digests BLOB NOT NULL);
    """,
    # The seal on the end of the chain.
    """
    ALTER TABLE conversations ADD COLUMN seal BLOB NOT NULL DEFAULT x'';
    """,
    # What a search checks before it trusts the search index, which is a separate file. Triggers write it in the same commit as the
    # records, even if an older build writes.
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
# Further steps after the upgrade to a version.
AFTER: dict[int, Callable[[sqlite3.Connection, Seals], None]] = {3: link_older_records, 4: seal_older_heads}


def refuse_newer(connection: sqlite3.Connection, path: Path) -> None:
    """Raises `StoreError` for a store of a newer version, without touching its files. Must come first on a connection."""
    version = _version(connection)
    if version <= len(MIGRATIONS):
        return
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as looker:
        _version(looker)
        connection.close()  # the last connection that may write would merge the write-ahead log into the store; a reader does not
    raise _from_the_future(path, version)


def migrate(connection: sqlite3.Connection, path: Path, seals: Seals) -> None:
    """Upgrade the store to the newest version, in one transaction."""
    if _version(connection) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection)  # read again, because another process may have upgraded it
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
        if connection.in_transaction:  # an error such as a full disk has ended it already; report that one
            connection.execute("ROLLBACK")
        raise


def statements_of(script: str) -> Iterator[str]:
    """Split it into statements. A trigger contains semicolons of its own."""
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


logger = logging.getLogger(__name__)


class OpenFiles:
    """Raises `sqlite3.Error`, `OSError` or `StoreError` if the store cannot be opened."""

    def __init__(self, path: Path, seals: Seals, busy_seconds: float) -> None:
        self._path = path
        self._busy_seconds = busy_seconds
        target = Path(os.path.realpath(path)) if path.is_symlink() else path  # SQLite puts its other files beside the real one
        self._names = SecondNames(target)
        self._closing = threading.Lock()
        with self._names.alone(), ExitStack() as opened:
            self._names.restore()
            self._make()
            self.writer = opened.enter_context(closing(self._connect()))
            refuse_newer(self.writer, path)
            use_write_ahead_log(self.writer, busy_seconds)
            self.writer.execute("PRAGMA synchronous = FULL")
            migrate(self.writer, path, seals)
            writing.prepare(self.writer)
            self.reader = opened.enter_context(closing(self._connect()))
            self.reader.execute("PRAGMA query_only = 1")
            self._prepare(seals)
            self.newest = _newest(self.reader)
            self._names.keep()
            self.there = StillThere(path, target, self._names.note_gone)
            self._copy = WalCopy(self._names.wal, self._names.copy, self.there.memory.read)
            opened.pop_all()  # nothing can fail any more
        self._open = [self.writer, self.reader]

    def close(self, connection: sqlite3.Connection) -> None:
        """The caller no longer needs this connection; once neither is needed, both are closed. May be called from any thread, and
        again.

        If the files are gone, SQLite is kept from touching them.
        """
        with self._closing:
            if connection not in self._open:
                return
            self._open.remove(connection)
            if self._open:
                return
            with ExitStack() as alone:
                with suppress(OSError):  # the folder is gone
                    alone.enter_context(self._names.alone())
                gone = self.there.find_gone() is not None
                self._copy.close()
                for each in (self.reader, self.writer):
                    if gone:
                        _never_close(each)
                    else:
                        each.close()
                self.there.memory.close()
                self._names.let_go(is_gone=gone)

    def check_commit(self) -> StoreError | None:
        """Call it after each commit. Returns why the commit must not be reported as durable, if so."""
        if not self._copy.follow():
            self._names.note_cut()
            self.there.note_cut()
        return self.there.find_gone()

    def _prepare(self, seals: Seals) -> None:
        """Get the key of the seals. Its loss is logged, because nothing that it sealed can be checked any more."""
        if self.writer.execute("SELECT 1 FROM conversations WHERE length(seal) > 32 LIMIT 1").fetchone() is None:
            seals.prepare(may_make=True)
        elif seals.is_there:
            seals.prepare(may_make=False)
        else:
            logger.warning(
                "%s is missing: the next write makes a new one, and `understudy verify` then calls what was sealed with the former "
                "one broken. Put that back from a backup, or, if you trust what is in the store, use `understudy verify --seal`",
                seals.path,
            )

    def _make(self) -> None:
        """Make the file, readable only by its owner, which SQLite does not ensure. An existing file is not opened: see
        `StillThere`."""
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False)


def use_write_ahead_log(connection: sqlite3.Connection, busy_seconds: float) -> None:
    """SQLite does not wait by itself for this, and two processes may open a new store at once."""
    give_up = time.monotonic() + busy_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > give_up:
                raise
            time.sleep(0.002)
        else:
            return


def _newest(connection: sqlite3.Connection) -> float:
    """The time of the newest record. 0 if there is none, or none that can be read."""
    query = (
        "SELECT max(updated_at) FROM conversations WHERE archived = 0 UNION ALL "
        "SELECT max(updated_at) FROM conversations WHERE archived = 1"
    )
    try:
        found = connection.execute(query).fetchall()
    except sqlite3.Error:
        return 0.0  # damage is reported to whoever reads
    return min(max((at for (at,) in found if isinstance(at, float)), default=0.0), LATEST)


def _never_close(connection: sqlite3.Connection) -> None:
    """Keep the connection open, even at the end of the interpreter: closing it would write the old log into the database and delete
    the log that is there now."""
    import ctypes  # only here

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
