"""A test that waits for ever fails by itself, says where it waits, and leaves the others alone."""

import subprocess
import sys
from pathlib import Path

import pytest

from understudy.testing.waiting import WAIT_SECONDS

ROOT = Path(__file__).parent.parent
HANGING = """
import asyncio
import contextlib
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis.strategies import integers

from understudy.testing import LineProcess

PROGRAM = "import sys; print('its last words', file=sys.stderr, flush=True); print('up', flush=True); sys.stdin.read()"
soon = pytest.mark.timeout(2)


@contextlib.asynccontextmanager
async def never_open():
    await asyncio.Event().wait()
    yield


@pytest.fixture
async def never_gone():
    yield
    await asyncio.Event().wait()


@soon
async def test_in_a_task():
    async with never_open():
        pass


@pytest.mark.timeout(10)
async def test_beside_a_server(tmp_path):
    async with LineProcess((sys.executable, "-c", PROGRAM), cwd=tmp_path, env={}) as server:
        await server.next_line()
        await asyncio.Event().wait()


@soon
async def test_in_its_clean_up():
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.Event().wait()


@soon
async def test_after_a_failure(never_gone):
    raise ValueError("what came first")


@soon
def test_for_a_child():
    subprocess.run(["sleep", "1234"])


@soon
def test_for_a_thread():
    waiting = threading.Thread(target=threading.Event().wait, daemon=True)
    waiting.start()
    waiting.join()


@soon
@given(integers())
def test_for_an_example(number):
    threading.Event().wait()


def test_fine():
    pass
"""
DEAF = """
import signal
import time

import pytest


@pytest.mark.timeout(1)
def test_deaf():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(1234)


def test_fine():
    pass
"""


def run_tests(folder: Path, text: str) -> str:
    (folder / "test_them.py").write_text(text)
    own = ["-c", "pyproject.toml", "-p", "tests.conftest", "-o", f"cache_dir={folder / 'cache'}", f"--basetemp={folder / 'base'}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *own, "-n", "2", str(folder / "test_them.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60 + 4 * WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_each_test_that_hangs_fails_and_says_where_it_waits(tmp_path: Path) -> None:
    told = run_tests(tmp_path, HANGING)
    summary = told.partition("short test summary")[2]
    for name in ("in_a_task", "beside_a_server", "in_its_clean_up", "for_a_child", "for_a_thread", "for_an_example"):
        assert f"FAILED ::test_{name} - tests.support.hanging.TimeIsUp" in summary, told
    assert "FAILED ::test_after_a_failure - ValueError" in summary, told
    for name in ("in_its_clean_up", "after_a_failure"):
        assert f"ERROR ::test_{name} - tests.support.hanging.TimeIsUp" in summary, told
    assert "7 failed, 1 passed, 2 errors" in summary, told
    for place in (
        "in never_open\n    await asyncio.Event().wait()",
        "in never_gone\n    await asyncio.Event().wait()",
        "    waiting.join()",
    ):
        assert place in told, told
    assert "sleep 1234" in told.partition("- processes -")[2], told
    assert "its last words" in told.partition("log of server (LineProcess)")[2], told


@pytest.mark.slow
def test_one_that_no_signal_reaches_is_named_and_the_others_run(tmp_path: Path) -> None:
    told = run_tests(tmp_path, DEAF)
    assert "crashed while running '::test_deaf'" in told, told
    assert "1 failed, 1 passed" in told, told
