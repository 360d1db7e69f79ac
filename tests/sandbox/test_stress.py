"""Many commands at once, ended in every way at any moment, leave nothing."""

import asyncio
import os
import random
import signal
from pathlib import Path

import pytest

from tests.sandbox.stage import BOUND, ENV, Output, at_rest, mark, processes_with, run, spare_of, until
from understudy.sandbox import Command, Containment, Sandbox

SCRIPTS = (
    "true",
    f"sleep {mark('90001')}",
    f"(setsid sleep {mark('90001')} &) ; echo x",
    f"trap '' TERM; sleep {mark('90001')}",
    "yes | head -c 300000",
    "exit 7",
    "kill -9 $$",
)


async def one(sandbox: Sandbox, containment: Containment | None, workspace: Path, dice: random.Random) -> None:
    scripts = SCRIPTS if containment is None else (*SCRIPTS, "mkdir .codex; touch .mcp.json; echo $?")
    script, moment = dice.choice(scripts), dice.random() * 0.3
    limit = moment if dice.random() < 0.4 else None
    command = Command(("sh", "-c", script), str(workspace), ENV, limit, containment)
    task = asyncio.create_task(sandbox.run(command, Output()))
    if limit is None:
        await asyncio.sleep(moment)
        task.cancel()
        if dice.random() < 0.3:
            await asyncio.sleep(0)
            task.cancel()
    await asyncio.wait([task], timeout=BOUND)
    assert task.done()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_random_endings(sandbox: Sandbox, contained: Containment, workspace: Path, seed: int) -> None:
    dice = random.Random(seed)
    await sandbox.run(Command(("true",), str(workspace), ENV, None, contained), Output())
    await sandbox.tidied()
    await spare_of(sandbox)
    descriptors = len(os.listdir("/proc/self/fd"))
    async with asyncio.TaskGroup() as tasks:
        for number in range(120):
            tasks.create_task(one(sandbox, contained if number % 3 else None, workspace, dice))
    await at_rest(sandbox)
    await run(sandbox, contained, "true", cwd=workspace)  # the last may have sent away the process that waits
    await spare_of(sandbox)
    await until(lambda: len(os.listdir("/proc/self/fd")) <= descriptors + 2 * (len(sandbox.spares) - 1))  # each that waits has two
    assert processes_with(mark("90001")) == []
    await sandbox.tidied()
    assert list(workspace.iterdir()) == []


@pytest.mark.slow
async def test_a_helper_that_is_killed_again_and_again(sandbox: Sandbox, contained: Containment, workspace: Path) -> None:
    for round_ in range(8):
        commands = [
            asyncio.create_task(sandbox.run(Command(("sleep", mark("90002")), str(workspace), ENV, None, contained), Output()))
            for _ in range(6)
        ]
        await asyncio.sleep(round_ * 0.01)
        async with asyncio.timeout(BOUND):
            while not all(task.done() for task in commands):
                if (pid := sandbox.helper_pid) is not None:  # a command that had not begun yet has another helper started
                    os.kill(pid, signal.SIGKILL)
                await asyncio.wait(commands, timeout=0.2)
        for task in commands:
            result = task.result()
            assert result.setup_error or result.lost or result.signal == signal.SIGKILL  # not run, its end not seen, or seen
        await until(lambda: sandbox.helper_pid is None)  # else the next round could kill this one again, and no other
    await until(lambda: processes_with(mark("90002")) == [])
    await sandbox.tidied()
    assert list(workspace.iterdir()) == []
