"""Surroundings that lack something, or have it otherwise: a turn with a command goes through, or the reason is told."""

from pathlib import Path

import pytest

from tests.e2e.test_small_disks import pytestmark as pytestmark
from tests.e2e.test_small_disks import run_after

COMMAND = {"call": "shell", "arguments": {"command": ["sh", "-c", "echo was run"]}}
ANSWERS = [COMMAND, {"say": "Done."}]


@pytest.mark.parametrize(
    "before",
    [
        "export LC_ALL=C LANG=C",
        "export LC_ALL=POSIX PYTHONCOERCECLOCALE=0 PYTHONUTF8=0",
        "export TMPDIR=/nonexistent",
        "export TZ=Asia/Kathmandu",
        "export TZ=Bad/Nothing",
        "unset HOME",
        "export HOME=/nonexistent",
        "export HOME=/etc/passwd",
        "exec 0<&-",
        "umount /dev/shm",
        "mount -t proc -o hidepid=2 proc /proc",
        "umount -R /sys",
        "touch empty; mount --bind empty /dev/urandom; mount --bind empty /dev/random",
        "for file in /etc/passwd /etc/group /etc/hosts /etc/resolv.conf; do mount --bind /dev/null $file; done",
    ],
)
def test_a_turn_goes_through(tmp_path: Path, before: str) -> None:
    code, told = run_after(tmp_path, before, ANSWERS)
    assert code == 0, told
    assert "was run\n" in told
    assert "Done." in told


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        ("cp config.toml home/.codex/; mount --bind home home; mount -o remount,bind,ro home", "Read-only file system"),
        ("export CODEX_HOME=/nonexistent/x", "CODEX_HOME names `/nonexistent/x`, which cannot be used"),
        ("cp config.toml home/.codex/; mount -t tmpfs none /dev", "/dev/null: No such file or directory"),
    ],
)
def test_what_is_lacking_is_told(tmp_path: Path, before: str, reason: str) -> None:
    code, told = run_after(tmp_path, before, ANSWERS)
    assert code == 1, told
    assert reason in told
    assert told.count("\n") == 1, "one line"
