"""Pausing a process between two of its writes: one that is stopped in the middle of one holds up everybody's."""

import asyncio
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

from understudy.store.place import DATABASE
from understudy.testing.waiting import WAIT_SECONDS


async def pause(pid: int, home: Path) -> None:
    """Until `go_on` it does nothing, but has what it has claimed."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            os.kill(pid, signal.SIGSTOP)
            while not _is_stopped(pid):  # noqa: ASYNC110  # nothing tells of it
                await asyncio.sleep(0.001)
            if await asyncio.to_thread(_can_be_written, home / "understudy" / DATABASE):
                return
            go_on(pid)
            await asyncio.sleep(0.01)


def go_on(pid: int) -> None:
    os.kill(pid, signal.SIGCONT)


def _is_stopped(pid: int) -> bool:
    """With all its threads; the signal takes a moment to get to each of them, and one of them may be ending."""
    try:
        stats = [Path(f"/proc/{pid}/task/{thread}/stat").read_text() for thread in os.listdir(f"/proc/{pid}/task")]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


def _can_be_written(database: Path) -> bool:
    with closing(sqlite3.connect(database, timeout=0.2, isolation_level=None)) as store:
        try:
            store.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        store.execute("ROLLBACK")
        return True
