"""A command may print, and be stopped, before the helper's word that it has started was read."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.sandbox.stage import ENV, Output
from understudy.sandbox import Command, Containment, Sandbox
from understudy.sandbox.cell.orders import END, TERM
from understudy.sandbox.cell.plan import FULL, PLAIN, Plan
from understudy.sandbox.control import Control
from understudy.sandbox.running import RunningCommand
from understudy.testing.waiting import WAIT_SECONDS


class Watcher:
    """Our side of a command: a process stands for the one above the command, the test speaks for it."""

    def __init__(self) -> None:
        plan = Plan(shape=PLAIN, argv=[b"sleep"], environment={}, cwd=b"/")
        self.running = RunningCommand(asyncio.get_running_loop(), plan, lambda stream, chunk: None)
        out, err, self.status = self.running.writers
        os.close(out)
        os.close(err)
        self.process = subprocess.Popen(["sleep", "1000"])

    def starts(self) -> None:
        self.running.started(os.pidfd_open(self.process.pid))

    async def told(self) -> bytes:
        """The next order. Each is one byte, and the one after it may be there already."""
        return await asyncio.wait_for(asyncio.to_thread(os.read, self.status, 1), WAIT_SECONDS)

    async def reports(self, report: bytes) -> None:
        os.write(self.status, report)
        await asyncio.wait_for(asyncio.shield(self.running.done), WAIT_SECONDS)

    def close(self) -> None:
        os.close(self.status)
        self.process.kill()
        self.process.wait(WAIT_SECONDS)


@pytest.fixture
async def watcher() -> AsyncIterator[Watcher]:
    made = Watcher()
    yield made
    made.close()


async def test_a_command_stopped_before_its_start_is_known_is_asked_first(watcher: Watcher) -> None:
    watcher.running.stop()
    watcher.starts()
    assert await watcher.told() == TERM
    await watcher.reports(b"signal 15\n")
    assert watcher.running.done.result().exit_code == 128 + signal.SIGTERM


async def test_what_is_stopped_before_it_was_even_planned_is_stopped_when_it_begins(
    sandbox: Sandbox, either: Containment | None, workspace: Path
) -> None:
    control = Control()
    control.stop()
    command = Command(("sleep", "1000"), str(workspace), ENV, None, either, control=control)
    result = await asyncio.wait_for(sandbox.run(command, Output()), WAIT_SECONDS)
    assert result.signal in (signal.SIGTERM, signal.SIGKILL)  # the machine may be busy


async def test_one_that_ignores_this_is_ended_a_moment_later(watcher: Watcher) -> None:
    watcher.running.stop()
    watcher.starts()
    assert await watcher.told() == TERM
    assert await watcher.told() == END
    await watcher.reports(b"signal 9\n")
    assert watcher.running.done.result().exit_code == 128 + signal.SIGKILL


async def test_one_whose_watching_process_does_not_answer_either_is_told_as_killed_by_us(watcher: Watcher) -> None:
    watcher.running.plan.shape = FULL  # there this process is killed a moment later, and everything with it
    watcher.starts()
    watcher.running.stop()
    result = await asyncio.wait_for(asyncio.shield(watcher.running.done), WAIT_SECONDS)
    assert (result.exit_code, result.lost) == (128 + signal.SIGKILL, None)
    assert watcher.process.wait(WAIT_SECONDS) == -signal.SIGKILL


async def test_a_command_killed_before_its_start_is_known_is_not_asked(watcher: Watcher) -> None:
    watcher.running.stop()
    watcher.running.kill()
    watcher.starts()
    assert await watcher.told() == END
    await watcher.reports(b"signal 9\n")
    assert watcher.running.done.result().exit_code == 128 + signal.SIGKILL
