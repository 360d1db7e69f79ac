"""Whether what a conversation was told to do will survive a crash, for those who answer only once it will."""

import asyncio
from collections.abc import Callable, Generator
from typing import Any

from understudy.engine.log.tail import Told
from understudy.errors import AgentError
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


class Durable:
    """Whether something is durable: known later. Can be awaited, and then raises the reason why it is not."""

    __slots__ = ("_callback", "_error", "_known")

    def __init__(self) -> None:
        self._known = False
        self._error: AgentError | None = None
        self._callback: Told | None = None

    def tell(self, error: AgentError | None) -> None:
        self._known, self._error = True, error
        callback, self._callback = self._callback, None
        if callback is not None:
            callback(error)

    def when_known(self, callback: Told) -> None:
        """Call back with None, or with the reason why it is not durable."""
        before = self._callback
        if self._known:
            callback(self._error)
        elif before is None:
            self._callback = callback
        else:

            def tell_both(error: AgentError | None) -> None:
                before(error)
                callback(error)

            self._callback = tell_both

    @property
    def failed(self) -> bool:
        """It is known that it is not durable."""
        return self._error is not None

    def __await__(self) -> Generator[Any, None, None]:
        return until_durable(self.when_known).__await__()
