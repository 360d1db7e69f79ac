"""A disk that is full, read-only or held by another program: a clear error, and all goes on once it is over."""

import asyncio
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.records import SUMMARY, append, new_id, noticed, open_log, opened, position_of, user_message
from tests.support.answered import answered
from understudy.errors import StoreError
from understudy.protocol.ops import Send
from understudy.protocol.records import Entry, Noticed
from understudy.store.log import Batch, Position
from understudy.store.sqlite.event_log import SqliteLog
from understudy.testing.waiting import WAIT_SECONDS


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"a small disk can be mounted by root only: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def remount(disk: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(disk)], check=True)


async def test_a_full_disk_refuses_one_batch_and_takes_the_next_once_there_is_room(small_disk: Path) -> None:
    log = open_log(small_disk)
    name, other = new_id(), new_id()
    await append(log, opened(name))
    (small_disk / "ballast").write_bytes(b"x" * 500_000)
    large = Noticed("y" * 900_000)
    with pytest.raises(StoreError, match=r"the disk that holds .*conversations\.db is full; free some space"):
        await append(log, Batch(name, 1, 1, (Entry(2, 1, "1", 2.0, large),), SUMMARY))
    assert position_of(log, name) == Position(1, 1), "nothing of it is there"
    await append(log, opened(other))  # a small one still fits
    (small_disk / "ballast").unlink()
    await append(log, noticed(name, 1, 2))
    assert answered(log.check()) == "ok"
    log.close()


async def test_a_disk_that_turned_read_only_is_told(small_disk: Path) -> None:
    log = open_log(small_disk)
    name = new_id()
    await append(log, opened(name))
    log.close()
    remount(small_disk, "ro")
    with pytest.raises(StoreError, match=r"[Rr]ead-only"):
        open_log(small_disk)
    remount(small_disk, "rw")
    log = open_log(small_disk)
    assert position_of(log, name) == Position(1, 1)
    log.close()


async def test_a_store_held_by_another_program_is_told_to_all_who_wait_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from understudy.store.sqlite import event_log as sqlite

    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.3)
    log = open_log(tmp_path)
    name = new_id()
    await append(log, opened(name))
    holder = sqlite3.connect(tmp_path / "conversations.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    outcomes: list[BaseException | None] = []
    done = asyncio.Event()

    def note(error: BaseException | None) -> None:
        outcomes.append(error)
        if len(outcomes) == 30:
            done.set()

    for _ in range(30):
        log.append(opened(new_id()), note)
    assert position_of(log, name) == Position(1, 1), "reading goes on"
    async with asyncio.timeout(WAIT_SECONDS):
        await done.wait()
    assert all(isinstance(outcome, StoreError) and "locked by another program" in str(outcome) for outcome in outcomes)
    holder.execute("ROLLBACK")
    holder.close()
    await append(log, noticed(name, 1, 2))
    log.close()


async def test_a_backup_taken_while_others_write_is_whole(tmp_path: Path) -> None:
    log = open_log(tmp_path / "state")
    names = [new_id() for _ in range(20)]
    for name in names:
        await append(log, opened(name))
    writing = True

    async def write() -> int:
        seq = 2
        while writing:
            await append(log, noticed(names[0], 1, seq))
            log.post(names[1], Send(user_message("x" * 2000)))
            seq += 1
        return seq

    task = asyncio.create_task(write())
    other = SqliteLog(tmp_path / "state")
    await asyncio.sleep(0)
    await asyncio.to_thread(lambda: answered(other.backup(tmp_path / "backup.db")))
    writing = False
    async with asyncio.timeout(WAIT_SECONDS):
        await task
    assert (tmp_path / "backup.db").stat().st_mode & 0o777 == 0o600
    (tmp_path / "copy").mkdir()
    os.rename(tmp_path / "backup.db", tmp_path / "copy" / "conversations.db")
    copy = open_log(tmp_path / "copy")
    assert answered(copy.check()) == "ok"
    assert answered(copy.count()) == 20
    position = position_of(copy, names[0])
    assert position is not None
    assert [entry.seq for entry in answered(copy.read(names[0]))] == list(range(1, position.last_seq + 1))
    with pytest.raises(StoreError, match="File exists"):
        answered(other.backup(tmp_path / "copy" / "conversations.db"))
    for each in (log, other, copy):
        each.close()


async def test_size_and_count_are_told(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert answered(log.count()) == 0
    await append(log, opened(new_id()))
    assert answered(log.count()) == 1
    assert answered(log.size()) >= sum(path.stat().st_size for path in tmp_path.glob("conversations.db"))
    log.close()


async def test_a_disk_too_full_for_a_new_store_is_told_as_the_reason(small_disk: Path) -> None:
    folder = small_disk / "state"
    folder.mkdir()
    (small_disk / "ballast").write_bytes(b"x" * (1024 * 1024 - 8192))
    with pytest.raises(StoreError, match=r"is full; free some space"):
        open_log(folder)
