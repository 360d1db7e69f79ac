"""A call that may wait for a person or a lock, in a thread of its own, which does not keep an ending process alive."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def in_thread(act: Callable[[], T]) -> T:
    loop = asyncio.get_running_loop()
    returned: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            found = act()
        except Exception as error:
            tell(lambda error=error: returned.set_exception(error))
        else:
            tell(lambda: returned.set_result(found))

    def tell(settle: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(lambda: None if returned.done() else settle())

    threading.Thread(target=run, daemon=True).start()
    return await returned
