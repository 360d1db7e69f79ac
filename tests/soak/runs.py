"""Many schedules or kills, some at a time, each in a folder of its own."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.soak.schedule import Schedule


async def run_schedules(
    first_seed: int, count: int, *, steps: int = 30, at_once: int = 3, report: Callable[[int], None] | None = None
) -> None:
    """Raises the first failure, with its seed and the steps that led to it."""
    done = 0
    seeds = iter(range(first_seed, first_seed + count))

    async def work() -> None:
        nonlocal done
        for seed in seeds:
            await _one_schedule(seed, steps)
            done += 1
            if report:
                report(done)

    await _together([work] * at_once)


async def _one_schedule(seed: int, steps: int) -> None:
    with tempfile.TemporaryDirectory(prefix="understudy-soak-") as folder:
        schedule = Schedule(seed, Path(folder), steps=steps)
        try:
            await schedule.run()
        except BaseException as error:
            error.add_note("".join(schedule.complaints))
            error.add_note(f"schedule {seed}, after {len(schedule.trace)} steps: {', '.join(schedule.trace)}")
            raise


async def _together(works: list[Callable[[], Awaitable[None]]]) -> None:
    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(_as_task(work))


async def _as_task(work: Callable[[], Awaitable[None]]) -> None:
    await work()
