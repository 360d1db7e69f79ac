"""Giving back to the disk what deleted conversations took, a little at a time, while others write.

SQLite keeps the room of what was deleted for later. It gives it back in steps only if the file was made for that
(`auto_vacuum`), and such a file is a little slower to write; so a store becomes one when somebody limits its size. That writes the
file anew, once, and nobody can write meanwhile: it is begun only for a store that is soon done, and given up as soon as this
process has something to write, or ends.
"""

import asyncio
import logging
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Protocol

logger = logging.getLogger(__name__)

STEP_PAGES = 256  # 1 MB: a few milliseconds, in which nobody else can write
BETWEEN_STEPS_SECONDS = 0.02
INCREMENTAL = 2
LARGEST_TO_REWRITE = 128 << 20  # bytes of what is kept: about a second, for which writers of other processes wait
BUSY_SECONDS = 0.1  # that it waits for those who write; it comes again
OPERATIONS_BETWEEN_LOOKS = 1000  # of SQLite, at whether to go on: less than a millisecond
_LATER = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_INTERRUPT)


class AsksForWay(Protocol):
    """Whoever writes in this process."""

    @property
    def give_way(self) -> threading.Event | None:
        """Where there is one, it is set whenever something is to be written."""
        ...

    @give_way.setter
    def give_way(self, event: threading.Event | None) -> None: ...


class Shrinking:
    """One go at it, in a thread of its own."""

    def __init__(self, path: Path, writer: AsksForWay) -> None:
        self._path = path
        self._writer = writer
        self._asked_to_give_way = threading.Event()
        self._stopped = threading.Event()

    async def run(self) -> int:
        """By how many bytes the file is smaller then. Raises `sqlite3.Error`. When cancelled, it ends within a moment."""
        shrinking = asyncio.get_running_loop().run_in_executor(None, self._shrink)
        try:
            return await asyncio.shield(shrinking)
        except asyncio.CancelledError:
            self._stopped.set()
            await asyncio.wait([shrinking])
            if not shrinking.cancelled() and (error := shrinking.exception()) is not None:
                logger.info("%s was not made smaller: %s", self._path, error)
            raise

    def _shrink(self) -> int:
        with closing(sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            page_size, before = _number(connection, "page_size"), _number(connection, "page_count")
            connection.set_progress_handler(self._stopped.is_set, OPERATIONS_BETWEEN_LOOKS)
            try:
                if not self._can_shrink(connection):
                    return 0
                self._give_back(connection)
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()  # only then does the file get shorter
            except sqlite3.OperationalError as error:
                if (error.sqlite_errorcode & 0xFF) not in _LATER:
                    raise
                logger.debug("%s is made smaller another time: %s", self._path, error)
            return max(before - _number(connection, "page_count"), 0) * page_size

    def _give_back(self, connection: sqlite3.Connection) -> None:
        while free := _number(connection, "freelist_count"):
            connection.execute(f"PRAGMA incremental_vacuum({STEP_PAGES})").fetchall()
            if _number(connection, "freelist_count") >= free or self._stopped.wait(BETWEEN_STEPS_SECONDS):
                break  # another process writes meanwhile, or it is to end; the rest comes another time

    def _can_shrink(self, connection: sqlite3.Connection) -> bool:
        """Makes the file one that can, where it is none yet."""
        if _number(connection, "auto_vacuum") == INCREMENTAL:
            return True
        pages = _number(connection, "page_count") - _number(connection, "freelist_count")
        if pages * _number(connection, "page_size") > LARGEST_TO_REWRITE:
            hint = "while no server runs, do: sqlite3 %s 'PRAGMA auto_vacuum=2; VACUUM'"
            logger.warning(f"%s does not get smaller by itself: {hint}", self._path, self._path)
            return False
        connection.execute(f"PRAGMA auto_vacuum = {INCREMENTAL}")
        self._writer.give_way = self._asked_to_give_way
        connection.set_progress_handler(self._must_give_up, OPERATIONS_BETWEEN_LOOKS)
        try:
            connection.execute("VACUUM")
        finally:
            self._writer.give_way = None
            connection.set_progress_handler(self._stopped.is_set, OPERATIONS_BETWEEN_LOOKS)
        return _number(connection, "auto_vacuum") == INCREMENTAL

    def _must_give_up(self) -> bool:
        return self._asked_to_give_way.is_set() or self._stopped.is_set()


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])
