"""Virtual time, and an event loop for each simulated process that runs only when the world says so."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

_set_running = asyncio._set_running_loop  # pyright: ignore[reportPrivateUsage]
STEPS_AT_ONCE = 24  # callbacks of one process before another gets its turn, at most


class Clock:
    """One time for all processes. What happens outside of them (the disk, models, clients) is due at a time."""

    def __init__(self, random: Random) -> None:
        self.now = 1000.0
        self._random = random
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._due, (self.now + seconds, self._count, what))

    def do_what_is_due(self) -> None:
        while self._due and self._due[0][0] <= self.now:
            heapq.heappop(self._due)[2]()

    @property
    def next(self) -> float:
        return self._due[0][0] if self._due else float("inf")


class ProcessLoop(asyncio.AbstractEventLoop):
    """Of one process. Callbacks run in the order in which they came; timers join them when they are due."""

    def __init__(self, clock: Clock, on_error: Callable[[str], None]) -> None:
        self.clock = clock
        self.ready: deque[asyncio.Handle] = deque()
        self.timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.dead = False
        self.paused = False
        self._count = 0
        self._on_error = on_error

    # -- run by the world

    def has_work(self) -> bool:
        if self.paused or self.dead:
            return False
        timers, now = self.timers, self.clock.now
        while timers and (timers[0][0] <= now or timers[0][2]._cancelled):  # pyright: ignore
            handle = heapq.heappop(timers)[2]
            if not handle._cancelled:  # pyright: ignore
                self.ready.append(handle)
        return bool(self.ready)

    @property
    def next(self) -> float:
        return self.timers[0][0] if self.timers and not self.paused and not self.dead else float("inf")

    def step(self) -> None:
        handle = self.ready.popleft()
        if not handle._cancelled:  # pyright: ignore
            handle._run()  # pyright: ignore

    def run_steps(self, most: int) -> None:
        _set_running(self)
        try:
            for _ in range(most):
                if not self.ready or self.dead or self.paused:
                    break
                self.step()
        finally:
            _set_running(None)

    def run_now(self, callback: Callable[[], object]) -> None:
        """Before all that waits."""
        _set_running(self)
        try:
            callback()
        finally:
            _set_running(None)

    def kill(self) -> None:
        """Nothing of it runs again. What the kernel would take back (open files, locks) is given back by unwinding."""
        self.dead = True
        self.ready.clear()
        self.timers.clear()
        _set_running(self)
        try:
            for task in self.tasks:
                if not task.done():
                    task._log_destroy_pending = False  # pyright: ignore
                    try:
                        task.get_coro().close()  # type: ignore[union-attr]
                    except BaseException:  # it wanted to wait for something while it unwound
                        pass
        finally:
            _set_running(None)
        self.ready.clear()
        self.timers.clear()

    # -- what asyncio and the engine ask of a loop

    def time(self) -> float:
        return self.clock.now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self.dead

    def is_closed(self) -> bool:
        return False

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self.dead:
            self.ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not self.dead:
            self._count += 1
            heapq.heappush(self.timers, (when, self._count, handle))
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.clock.now + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Generator[Any, None, T] | Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self.tasks.append(task)
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """Done by nobody's thread, a moment later."""
        future: asyncio.Future[T] = self.create_future()

        def work() -> None:
            if self.dead or future.done():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:
                future.set_exception(error)

        self.clock.after(0.001, lambda: self.call_soon(work) and None)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not self.dead:
            self._on_error(f"{context.get('message')}: {error!r}")

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)


class Scheduler:
    """Lets one process after the other run, in the order of a seed."""

    def __init__(self, clock: Clock, loops: list[ProcessLoop], random: Random) -> None:
        self.clock = clock
        self._loops = loops
        self._random = random
        self.steps = 0

    def run(self, until: float, over: Callable[[], bool] = lambda: False) -> None:
        """Until that time, or until it is over."""
        clock, draw = self.clock, self._random.random
        while not over():
            clock.do_what_is_due()
            able = [loop for loop in self._loops if loop.has_work()]
            if able:
                chosen = able[0] if len(able) == 1 else able[int(draw() * len(able))]
                self.steps += 1
                chosen.run_steps(1 + int(draw() ** 2 * STEPS_AT_ONCE))
                clock.now += _took(draw())
                continue
            due = min((loop.next for loop in self._loops), default=float("inf"))
            due = min(due, clock.next)
            if due > until:
                clock.now = max(clock.now, until)
                return
            clock.now = max(clock.now, due)
            if clock.now > until:
                return


def _took(drawn: float) -> float:
    """How long a process was at work: nearly nothing, or now and then long enough for timers to be late."""
    return drawn * 2e-5 if drawn < 0.97 else (drawn - 0.97) * 0.3 if drawn < 0.999 else 0.2
