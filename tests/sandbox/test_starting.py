"""Starting a process: cancelled at any step, nothing of it is left."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from tests.e2e.scenes import is_alive
from understudy.sandbox.starting import converse, start_process
from understudy.testing.waiting import WAIT_SECONDS

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def stand_still_until(holds: Callable[[], bool]) -> None:
    """The event loop does not turn meanwhile, so that the start stays where it is."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold"
        os.sched_yield()


@pytest.mark.parametrize("loop", LOOPS)
def test_a_start_that_is_cancelled_at_any_step_leaves_nothing_behind(loop: str, tmp_path: Path) -> None:
    """Also not what the process has started itself by then."""
    cancelled_with_one: list[int] = []

    async def cancel_after(steps: int) -> bool:
        """Whether it was cancelled, rather than over."""
        told = tmp_path / f"pid{steps}"
        before = children()
        starting = asyncio.create_task(
            start_process("sh", "-c", f"sleep 1000 & echo $! > {told}.part; mv {told}.part {told}; wait")
        )
        for _ in range(steps):
            await asyncio.sleep(0)
        if starting.done():
            process = starting.result()
            stand_still_until(told.exists)
            os.killpg(process.pid, 9)
            await process.wait()
            return False
        if children() - before:
            stand_still_until(told.exists)
            cancelled_with_one.append(steps)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert not {child for child in children() - before if is_alive(int(child))}
        if told.exists():
            stand_still_until(lambda: not is_alive(int(told.read_text())))  # not our child: it is killed, and dies by itself
        return True

    async def cancel_at_every_step() -> None:
        steps = 0
        while await asyncio.wait_for(cancel_after(steps), WAIT_SECONDS):
            steps += 1

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(cancel_at_every_step())
    assert cancelled_with_one  # else there was nothing to be left


def test_one_that_cannot_be_started_is_told() -> None:
    async def start() -> None:
        with pytest.raises(FileNotFoundError):
            await start_process("/no/such/program")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(start())


@pytest.mark.parametrize("loop", LOOPS)
def test_one_that_is_killed_before_it_is_told_anything_has_said_nothing(loop: str) -> None:
    async def talk() -> None:
        pipe = asyncio.subprocess.PIPE
        process = await start_process("sleep", "1000", stdin=pipe, stdout=pipe, stderr=pipe)
        process.kill()
        await process.wait()
        assert await asyncio.wait_for(converse(process, b"a job"), WAIT_SECONDS) == (b"", b"")
        assert process.returncode == -9

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(talk())
