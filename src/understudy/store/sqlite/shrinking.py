"""Gives the space of deleted conversations back to the disk, a little at a time, while others write.

SQLite keeps free space for later. It returns it in steps only if the file was made for that (`auto_vacuum`), which makes writing
slightly slower; so a store is converted only when somebody limits its size. That rewrites the file once, and nobody can write
meanwhile: it is done only to small stores, and given up as soon as this process has something to write, or ends.
"""

import asyncio
import logging
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Protocol

logger = logging.getLogger(__name__)

STEP_PAGES = 256  # 1 MB: takes a few milliseconds, during which nobody else can write
BETWEEN_STEPS_SECONDS = 0.02
INCREMENTAL = 2
LARGEST_TO_REWRITE = 128 << 20  # bytes in use: takes about a second, for which writers of other processes wait
BUSY_SECONDS = 0.1  # how long it waits for writers before it gives up until the next time
OPERATIONS_BETWEEN_LOOKS = 1000  # SQLite operations between two checks whether to stop: less than a millisecond
_LATER = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_INTERRUPT)


class AsksForWay(Protocol):
    """The writer of this process."""

    @property
    def give_way(self) -> threading.Event | None:
        """An event that is set when something waits to be written."""
        ...

    @give_way.setter
    def give_way(self, event: threading.Event | None) -> None: ...


class Shrinking:
    """One attempt, in a thread of its own."""

    def __init__(self, path: Path, writer: AsksForWay) -> None:
        self._path = path
        self._writer = writer
        self._asked_to_give_way = threading.Event()
        self._stopped = threading.Event()

    async def run(self) -> int:
        """Returns by how many bytes the file got smaller. Raises `sqlite3.Error`. Can be cancelled within a moment."""
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
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()  # only this makes the file shorter
            except sqlite3.OperationalError as error:
                if (error.sqlite_errorcode & 0xFF) not in _LATER:
                    raise
                logger.debug("%s is made smaller another time: %s", self._path, error)
            return max(before - _number(connection, "page_count"), 0) * page_size

    def _give_back(self, connection: sqlite3.Connection) -> None:
        while free := _number(connection, "freelist_count"):
            connection.execute(f"PRAGMA incremental_vacuum({STEP_PAGES})").fetchall()
            if _number(connection, "freelist_count") >= free or self._stopped.wait(BETWEEN_STEPS_SECONDS):
                break  # another process writes, or we were asked to stop; the rest is left for another time

    def _can_shrink(self, connection: sqlite3.Connection) -> bool:
        """Convert the file if needed. False if it cannot be done now."""
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
