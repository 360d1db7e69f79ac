"""Whether the files of a store are still the store, with one look at their folder where nothing has changed in it."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from understudy.store.sqlite.still_there import StillThere


def _rest(folder: Path) -> None:
    """Until the folder's time is old enough to tell one change from another."""
    until = folder.stat().st_ctime + 2.1
    while time.time() < until:
        time.sleep(0.05)


def _restore(path: Path) -> None:
    """As a backup is put back: another file, and the times of the folder as they were."""
    before = path.parent.stat()
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.rename(path)
    os.utime(path.parent, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["store.db", "store.db-wal", "store.db-shm"])
@pytest.mark.parametrize("harm", [Path.unlink, _restore], ids=["deleted", "put back from a backup"])
def test_a_file_that_goes_from_a_quiet_folder_is_missed_at_once(tmp_path: Path, name: str, harm: Callable[[Path], None]) -> None:
    for each in ("store.db", "store.db-wal", "store.db-shm"):
        (tmp_path / each).touch()
    there = StillThere(tmp_path / "store.db")
    _rest(tmp_path)
    assert [there.find_gone() for _ in range(3)] == [None] * 3
    harm(tmp_path / name)
    for _ in range(2):
        gone = there.find_gone()
        assert gone is not None
        assert name in str(gone)
    _rest(tmp_path)
    assert there.find_gone() is not None  # and it stays so


@pytest.mark.slow
def test_a_folder_that_is_moved_away_is_missed_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    for each in ("store.db", "store.db-wal", "store.db-shm"):
        (folder / each).touch()
    there = StillThere(folder / "store.db")
    _rest(folder)
    assert there.find_gone() is None
    folder.rename(tmp_path / "elsewhere")
    assert there.find_gone() is not None


@pytest.mark.parametrize("milliseconds", range(0, 110, 10))
def test_a_file_that_goes_soon_after_the_folder_changed_is_missed_at_once(tmp_path: Path, milliseconds: int) -> None:
    """However long ago that was: clocks of file systems are coarse, and two changes may have the same time."""
    for each in ("store.db", "store.db-wal", "store.db-shm"):
        (tmp_path / each).touch()
    there = StillThere(tmp_path / "store.db")
    until = time.monotonic() + milliseconds / 1000
    while time.monotonic() < until:
        assert there.find_gone() is None
    (tmp_path / "store.db").unlink()
    assert there.find_gone() is not None
