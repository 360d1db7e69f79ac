"""`exec` where the world does not play along: full disks, early signals, odd homes."""

import array
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

import pytest

from tests.cli.program import LONGEST, Program


def start(
    program: Program, *words: str, stdout: int, stderr: int = subprocess.PIPE, env: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "understudy", *words],
        cwd=program.cwd,
        env=program.environment(env),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
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


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_while_nobody_reads_the_answer(program: Program, number: signal.Signals) -> None:
    program.script({"say": "word " * 100_000})
    process = start(program, "exec", "--skip-git-repo-check", "hi", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        select.select([process.stdout], [], [], LONGEST)  # it has begun to write, and cannot end: a pipe takes far less
        process.send_signal(number)
        assert process.wait(LONGEST) == -number
    finally:
        process.kill()
        process.communicate(timeout=LONGEST)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("hangs", [True, False], ids=["at work", "at the end"])
def test_a_signal_ends_it_while_nobody_reads_what_it_tells(program: Program, number: signal.Signals, hangs: bool) -> None:
    long = {"say": "word " * 30_000}
    program.script([long | {"unfinished": True}, {"hang": True}] if hangs else long)
    process = start(program, "exec", "--skip-git-repo-check", "hi", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        if not hangs:
            assert process.stdout.readline() == b"word " * 30_000 + b"\n"  # it is not kept back
        wait_until_full(process.stderr)
        process.send_signal(number)
        assert process.wait(LONGEST) == (130 if number == signal.SIGINT and hangs else 0 if number == signal.SIGINT else -number)
    finally:
        process.kill()
        process.communicate(timeout=LONGEST)


@pytest.mark.slow
def test_a_slow_reader_of_what_it_tells_gets_all_of_it_before_the_answer(program: Program) -> None:
    lines = [f"line {number}" for number in range(8_000)]
    program.script([{"say": "\n".join(lines)}, {"call": "update_plan", "arguments": {"plan": []}}], {"say": "Done."})
    process = start(program, "exec", "--skip-git-repo-check", "hi", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        assert process.stdout is not None
        wait_until_full(process.stdout)
        told = process.stdout.read().decode()
    finally:
        process.kill()
        process.communicate(timeout=LONGEST)
    assert [line.strip().removeprefix("● ") for line in told.splitlines() if "line " in line] == lines
    assert told.endswith("\nDone.\n")


def wait_until_full(pipe: IO[bytes]) -> None:
    """Until nothing more has come for a while: what it tells then waits for us."""
    before = -1
    deadline = time.monotonic() + LONGEST
    while time.monotonic() < deadline:
        waiting = array.array("i", [0])
        fcntl.ioctl(pipe, termios.FIONREAD, waiting)
        if waiting[0] == before and before > 32_000:
            return
        before = waiting[0]
        time.sleep(0.3)
    raise AssertionError(f"only {before} bytes came")


PROGRAM = """
import os, signal, sys
signal.signal(signal.SIGINT, lambda *_: os.write({told}, b"missed"))
os.write({told}, b"ready")
sys.argv = ["understudy", "exec", "--json", "--skip-git-repo-check", "hi"]
from understudy.cli.main import main
sys.exit(main())
"""


@pytest.mark.quick(2)
@pytest.mark.parametrize("after", [0.0, 0.02, 0.04, 0.06, 0.1, 0.15, 0.25])
def test_an_early_interrupt_gets_a_last_word_and_exit_code_130(program: Program, after: float) -> None:
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
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.001)  # so that it is not interrupted in taking the one before, again and again
    os.close(heard)
    out, err = process.communicate(timeout=LONGEST)
    assert process.returncode == 130, err
    last = json.loads(out.splitlines()[-1])
    assert (last["type"], last["error"]["message"]) == ("turn.failed", "interrupted")
    assert out.count(b'"turn.failed"') == 1
    assert b"Traceback" not in err


@pytest.mark.quick(1)
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
