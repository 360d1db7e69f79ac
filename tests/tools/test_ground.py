"""What an approval rests on besides the words: changes to it are noticed, changes to mere data are not."""

import os
from pathlib import Path

import pytest

from understudy.tools.ground import standing

RUNS_IT = [
    ("./run.sh",),
    ("bash", "run.sh"),
    ("bash", "-x", "run.sh", "now"),
    ("bash", "-lc", "cd . && ./run.sh | head"),
    ("bash", "-c", "set -e; ./run.sh > log"),
    ("sh", "-c", "for x in 1 2; do bash run.sh; done"),
    ("env", "A=b", "timeout", "9", "./run.sh"),
    ("python3", "run.sh"),
    ("/usr/bin/python3.11", "-B", "run.sh"),
    ("node", "--require", "./run.sh", "main.js"),
    ("sudo", "nice", "./run.sh"),
]
READS_IT = [
    ("cat", "run.sh"),
    ("prettier", "--write", "run.sh"),
    ("make",),
    ("bash", "-lc", "cat run.sh"),
    ("git", "add", "run.sh"),
]


@pytest.mark.parametrize("argv", RUNS_IT)
def test_a_script_that_is_run_must_stay_as_it_is(tmp_path: Path, argv: tuple[str, ...]) -> None:
    (tmp_path / "run.sh").write_text("echo good\n")
    before = standing(argv, str(tmp_path))
    assert standing(argv, str(tmp_path)) == before
    (tmp_path / "run.sh").write_text("echo evil\n")
    assert standing(argv, str(tmp_path)) != before
    (tmp_path / "run.sh").unlink()
    assert standing(argv, str(tmp_path)) != before


@pytest.mark.parametrize("argv", READS_IT)
def test_a_file_that_is_only_read_may_change(tmp_path: Path, argv: tuple[str, ...]) -> None:
    (tmp_path / "run.sh").write_text("echo good\n")
    before = standing(argv, str(tmp_path))
    (tmp_path / "run.sh").write_text("echo evil\n")
    assert standing(argv, str(tmp_path)) == before


def test_the_folder_must_stay_the_same_one(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    before = standing(("make",), str(tmp_path / "sub"))
    (tmp_path / "sub").rename(tmp_path / "old")
    (tmp_path / "sub").symlink_to("/")
    assert standing(("make",), str(tmp_path / "sub")) != before


def test_odd_files_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    argv = ("bash", "pipe", "/dev/zero", "/proc/kmsg", "/dev/tty", "a\0b", "", "x" * 5000, str(tmp_path))
    assert standing(argv, str(tmp_path)) == standing(argv, str(tmp_path))


def test_a_large_script_is_told_by_its_times(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_bytes(b"#" * (2 * 1024 * 1024))
    before = standing(("./run.sh",), str(tmp_path))
    os.utime(script, ns=(1, 1))
    assert standing(("./run.sh",), str(tmp_path)) != before
