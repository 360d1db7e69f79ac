"""Steps of the event loop. A coroutine that need not wait costs no task, and everybody with much work shares a step's limit."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from types import coroutine as generator_coroutine
from typing import Any, Generic, TypeVar

import msgspec

from understudy.errors import AgentError

PAGE_RECORDS = 128  # records of a log read in one step, within the following limit of bytes of JSON
PAGE_BYTES = 512 * 1024
SHARES = 256  # shares of one step; reading, folding or encoding a record takes about one


class Pace:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left = SHARES
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    async def take(self, shares: int) -> None:
        """Wait for a step that has room for this much. More than a whole step's worth gets a step of its own."""
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
        """Begin the next step: the longest waiting goes first."""
        self._left = SHARES
        while self._waiting and self._left > 0:
            waiter, shares = self._waiting.popleft()
            if not waiter.done():  # otherwise the waiter was cancelled
                self._spend(shares)
                waiter.set_result(None)


T = TypeVar("T")

_AWAITED = "_asyncio_future_blocking"  # a future sets this to tell its task that it was reached by `await`


class Done(msgspec.Struct, Generic[T], frozen=True, eq=False):
    """The outcome of a coroutine that ended without waiting. Works like a finished future."""

    returned: T | None = None
    raised: BaseException | None = None

    def result(self) -> T:
        """What the coroutine returned. Raises what it raised."""
        if self.raised is not None:
            raise self.raised
        return self.returned  # pyright: ignore[reportReturnType]  # None only where T is


class EagerTasks:
    """Runs coroutines on one event loop, and holds the tasks of those that had to wait: the loop itself holds them only weakly."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Task[Any]] = set()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> "asyncio.Task[T] | Done[T]":
        """Run the coroutine now until it ends or first has to wait; then the returned task runs the rest.

        Until then it has no task of its own: it may use `asyncio.timeout`, `TaskGroup` and other users of the current task only
        after its first wait.
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
            setattr(awaited, _AWAITED, False)  # a task does this too: others may await the same future
        task = self._loop.create_task(_run_rest(coroutine, awaited))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # a task that is cancelled before its first step never runs the coroutine
        task.add_done_callback(lambda _: coroutine.close())
        return task


async def _run_rest(coroutine: Coroutine[Any, Any, T], awaited: Any) -> T:
    return await _rest(coroutine, awaited)


@generator_coroutine
def _rest(coroutine: Coroutine[Any, Any, T], awaited: Any) -> Generator[Any, Any, T]:
    if awaited is not None:
        setattr(awaited, _AWAITED, True)  # restored for the task, which checks and resets it
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
    """The ops of one conversation, run one at a time and in order, so that each alone touches the conversation's state.

    An op that need not wait for the log is done when `put` returns, without a task. An op that waits is not cancelled when its
    submitter leaves.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, tasks: EagerTasks, on_idle: Callable[[], None]) -> None:
        """`on_idle` is called when the last op is done."""
        self._loop = loop
        self._tasks = tasks
        self._on_idle = on_idle
        self._waiting: deque[tuple[Coroutine[Any, Any, Any], asyncio.Future[Any]]] = deque()
        self._task: asyncio.Task[Any] | None = None  # the running op's task, if the op has to wait
        self._closed: AgentError | None = None
        self.busy = False

    async def run(self, op: Coroutine[Any, Any, T]) -> T:
        """What the op returns or raises. Raises the queue's reason if the queue is closed first."""
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
        """Begin the op now or behind the waiting ops; with `first`, ahead of them."""
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
        """Refuse new and waiting ops, and cancel the running one. It has unwound when this returns."""
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
        outcome.exception()  # its submitter may have left
