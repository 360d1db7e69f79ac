"""The write-ahead log has a copy, from which the next process that opens the store makes good what was cut out of it."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.records import append, new_id, noticed, open_log, opened
from understudy.errors import StoreError
from understudy.protocol.ids import ConversationId
from understudy.store.sqlite.event_log import SqliteLog
from understudy.store.sqlite.wal import committed_frames
from understudy.testing.waiting import WAIT_SECONDS

COPY = Path("kept", "conversations.db-wal.copy")
FRAME = 4120


def wal_in(folder: Path) -> Path:
    return folder / "conversations.db-wal"


READ = """
import asyncio, sys
from pathlib import Path
from tests.store.records import append, noticed, open_log, records_of
from tests.support.answered import answered

async def main():
    log = open_log(Path(sys.argv[1]))
    count = len(records_of(log, sys.argv[2]))
    await append(log, noticed(sys.argv[2], 1, count + 1))
    print(count, len(records_of(log, sys.argv[2])) - count, answered(log.check()))
    log.close()

asyncio.run(main())
"""


def read_by_another(folder: Path, name: str) -> tuple[int, int, str]:
    """How many records a process that comes now finds, how many it could add, and whether the file is whole."""
    command = [sys.executable, "-c", READ, str(folder), name]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert ended.returncode == 0, ended.stderr
    found, added, check = ended.stdout.split()
    return int(found), int(added), check


async def filled(folder: Path, count: int) -> tuple[SqliteLog, ConversationId]:
    log = open_log(folder)
    name = new_id()
    await append(log, opened(name))
    for number in range(1, count):
        await append(log, noticed(name, 1, number + 1))
    return log, name


@pytest.mark.slow
async def test_the_copy_holds_what_the_log_holds_after_each_commit(tmp_path: Path) -> None:
    """Through many rounds: the log begins anew after a thousand pages."""
    log, name = await filled(tmp_path, 1)
    salts: set[bytes] = set()
    for number in range(1, 1200):
        await append(log, noticed(name, 1, number + 1))
        if number % 60 == 0 or number > 1190:
            there = committed_frames(wal_in(tmp_path))
            assert committed_frames(tmp_path / COPY) == there
            salts.add(there[0])
    assert len(salts) > 1, "the log never began anew, so that nothing was shown of it"
    log.close()
    assert not (tmp_path / COPY).exists()


async def test_two_stores_make_one_copy(tmp_path: Path) -> None:
    """Each writes what the other has written since, too."""
    here, name = await filled(tmp_path, 3)
    there = open_log(tmp_path)
    for number in range(3, 300):
        await append(random.Random(number).choice([here, there]), noticed(name, 1, number + 1))
    assert committed_frames(tmp_path / COPY) == committed_frames(wal_in(tmp_path))
    here.close()
    there.close()


@pytest.mark.quick(4)
@pytest.mark.parametrize("seed", range(12))
async def test_a_log_that_was_cut_is_made_good(tmp_path: Path, seed: int) -> None:
    """Wherever it was cut, and whether or not the server writes before the next one comes."""
    draw = random.Random(seed)
    count = draw.randint(2, 40)
    log, name = await filled(tmp_path, count)
    _, frames = committed_frames(wal_in(tmp_path))
    os.truncate(wal_in(tmp_path), draw.randrange(32 + frames * FRAME))
    if draw.random() < 0.5:
        with pytest.raises(StoreError, match="was cut short"):
            await append(log, noticed(name, 1, count + 1))
    if draw.random() < 0.5:
        log.close()
    assert read_by_another(tmp_path, name) == (count, 1, "ok")
    log.close()
    assert read_by_another(tmp_path, name) == (count + 1, 1, "ok")


async def test_a_log_that_was_cut_and_has_grown_again_is_noticed_too(tmp_path: Path) -> None:
    """Somebody cuts it in the moment between a look at it and the write: then it is as long as it was, and lacks something."""
    log, name = await filled(tmp_path, 6)
    wal = wal_in(tmp_path)
    size = wal.stat().st_size
    _, frames = committed_frames(wal)
    os.truncate(wal, 32 + (frames - 2) * FRAME)
    os.truncate(wal, size)
    with pytest.raises(StoreError, match="was cut short"):
        await append(log, noticed(name, 1, 7))
    found, *rest = read_by_another(tmp_path, name)
    assert found in (6, 7), "whether the last one counts, nobody was told"
    assert rest == [1, "ok"]
    log.close()


async def test_a_copy_that_is_older_than_the_database_undoes_nothing(tmp_path: Path) -> None:
    log, name = await filled(tmp_path, 30)
    older = (tmp_path / COPY).read_bytes()
    for number in range(30, 1200):
        await append(log, noticed(name, 1, number + 1))
    wal = wal_in(tmp_path)
    assert committed_frames(wal)[0] != older[16:24], "the log never began anew, so that nothing was shown of it"
    os.utime(tmp_path / COPY, (0, 0))
    (tmp_path / COPY).write_bytes(older)
    os.utime(tmp_path / COPY, (0, 0))
    log.finish()
    assert read_by_another(tmp_path, name) == (1200, 1, "ok")
    log.close()
