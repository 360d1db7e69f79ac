"""The files of a store, opened: a connection that writes and one that reads, which do no harm once the files are gone."""

import logging
import os
import sqlite3
import threading
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from understudy.errors import StoreError
from understudy.store import writing
from understudy.store.log import LATEST
from understudy.store.schema import migrate, refuse_newer
from understudy.store.seals import Seals
from understudy.store.second_names import SecondNames
from understudy.store.still_there import StillThere
from understudy.store.wal_copy import WalCopy

logger = logging.getLogger(__name__)


class OpenFiles:
    """Raises `sqlite3.Error`, `OSError` or `StoreError` where the store cannot be opened."""

    def __init__(self, path: Path, seals: Seals, busy_seconds: float) -> None:
        self._path = path
        self._busy_seconds = busy_seconds
        target = Path(os.path.realpath(path)) if path.is_symlink() else path  # SQLite puts its other files beside that
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
        """Nobody here needs that one any more; once nobody needs either, both are closed. From any thread, and perhaps again.

        Where the files are gone, SQLite is kept from a last look at them.
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
        """After each one, before anybody is told of it: why it may not be told."""
        if not self._copy.follow():
            self._names.note_cut()
            self.there.note_cut()
        return self.there.find_gone()

    def _prepare(self, seals: Seals) -> None:
        """The key of the seals; said aloud where it is gone, since nothing that was sealed with it can be checked."""
        if self.writer.execute("SELECT 1 FROM conversations WHERE length(seal) > 32 LIMIT 1").fetchone() is None:
            seals.prepare()
        elif not seals.is_there:
            logger.warning(
                "%s is missing: the next write makes a new one, and `understudy verify` then calls what was sealed with the former "
                "one broken. Put that back from a backup, or, if you trust what is in the store, use `understudy verify --seal`",
                seals.path,
            )

    def _make(self) -> None:
        """Readable by its owner only, which SQLite would not see to. One that is there is not opened: see `StillThere`."""
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False)


def use_write_ahead_log(connection: sqlite3.Connection, busy_seconds: float) -> None:
    """SQLite does not wait here by itself: two processes that open a new store at once would be in each other's way."""
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
    """The time of the last record of all. 0 where there is none, or none that can be read."""
    query = (
        "SELECT max(updated_at) FROM conversations WHERE archived = 0 UNION ALL "
        "SELECT max(updated_at) FROM conversations WHERE archived = 1"
    )
    try:
        found = connection.execute(query).fetchall()
    except sqlite3.Error:
        return 0.0  # whoever reads what is damaged is told
    return min(max((at for (at,) in found if isinstance(at, float)), default=0.0), LATEST)


def _never_close(connection: sqlite3.Connection) -> None:
    """Nor let the interpreter do so: SQLite would write its old log into the database, and delete the one that lies there now."""
    import ctypes  # only here

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
