"""Waiting for the log to say that something has been done."""

import asyncio
from collections.abc import Callable

LogTold = Callable[[BaseException | None], None]


async def on_disk(write: Callable[[LogTold], None]) -> None:
    """Returns when it is on disk, or raises why it is not. Whoever waits may be cancelled before the log has answered."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def told(error: BaseException | None) -> None:
        if done.done():
            return
        done.set_result(None) if error is None else done.set_exception(error)

    write(told)
    await done
