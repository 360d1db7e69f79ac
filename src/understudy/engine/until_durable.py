"""Waiting for the store to say that what it was given is durable."""

import asyncio
from collections.abc import Callable

from understudy.store.log import Committed


async def until_durable(write: Callable[[Committed], None]) -> None:
    """Returns when it is on disk, or raises why it is not. Whoever waits may be cancelled before the log has answered."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def told(error: BaseException | None) -> None:
        if done.done():
            return
        done.set_result(None) if error is None else done.set_exception(error)

    write(told)
    await done
