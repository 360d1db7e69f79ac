"""Giving back to the disk what deleted conversations took, a little at a time, while others write.

SQLite keeps the room of what was deleted for later. It gives it back in steps only if the file was made for that
(`auto_vacuum`), and such a file is a little slower to write; so a store becomes one when somebody limits its size.
"""

import logging
import sqlite3
import time
from contextlib import closing
from pathlib import Path

logger = logging.getLogger(__name__)

STEP_PAGES = 256  # 1 MB: a few milliseconds, in which nobody else can write
BETWEEN_STEPS_SECONDS = 0.02
INCREMENTAL = 2
LARGEST_TO_REWRITE = 1 << 30  # bytes; it would keep others from writing for too long
BUSY_SECONDS = 5.0


def shrink(path: Path) -> int:
    """By how many bytes the file is smaller then. It takes its time: not for the event loop. Raises `sqlite3.Error`."""
    with closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        if not _can_shrink(connection, path):
            return 0
        page_size = _number(connection, "page_size")
        before = _number(connection, "page_count")
        while free := _number(connection, "freelist_count"):
            connection.execute(f"PRAGMA incremental_vacuum({STEP_PAGES})").fetchall()
            if _number(connection, "freelist_count") >= free:
                break  # another process writes meanwhile; the rest comes another time
            time.sleep(BETWEEN_STEPS_SECONDS)
        after = _number(connection, "page_count")
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()  # only then does the file get shorter
        return max(before - after, 0) * page_size


def _can_shrink(connection: sqlite3.Connection, path: Path) -> bool:
    """Makes the file one that can, where it is none yet: that writes it anew, once."""
    if _number(connection, "auto_vacuum") == INCREMENTAL:
        return True
    if path.stat().st_size > LARGEST_TO_REWRITE:
        logger.warning(
            "%s does not get smaller by itself: while no server runs, do: sqlite3 %s 'PRAGMA auto_vacuum=2; VACUUM'", path, path
        )
        return False
    connection.execute(f"PRAGMA auto_vacuum = {INCREMENTAL}")
    connection.execute("VACUUM")
    return _number(connection, "auto_vacuum") == INCREMENTAL


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])
