"""Room in the write-ahead log: it is made when nothing else is to be done, and what is written before and after it is whole."""

import asyncio
import shutil
from pathlib import Path

from tests.store.records import append, new_id, noticed, open_log, opened, position_of
from tests.support.answered import answered
from understudy.store.log import Position
from understudy.store.sqlite.wal import ENOUGH
from understudy.testing.waiting import WAIT_SECONDS


async def grown(log: Path) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while log.stat().st_size < ENOUGH:  # noqa: ASYNC110  # nothing tells when it is there
            await asyncio.sleep(0.01)


async def test_after_a_quiet_moment_commits_make_the_log_no_longer(tmp_path: Path) -> None:
    log = open_log(tmp_path / "state")
    name = new_id()
    wal = tmp_path / "state" / "conversations.db-wal"
    await append(log, opened(name))
    await grown(wal)
    for seq in range(2, 200):
        await append(log, noticed(name, 1, seq))
    assert wal.stat().st_size == ENOUGH
    log.close()


async def test_after_a_crash_all_that_was_committed_is_there(tmp_path: Path) -> None:
    log, other = open_log(tmp_path / "state"), open_log(tmp_path / "state")
    name, second = new_id(), new_id()
    await append(log, opened(name))
    await append(other, opened(second))
    await grown(tmp_path / "state" / "conversations.db-wal")
    await append(log, noticed(name, 1, 2, count=50))
    await append(other, noticed(second, 1, 2, count=50))
    shutil.copytree(tmp_path / "state", tmp_path / "crashed", ignore=shutil.ignore_patterns("*-shm"))  # as a reader finds it then
    log.close()
    other.close()
    found = open_log(tmp_path / "crashed")
    assert position_of(found, name) == position_of(found, second) == Position(1, 51)
    assert [entry.seq for entry in answered(found.read(name))] == list(range(1, 52))
    assert answered(found.check()) == "ok"
    found.close()


async def test_a_store_that_is_only_read_gets_no_room(tmp_path: Path) -> None:
    log = open_log(tmp_path / "state")
    await append(log, opened(new_id()))
    log.close()
    reader = open_log(tmp_path / "state")
    assert answered(reader.count()) == 1
    await asyncio.to_thread(reader.finish)
    assert sum(path.stat().st_size for path in (tmp_path / "state").glob("*-wal")) == 0
    reader.close()
