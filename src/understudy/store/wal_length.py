"""Making the write-ahead log long enough before it is needed.

A commit that makes the file longer has to wait until the file system has recorded its new length: 0.25 ms instead of 0.14, of the
0.7 that a client waits for the answer to a cancelled call. SQLite goes back to the beginning of the file once it holds a thousand
pages, so after this much nothing grows any more. What lies behind the last frame means nothing to SQLite: it reads up to the first
that does not fit.
"""

import os
import sqlite3
from pathlib import Path

PAGES = 1000  # as SQLite has it: `wal_autocheckpoint`
PAGE, FRAME_HEADER, FILE_HEADER = 4096, 24, 32
ENOUGH = FILE_HEADER + PAGES * (FRAME_HEADER + PAGE)
STEP = 512 * 1024
SPARED = 256 * 1024 * 1024  # free on the disk: below that it is not ours to take


def extend_wal(connection: sqlite3.Connection, database: str) -> bool:
    """One step of it. False when there is enough, or none to be had."""
    connection.execute("BEGIN IMMEDIATE")  # nobody adds a frame meanwhile
    try:
        return _extend(Path(f"{database}-wal"))
    except OSError:
        return False  # then commits are slower
    finally:
        connection.execute("ROLLBACK")


def _extend(log: Path) -> bool:
    fd = os.open(log, os.O_WRONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        disk = os.fstatvfs(fd)
        if not FILE_HEADER < size < ENOUGH or disk.f_bavail * disk.f_frsize < SPARED:
            return False
        os.pwrite(fd, bytes(min(STEP, ENOUGH - size)), size)
        os.fdatasync(fd)
    finally:
        os.close(fd)
    return True
