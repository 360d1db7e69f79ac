"""Waits for what only an event loop can do."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def wait_for(begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Returns or raises what it does. If this thread already runs an event loop, another thread does it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(begin())
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(asyncio.run(begin()))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]
