"""Steps of the event loop: a coroutine that does not wait costs no task, and all who have much to do share how much one step
does.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from types import coroutine as generator_coroutine
from typing import Any, Generic, TypeVar

import msgspec

from understudy.errors import AgentError

PAGE_RECORDS = 128  # of a log that are read in a step, and no more than so many bytes of JSON:
PAGE_BYTES = 512 * 1024
SHARES = 256  # of a step; a record that is read, folded or encoded is about one


class Pace:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left = SHARES
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    async def take(self, shares: int) -> None:
        """Wait for a step that has room for this much. What asks for more than a step has gets a step of its own."""
        if self._left > 0 and not self._waiting:
            self._spend(shares)
            return
        waiter = self._loop.create_future()
        self._waiting.append((waiter, shares))
        await waiter

    def _spend(self, shares: int) -> None:
        if self._left == SHARES:
            self._loop.call_soon(self._renew)
        self._left -= max(1, shares)

    def _renew(self) -> None:
        """In the next step: who has waited longest goes first."""
        self._left = SHARES
        while self._waiting and self._left > 0:
            waiter, shares = self._waiting.popleft()
            if not waiter.done():  # else whoever waited has been cancelled
                self._spend(shares)
                waiter.set_result(None)


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


class OpQueue:
    """The ops of one conversation, one at a time and in order, so that whoever handles one alone touches its state.

    An op that does not have to wait for the log is done when `put` returns, without a task. One that waits is not cut short when
    whoever submitted it leaves.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, tasks: EagerTasks, on_idle: Callable[[], None]) -> None:
        """`on_idle` is called when the last op is done."""
        self._loop = loop
        self._tasks = tasks
        self._on_idle = on_idle
        self._waiting: deque[tuple[Coroutine[Any, Any, Any], asyncio.Future[Any]]] = deque()
        self._task: asyncio.Task[Any] | None = None  # of the op under way, where it has to wait
        self._closed: AgentError | None = None
        self.busy = False

    async def run(self, op: Coroutine[Any, Any, T]) -> T:
        """What the op returns or raises. Raises the reason where the queue is closed before it is done."""
        outcome = self.put(op)
        if type(outcome) is Done:
            return outcome.result()
        assert isinstance(outcome, asyncio.Future)
        try:
            return await asyncio.shield(outcome)
        except asyncio.CancelledError:
            if self._closed is not None and outcome.cancelled():
                raise self._closed from None
            raise

    def put(self, op: Coroutine[Any, Any, T], *, first: bool = False) -> "Done[T] | asyncio.Future[T]":
        """Begin it now, or after those that wait; with `first`, before them."""
        if self._closed is not None:
            op.close()
            return Done(raised=self._closed)
        if self.busy:
            outcome: asyncio.Future[T] = self._loop.create_future()
            (self._waiting.appendleft if first else self._waiting.append)((op, outcome))
            return outcome
        self.busy = True
        begun = self._tasks.run(op)
        if isinstance(begun, Done):
            self._run_next()
        else:
            self._task = begun
            begun.add_done_callback(self._on_done)
        return begun

    def _on_done(self, _: "asyncio.Task[Any]") -> None:
        self._task = None
        self._run_next()

    def _run_next(self) -> None:
        while self._waiting and self._closed is None:
            op, outcome = self._waiting.popleft()
            begun = self._tasks.run(op)
            if isinstance(begun, asyncio.Task):
                self._task = begun
                begun.add_done_callback(lambda task, outcome=outcome: self._pass_on(task, outcome))
                begun.add_done_callback(self._on_done)
                return
            _settle(outcome, begun)
        self.busy = False
        self._on_idle()

    def _pass_on(self, task: "asyncio.Task[Any]", outcome: "asyncio.Future[Any]") -> None:
        if task.cancelled():
            outcome.cancel()
        else:
            _settle(outcome, task)

    async def close(self, reason: AgentError) -> None:
        """Nothing more is taken; what waits is refused, and what is under way is cancelled. On return it has unwound."""
        self._closed = reason
        while self._waiting:
            op, outcome = self._waiting.popleft()
            op.close()
            _settle(outcome, Done(raised=reason))
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


def _settle(outcome: "asyncio.Future[Any]", done: "Done[Any] | asyncio.Task[Any]") -> None:
    if outcome.done():
        return
    try:
        outcome.set_result(done.result())
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        outcome.set_exception(error)
        outcome.exception()  # whoever submitted it may have left
