"""A store that is written anew to get smaller gives way to whoever writes in the same process, and ends at once when told to."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from understudy.store.sqlite.shrinking import INCREMENTAL, Shrinking
from understudy.testing.waiting import WAIT_SECONDS

ROWS = 20_000


class WriterHere:
    """Does something as soon as the store is about to be written anew."""

    def __init__(self, then: Callable[[threading.Event], None]) -> None:
        self._then = then
        self._give_way: threading.Event | None = None

    @property
    def give_way(self) -> threading.Event | None:
        return self._give_way

    @give_way.setter
    def give_way(self, event: threading.Event | None) -> None:
        self._give_way = event
        if event is not None:
            self._then(event)


def a_store(tmp_path: Path) -> Path:
    """With much room that nothing is in any more."""
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute("CREATE TABLE kept (number INTEGER PRIMARY KEY, data BLOB)")
        raw.execute("BEGIN")
        raw.executemany("INSERT INTO kept VALUES (?, randomblob(400))", [(number,) for number in range(ROWS)])
        raw.execute("COMMIT")
        raw.execute("DELETE FROM kept WHERE number % 2")
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def look(path: Path) -> tuple[int, int, str]:
    """Whether it can shrink, how many rows it has, and whether it is whole. Nobody keeps us from writing."""
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as raw:
        raw.execute("BEGIN IMMEDIATE")
        raw.execute("ROLLBACK")
        queries = ("PRAGMA auto_vacuum", "SELECT count(*) FROM kept", "PRAGMA integrity_check")
        vacuum, rows, whole = (raw.execute(query).fetchone()[0] for query in queries)
        return vacuum, rows, whole


async def shrink(path: Path, then: Callable[[threading.Event], None]) -> int:
    async with asyncio.timeout(WAIT_SECONDS):
        return await Shrinking(path, WriterHere(then)).run()


async def test_whoever_has_to_write_meanwhile_does_not_wait_and_the_file_gets_smaller_another_time(tmp_path: Path) -> None:
    path = a_store(tmp_path)
    before = path.stat().st_size
    assert await shrink(path, lambda give_way: give_way.set()) == 0
    assert look(path) == (0, ROWS // 2, "ok")
    freed = await shrink(path, lambda _: None)
    assert freed > before // 4
    assert look(path) == (INCREMENTAL, ROWS // 2, "ok")
    assert path.stat().st_size <= before - freed


async def test_told_to_end_it_leaves_the_store_as_it_was_with_nothing_at_work(tmp_path: Path) -> None:
    path, loop = a_store(tmp_path), asyncio.get_running_loop()
    begun, cancelled = asyncio.Event(), threading.Event()

    def hold(_: threading.Event) -> None:
        loop.call_soon_threadsafe(begun.set)
        assert cancelled.wait(WAIT_SECONDS)

    shrinking = asyncio.create_task(shrink(path, hold))
    async with asyncio.timeout(WAIT_SECONDS):
        await begun.wait()
    shrinking.cancel()
    await asyncio.sleep(0)  # it has heard of it
    cancelled.set()
    with pytest.raises(asyncio.CancelledError):
        await shrinking
    assert look(path) == (0, ROWS // 2, "ok")


async def test_while_another_process_writes_it_waits_for_another_time(tmp_path: Path) -> None:
    path = a_store(tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert await shrink(path, lambda _: None) == 0
        other.execute("ROLLBACK")
    assert look(path) == (0, ROWS // 2, "ok")


async def test_a_store_that_can_shrink_already_asks_nobody_to_give_way(tmp_path: Path) -> None:
    path = a_store(tmp_path)
    await shrink(path, lambda _: None)
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("DELETE FROM kept WHERE number % 4")
    asked: list[threading.Event] = []
    assert await shrink(path, asked.append) > 0
    assert asked == []
