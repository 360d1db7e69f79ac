"""Starting a process so that nothing of it is left, should whoever starts it be cancelled meanwhile."""

import asyncio
import os
import signal
from contextlib import suppress
from typing import Any


async def start_process(*argv: str, **options: Any) -> asyncio.subprocess.Process:
    """As `asyncio.create_subprocess_exec`, in a session of its own.

    The process runs before that returns. When cancelled there, the event loop ends at most that one process and waits for none;
    here its whole group is over before the cancellation goes on.
    """
    starting = asyncio.ensure_future(asyncio.create_subprocess_exec(*argv, start_new_session=True, **options))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(OSError):  # it could not be started
            process = await starting
            signal_group(process.pid, signal.SIGKILL)
            await process.wait()
        raise


def signal_group(group: int, number: signal.Signals) -> None:
    """Nothing happens where it is gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
