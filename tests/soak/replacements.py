"""Names that are kept from running commands are replaced from outside, in drawn layouts (`tests/security/layouts.py`)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from tests.security.layouts import drawn, hold_or_end
from understudy.sandbox import Sandbox


async def run_replacements(first: int, count: int, *, at_once: int, report: Callable[[int], None]) -> None:
    """Raises `AssertionError` at the end for those that fell, each with its seed."""
    seeds = iter(range(first, first + count))
    fell: list[str] = []
    done = 0

    async def play() -> None:
        nonlocal done
        sandboxes = [Sandbox(), Sandbox()]
        try:
            for seed in seeds:
                try:
                    await hold_or_end(drawn(random.Random(seed)), sandboxes)
                except (AssertionError, TimeoutError, OSError) as error:
                    fell.append(f"seed {seed}: {type(error).__name__}: {error}")
                    print(fell[-1], flush=True)
                done += 1
                report(done)
        finally:
            for sandbox in sandboxes:
                await sandbox.close()

    await asyncio.gather(*(play() for _ in range(at_once)))
    assert not fell, f"{len(fell)} of {count} layouts fell"
