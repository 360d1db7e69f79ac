"""Ending a child process with all of its group."""

import asyncio
import os
import signal
from contextlib import suppress

GRACE_SECONDS = 2.0


async def end_group(process: asyncio.subprocess.Process, grace: float = GRACE_SECONDS) -> None:
    """A word of warning, then SIGKILL to the whole group. The process was started with `start_new_session`."""
    try:
        if process.returncode is None:
            _signal(process.pid, signal.SIGTERM)
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), grace)
    finally:
        _signal(process.pid, signal.SIGKILL)  # also for those that outlived their leader
        await process.wait()


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
