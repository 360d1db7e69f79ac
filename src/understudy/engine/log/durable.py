"""Whether what a conversation was asked to do will survive a crash, for callers who answer only after that."""

import asyncio
from collections.abc import Callable, Generator
from typing import Any

from understudy.engine.log.tail import Told
from understudy.errors import AgentError
from understudy.store.log import Committed


async def until_durable(write: Callable[[Committed], None]) -> None:
    """Return when it is on disk, or raise why it is not. The waiter may be cancelled before the log has answered."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def told(error: BaseException | None) -> None:
        if done.done():
            return
        done.set_result(None) if error is None else done.set_exception(error)

    write(told)
    await done


class Durable:
    """Becomes known later. Awaiting it raises the reason if the change is not durable."""

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
        """Call back with None, or with the reason why the change is not durable."""
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
        """It is known not to be durable."""
        return self._error is not None

    def __await__(self) -> Generator[Any, None, None]:
        return until_durable(self.when_known).__await__()
