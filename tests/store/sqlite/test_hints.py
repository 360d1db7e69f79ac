"""Whoever listens is told soon, though nobody looks while nothing happens."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.store.records import new_id
from understudy.store.sqlite import hints
from understudy.store.sqlite.hints import POLL_SECONDS, QUIET_LOOKS, FileAlarm, WriteHints
from understudy.testing.waiting import WAIT_SECONDS

NEVER = 3600.0
NAME = new_id()

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing wakes us, and so we look")


class Files:
    """A bell and its folder as the log looks at them, and how often it did."""

    def __init__(self, folder: Path) -> None:
        self.bell = folder / "bell"
        self.bell.write_bytes(b"0")
        self.looks = 0
        self.held = False
        self._seen = self._state()
        self._generation = 0

    def changes(self) -> int:
        self.looks += 1
        if (state := self._state()) != self._seen:
            self._seen = state
            self._generation += 1
        return self._generation

    def _state(self) -> object:
        folder = self.bell.parent
        there = self.bell.exists()
        return sorted(folder.iterdir()), self.bell.read_bytes() if there else b"", self.bell.stat().st_ino if there else 0


@asynccontextmanager
async def listening(files: Files) -> AsyncGenerator[tuple[WriteHints, asyncio.Event]]:
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    made = WriteHints(loop, files.changes, lambda _: files.held, lambda: None, FileAlarm(loop, files.bell))
    made.listen(NAME, told.set)
    yield made, told
    made.close()


async def _until(condition: Callable[[], bool]) -> None:
    loop = asyncio.get_running_loop()
    limit = loop.time() + WAIT_SECONDS
    while not condition():
        assert loop.time() < limit, "it did not happen in time"
        await asyncio.sleep(POLL_SECONDS)


def _write(bell: Path) -> None:
    with bell.open("r+b", buffering=0) as file:
        file.write(b"1")


def _add_name(bell: Path) -> None:
    bell.with_name(f"more-{len(list(bell.parent.iterdir()))}").touch()


def _replace(bell: Path) -> None:
    other = bell.with_name("other")
    other.write_bytes(b"2")
    os.replace(other, bell)


DEEDS: dict[str, Callable[[Path], object]] = {
    "written": _write,
    "replaced": _replace,
    "removed": Path.unlink,
    "another-name": _add_name,
}


@pytest.mark.slow
@pytest.mark.parametrize("deed", DEEDS)
async def test_what_happens_while_nobody_looks_is_told_and_so_is_what_follows(
    tmp_path: Path, deed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints, "SLOW_SECONDS", NEVER)
    files = Files(tmp_path)
    async with listening(files) as (made, told):
        for act in (DEEDS[deed], DEEDS["another-name"], _replace):
            await _until(lambda: made.asleep or not files.bell.exists())  # without a file there is nothing to wait for
            told.clear()
            looks = files.looks
            await asyncio.sleep(5 * POLL_SECONDS)
            assert files.looks == looks or not files.bell.exists()
            act(files.bell)
            await asyncio.wait_for(told.wait(), WAIT_SECONDS)


@pytest.mark.slow
async def test_where_the_kernel_would_not_tell_it_goes_on_looking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not tell of the end of another process that has a claim."""
    monkeypatch.setattr(hints, "SLOW_SECONDS", NEVER)
    files = Files(tmp_path)
    async with listening(files) as (made, told):
        await _until(lambda: made.asleep)
        files.held = True
        made.note_holder(NAME, held=True)
        looks = files.looks
        await _until(lambda: files.looks > looks + 2 * QUIET_LOOKS)
        assert not made.asleep
        told.clear()
        files.held = False
        await asyncio.wait_for(told.wait(), WAIT_SECONDS)
        await _until(lambda: made.asleep)


async def test_without_listeners_nothing_is_watched(tmp_path: Path) -> None:
    files = Files(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    async with listening(files) as (made, _):
        await _until(lambda: made.asleep)
        assert len(os.listdir("/proc/self/fd")) > before
    assert len(os.listdir("/proc/self/fd")) <= before
    assert not made.asleep


async def test_where_no_alarm_can_be_set_it_goes_on_looking(tmp_path: Path) -> None:
    files = Files(tmp_path)
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    made = WriteHints(loop, files.changes, lambda _: False, lambda: None, FileAlarm(loop, tmp_path / "none" / "bell"))
    made.listen(NAME, told.set)
    await _until(lambda: files.looks > 2 * QUIET_LOOKS)
    assert not made.asleep
    _write(files.bell)
    await asyncio.wait_for(told.wait(), WAIT_SECONDS)
    made.close()
