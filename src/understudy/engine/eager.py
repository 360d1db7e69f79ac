"""Running a coroutine without a task for as long as it does not wait.

A log may be on another machine, so whatever reads it is `async`. SQLite answers without suspending, and then neither a task nor
another trip round the event loop is paid for.
"""

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine as generator_coroutine
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")

_AWAITED = "_asyncio_future_blocking"  # how an awaited future tells its task that it was reached by `await`


class Done(msgspec.Struct, Generic[T], frozen=True, eq=False):
    """The outcome of a coroutine that ended without waiting for anything. Like a finished future."""

    returned: T | None = None
    raised: BaseException | None = None

    def result(self) -> T:
        """What it returned. Raises what it raised."""
        if self.raised is not None:
            raise self.raised
        return self.returned  # pyright: ignore[reportReturnType]  # None only where T is


class EagerTasks:
    """Runs coroutines on one event loop, and holds the tasks of those that had to wait: the loop itself does so only weakly."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Task[Any]] = set()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> "asyncio.Task[T] | Done[T]":
        """Run it now, until it ends or first has to wait; in the latter case the rest runs in the task that is returned.

        Up to that point it has no task of its own: `asyncio.timeout`, `TaskGroup` and whatever else asks for the current task may
        only be used once it has waited for something.
        """
        try:
            awaited = coroutine.send(None)
        except StopIteration as end:
            return Done(end.value)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            return Done(raised=error)
        if awaited is not None:
            setattr(awaited, _AWAITED, False)  # as a task does: others may await the same future
        task = self._loop.create_task(_run_rest(coroutine, awaited))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: coroutine.close())  # a task that is cancelled before its first step never gets to the rest
        return task


async def _run_rest(coroutine: Coroutine[Any, Any, T], awaited: Any) -> T:
    return await _rest(coroutine, awaited)


@generator_coroutine
def _rest(coroutine: Coroutine[Any, Any, T], awaited: Any) -> Generator[Any, Any, T]:
    if awaited is not None:
        setattr(awaited, _AWAITED, True)  # as when it was awaited: the task looks for it, and resets it
    try:
        while True:
            try:
                sent = yield awaited
            except BaseException as error:
                awaited = coroutine.throw(error)
            else:
                awaited = coroutine.send(sent)
    except StopIteration as end:
        return end.value
