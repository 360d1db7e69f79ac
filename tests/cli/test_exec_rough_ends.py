"""`exec` where the world does not play along: full disks, early signals, odd homes."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.program import LONGEST, Program


def start(program: Program, *words: str, stdout: int, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "understudy", *words],
        cwd=program.cwd,
        env=program.environment(env),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has such a disk")
@pytest.mark.parametrize("words", [("exec", "--json"), ("exec",)])
def test_a_full_disk_is_a_failure_and_said_to_be_one(program: Program, words: tuple[str, ...]) -> None:
    program.script({"say": "Hello."})
    with open("/dev/full", "wb") as full:
        process = start(program, *words, "--skip-git-repo-check", "hi", stdout=full.fileno())
        _, err = process.communicate(timeout=LONGEST)
    assert process.returncode == 1, err
    assert b"No space left on device" in err
    assert b"Traceback" not in err
    assert b"nobody reads" not in err
    assert b"server" not in err


PROGRAM = """
import os, signal, sys
signal.signal(signal.SIGINT, lambda *_: os.write({told}, b"missed"))
os.write({told}, b"ready")
sys.argv = ["understudy", "exec", "--json", "--skip-git-repo-check", "hi"]
from understudy.cli.main import main
sys.exit(main())
"""


@pytest.mark.parametrize("after", [0.0, 0.02, 0.04, 0.06, 0.1, 0.15, 0.25])
def test_an_early_interrupt_gets_a_last_word_and_exit_code_1(program: Program, after: float) -> None:
    """From when `main` has begun: what the interpreter does before that is not ours."""
    program.script([{"say": "Thinking", "unfinished": True}, {"hang": True}])
    heard, told = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(told=told)],
        cwd=program.cwd,
        env=program.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[told],
    )
    os.close(told)
    assert os.read(heard, 100) == b"ready"
    with suppress(subprocess.TimeoutExpired):
        process.wait(after)  # when the signal comes is what is tried here
    while True:
        process.send_signal(signal.SIGINT)
        if os.read(heard, 100) != b"missed":  # the end of the program closes it
            break
    os.close(heard)
    out, err = process.communicate(timeout=LONGEST)
    assert process.returncode == 1, err
    last = json.loads(out.splitlines()[-1])
    assert (last["type"], last["error"]["message"]) == ("turn.failed", "interrupted")
    assert out.count(b'"turn.failed"') == 1
    assert b"Traceback" not in err


@pytest.mark.parametrize("home", ["relative/home", "", "."])
def test_a_home_that_is_no_absolute_path_makes_no_folder_here(program: Program, home: str) -> None:
    env = {**program.environment(), "HOME": home}
    del env["CODEX_HOME"]
    done = subprocess.run(
        [sys.executable, "-m", "understudy", "config", "check"],
        cwd=program.cwd,
        env=env,
        capture_output=True,
        timeout=LONGEST,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    assert str(program.cwd).encode() not in done.stdout
    assert os.listdir(program.cwd) == []
