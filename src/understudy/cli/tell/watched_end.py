"""What every viewer of a command has: the end of what it watches, which gives the exit code, and a reader who may have gone."""

import asyncio
from collections.abc import Callable

COMPLETED, FAILED = 0, 1


class WatchedEnd:
    def __init__(self) -> None:
        self.exit_code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def failed(self, error: BaseException) -> None:
        """Nothing more can be shown, or there is nobody left to show it to."""
        if not self.exit_code.done():
            self.exit_code.set_exception(error)

    def _safely(self, show: Callable[[], None]) -> None:
        if self.exit_code.done():
            return
        try:
            show()
        except OSError as error:  # the reader has gone, or the disk for our output is full
            self.failed(error)

    def _end(self, code: int) -> None:
        if not self.exit_code.done():
            self.exit_code.set_result(code)
