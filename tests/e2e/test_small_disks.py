"""File systems that are full or can hold no more files, for the state of the server and for the workspace."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from understudy.testing.waiting import WAIT_SECONDS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux" or os.getuid() != 0, reason="only root can mount file systems; run the tests as root"
    ),
]
DELETION = "\n".join(["*** Begin Patch", *(f"*** Delete File: {name}" for name in range(1, 39)), "*** End Patch"])


def run_after(tmp_path: Path, mount: str, answers: list[Any]) -> tuple[int, str]:
    """`exec` in a mount namespace of its own, after these commands; the exit code, and what a person reads."""
    home, work = tmp_path / "home" / ".codex", tmp_path / "work"
    home.mkdir(parents=True)
    work.mkdir()
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    script = f"[understudy]\nscripted_model = {json.dumps(str(tmp_path / 'answers.json'))}\n"
    config = f'model_provider = "scripted"\nsandbox_mode = "workspace-write"\napproval_policy = "never"\n{script}'
    (tmp_path / "config.toml").write_text(config)
    line = f'{mount}\ntest -e home/.codex/config.toml || cp config.toml home/.codex/\ncd work && exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", line, "sh", sys.executable, "-m", "understudy", "exec", "--skip-git-repo-check", "go"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(home.parent), "CODEX_HOME": str(home), "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=4 * WAIT_SECONDS,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("files", [3, 5, 6, 7])
def test_a_home_that_can_hold_no_more_files_is_said_to_be_at_whichever_file_it_is(tmp_path: Path, files: int) -> None:
    """Its root and the configuration are two. SQLite says of some others that the disk is full, and of some that it fails."""
    code, told = run_after(tmp_path, f"mount -t tmpfs -o nr_inodes={files} none home/.codex", [{"say": "Never said."}])
    assert code == 1, told
    assert "can hold no more files, though it may have space (`df -i`)" in told


def test_a_home_without_space_is_said_to_be_full(tmp_path: Path) -> None:
    mount = "mount -t tmpfs -o size=64k none home/.codex; dd if=/dev/zero of=home/.codex/fill bs=4k count=13 2>&1"
    code, told = run_after(tmp_path, mount, [{"say": "Never said."}])
    assert code == 1, told
    assert "full; free some space" in told


def test_in_a_full_workspace_a_patch_makes_the_room_that_commands_need(tmp_path: Path) -> None:
    command = {"call": "shell", "arguments": {"command": ["sh", "-c", "echo was run"]}}
    patch = {"call": "apply_patch", "arguments": {"input": DELETION}}
    mount = "mount -t tmpfs -o nr_inodes=40 none work; for name in $(seq 39); do echo x > work/$name; done"
    code, told = run_after(tmp_path, mount, [command, patch, command, {"say": "Done."}])
    assert code == 0, told
    assert "free some first: a patch can delete files" in told
    assert "│ was run" in told
