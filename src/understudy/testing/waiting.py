"""Waits, with a limit, for something to become true: nothing in a test may wait for ever."""

import asyncio
import os
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

WAIT_SECONDS = float(os.environ.get("UNDERSTUDY_TEST_WAIT", "20"))  # a high limit costs nothing if the wait succeeds


class Watched:
    """Something that changes, and those who wait for a certain state.

    A wait is limited to `seconds`, by default to `WAIT_SECONDS`.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = WAIT_SECONDS if seconds is None else seconds
        self._changed = asyncio.Event()
        self._failure: BaseException | None = None

    def change(self) -> None:
        """Let waiters look again."""
        self._changed.set()

    def fail(self, failure: BaseException) -> None:
        """From here on, a wait that does not succeed raises `failure` at once."""
        self._failure = failure
        self._changed.set()

    async def until(self, find: Callable[[], T | None], wish: str, seconds: float | None = None) -> T:
        """What `find` returns, once that is not None. Raises `AssertionError` that names `wish` when time is up."""
        seconds = self.seconds if seconds is None else seconds
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            self._changed.clear()
            if (found := find()) is not None:
                return found
            if self._failure:
                raise self._failure
            try:
                async with asyncio.timeout_at(deadline):
                    await self._changed.wait()
            except TimeoutError:
                raise AssertionError(f"waited {seconds:g} s in vain for {wish}") from None
