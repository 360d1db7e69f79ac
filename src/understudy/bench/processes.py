"""Ending a child process with all of its group."""

import asyncio
import signal
from contextlib import suppress

from understudy.sandbox.starting import signal_group

GRACE_SECONDS = 2.0


async def end_group(process: asyncio.subprocess.Process, grace: float = GRACE_SECONDS) -> None:
    """A word of warning, then SIGKILL to the whole group. The process was started by `start_process`."""
    try:
        if process.returncode is None:
            signal_group(process.pid, signal.SIGTERM)
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), grace)
    finally:
        signal_group(process.pid, signal.SIGKILL)  # also for those that outlived their leader
        await process.wait()
