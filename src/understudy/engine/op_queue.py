"""The ops of one conversation, one at a time and in order, so that whoever handles one alone touches its state.

An op that does not have to wait for the log is done when `put` returns, without a task. One that waits is not cut short when
whoever submitted it leaves.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from understudy.engine.eager import Done, EagerTasks
from understudy.errors import AgentError

T = TypeVar("T")


class OpQueue:
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
