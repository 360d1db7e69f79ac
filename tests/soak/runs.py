"""Many runs, each of a seed of its own: some at a time, each in a new folder."""

from __future__ import annotations

import asyncio
import tempfile
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

Plan = TypeVar("Plan")
Report = Callable[[int], None]  # of how many are done


async def each_seed(
    first: int, count: int, play: Callable[[int, Path], Awaitable[None]], at_once: int, report: Report | None
) -> None:
    """The first failure ends it."""
    done = 0
    seeds = iter(range(first, first + count))

    async def work() -> None:
        nonlocal done
        for seed in seeds:
            # what the programs of a run that failed still write does not hide why it failed
            with tempfile.TemporaryDirectory(prefix="understudy-soak-", ignore_cleanup_errors=True) as folder:
                await play(seed, Path(folder))
            done += 1
            if report:
                report(done)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())


async def each_plan(
    what: str,
    first: int,
    count: int,
    *,
    draw: Callable[[int], Plan],
    play: Callable[[Plan, Path], Awaitable[None]],
    at_once: int,
    report: Report | None,
) -> None:
    """Goes on after a failure, and raises all of them at the end, each with its seed and plan."""
    failures: list[Exception] = []

    async def play_seed(seed: int, folder: Path) -> None:
        plan = draw(seed)
        try:
            await play(plan, folder)
        except Exception as error:
            error.add_note(f"{what} {seed}: {plan}")
            failures.append(error)
            traceback.print_exception(error)  # now: the others may take hours

    await each_seed(first, count, play_seed, at_once, report)
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {count} {what}", failures)
