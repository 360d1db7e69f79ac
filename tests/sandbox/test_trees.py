"""Folders that commands have filled are removed whole and measured, however deep, odd or closed they are."""

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.sandbox.arena import PLAIN_UID, as_user, plain_python
from understudy.sandbox.cell import trees
from understudy.testing.waiting import WAIT_SECONDS

NO_LIMIT = 1 << 62


def make_deep(folder: Path, depth: int, name: str = "d") -> None:
    at = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=at)
        inner = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)


@contextmanager
def few_descriptors(most: int) -> Generator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def measured(folder: Path, most_bytes: int = NO_LIMIT, most_files: int = NO_LIMIT) -> tuple[int, int]:
    return trees.measure(str(folder), most_bytes=most_bytes, most_files=most_files, open_all=True)


@pytest.fixture
def quick() -> Generator[Path]:
    """A folder in memory, if there is such a place: these tests make many files. pytest could not remove the deep ones."""
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else "/var/tmp")
    yield Path(folder)
    assert trees.remove(folder)


def test_a_folder_ten_thousand_deep_is_measured_and_removed_with_few_descriptors(quick: Path) -> None:
    top = quick / "top"
    top.mkdir()
    make_deep(top, 10_000)
    make_deep(top, 2_000, "wide")
    with few_descriptors(len(os.listdir("/proc/self/fd")) + 10):
        assert measured(top)[1] == 12_002
        assert trees.remove(str(top))
    assert not top.exists()


@pytest.mark.slow
def test_two_hundred_thousand_files_and_folders_are_removed_in_little_memory(quick: Path) -> None:
    top = quick / "top"
    for n in range(100):
        folder = top / f"f{n}"
        folder.mkdir(parents=True)
        for m in range(1000):
            (folder / f"d{m}").mkdir()
            (folder / f"n{m}").touch()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert trees.remove(str(top))
    assert not top.exists()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000


def test_everything_odd_goes_and_nothing_is_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    top = tmp_path / "top"
    (top / "a" / "b").mkdir(parents=True)
    for odd in (b"\xff\xfe", b"new\nline", b"-rf", b" ", b"\xc3\xa9", b"x" * 255):
        os.mkdir(os.path.join(os.fsencode(top), b"a", odd))
        Path(os.fsdecode(os.path.join(os.fsencode(top), b"a", odd, odd))).touch()
    os.symlink(outside, top / "link")
    os.symlink(outside / "kept", top / "a" / "link")
    os.symlink("..", top / "a" / "up")
    os.link(outside / "kept", top / "hard")
    os.mkfifo(top / "pipe")
    with socket.socket(socket.AF_UNIX) as endpoint:
        endpoint.bind(str(top / "a" / "socket"))
    assert trees.remove(str(top))
    assert not top.exists()
    assert (outside / "kept").read_text() == "kept"
    assert [entry.name for entry in outside.iterdir()] == ["kept"]


def test_what_is_set_aside_is_gone_at_once_and_removed_by_whoever_comes_next(tmp_path: Path) -> None:
    for name in ("a", "b", "kept"):
        (tmp_path / name / "deep").mkdir(parents=True)
    trees.set_aside(str(tmp_path / "a"))
    trees.set_aside(str(tmp_path / "b"))
    trees.set_aside(str(tmp_path / "missing"))
    assert not (tmp_path / "a").exists()
    (tmp_path / "a").mkdir()
    assert len(list(tmp_path.iterdir())) == 4
    assert trees.remove_set_aside(str(tmp_path))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a", "kept"]
    assert trees.remove_set_aside(str(tmp_path / "missing"))


def test_what_is_not_there_is_removed_already_and_a_link_is_not_followed(tmp_path: Path) -> None:
    assert trees.remove(str(tmp_path / "missing"))
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "kept").touch()
    (tmp_path / "link").symlink_to("real")
    assert not trees.remove(str(tmp_path / "link"))
    assert (tmp_path / "real" / "kept").exists()


CLOSED = """
import json, os, runpy, sys
trees = runpy.run_path(sys.argv[1])
os.chdir(sys.argv[2])
for mode in (0o000, 0o100, 0o200, 0o400, 0o500, 0o600):
    for path in (f"{mode:o}", f"{mode:o}/in/deep", f"{mode:o}/in/deep/full"):
        os.makedirs(path)
    open(f"{mode:o}/in/deep/full/big", "wb").write(bytes(1 << 20))
    for path in (f"{mode:o}/in/deep/full", f"{mode:o}/in/deep", f"{mode:o}/in", f"{mode:o}"):
        os.chmod(path, mode)
hidden = trees["measure"](".", most_bytes=1 << 62, most_files=1 << 62, open_all=False)
used = trees["measure"](".", most_bytes=1 << 62, most_files=1 << 62, open_all=True)
print(json.dumps([hidden[0] < 6 << 20, used[0] >= 6 << 20, used[1], trees["empty"]("."), os.listdir(".")]))
"""


def test_closed_folders_are_seen_into_and_go_for_a_plain_user_too() -> None:
    folder = tempfile.mkdtemp(dir="/var/tmp")
    uid = PLAIN_UID if os.geteuid() == 0 else os.geteuid()
    try:
        shutil.copy(trees.__file__, folder)
        os.mkdir(f"{folder}/top")
        for path in (folder, f"{folder}/top"):
            os.chown(path, uid, -1)
        words = [plain_python(), "-I", "-c", CLOSED, f"{folder}/trees.py", f"{folder}/top"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False, **as_user(uid))
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == [True, True, 30, True, []]
    finally:
        shutil.rmtree(folder)


def test_measuring_stops_at_the_most(tmp_path: Path) -> None:
    for n in range(50):
        (tmp_path / f"d{n}").mkdir()
        (tmp_path / f"d{n}" / "file").write_bytes(bytes(1 << 16))
    assert measured(tmp_path, most_files=10)[1] == 11
    used, _ = measured(tmp_path, most_bytes=1 << 20)
    assert 1 << 20 < used < 1 << 21
    assert measured(tmp_path)[0] >= 50 << 16


def test_a_file_with_many_names_counts_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    for n in range(20):
        (tmp_path / f"name{n}").hardlink_to(tmp_path / "file")
    used, files = measured(tmp_path)
    assert (used < 2 << 20, files) == (True, 21)


@pytest.mark.slow
def test_measuring_a_tree_that_is_moved_about_ends_and_does_not_leave_it(tmp_path: Path) -> None:
    top, away = tmp_path / "top", tmp_path / "away"
    away.mkdir()
    for n in range(20):
        (top / "a" / f"b{n}" / "c" / "d").mkdir(parents=True)
    over = threading.Event()

    def move_about() -> None:
        while not over.is_set():
            os.rename(top / "a" / "b7" / "c", away / "c")
            os.rename(away / "c", top / "a" / "b7" / "c")

    mover = threading.Thread(target=move_about)
    mover.start()
    try:
        for _ in range(300):
            assert 0 < measured(top)[1] <= 61
    finally:
        over.set()
        mover.join()


def test_it_needs_nothing_but_the_standard_library() -> None:
    check = "import sys, runpy; runpy.run_path(sys.argv[1]); print('understudy' in sys.modules)"
    words = [sys.executable, "-I", "-c", check, trees.__file__]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=WAIT_SECONDS)
    assert done.stdout == "False\n"
