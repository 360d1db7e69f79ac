"""Watches one command to its end, and ends all that it started.

Each command has a process of ours above it. In a PID namespace that process is number 1, and its end kills all others. Elsewhere it
adopts orphans of the command and ends those, too.
"""

import os
import select
import signal
import time

from .exposure import MountWatch, NameWatch
from .guards import LimitGuards
from .orders import END, ORPHANED, TERM, Orders

KILL = signal.SIGKILL
FRESH = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores these, so reset them for commands
# Before exec, the C library queries each signal; it resets those named here without a query.
ALL = tuple(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
_MEANINGLESS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT)

_SWEEP_SECONDS = 2.0
REST = 0.005  # between two checks of moved names: endless renaming must not keep us busy
_REAPED_AT_ONCE = 256  # so that a fork bomb cannot keep us from everything else


def leave_interrupts_to_the_kernel() -> None:
    """With Python's own handler a command could interrupt the process that watches it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def block_signals() -> None:
    """Signals sent to us mean nothing; see `orders`."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _MEANINGLESS)


def unblock_signals() -> None:
    """In the command: restore the signals of a fresh process."""
    for number in FRESH:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


class CommandWatch:
    """Waits for `command`. `everything` can signal all other processes; `guards` reports a limit that is exceeded; `names` reports
    a path that should be out of the command's reach and no longer is.

    `grace_seconds`: how long the processes that a finished command left may go on, for example the `tee` of a redirection.
    """

    def __init__(
        self,
        command: int,
        everything: "Namespace | Descendants",
        guards: LimitGuards,
        names: "MountWatch | NameWatch",
        orders: Orders,
        grace_seconds: float,
    ) -> None:
        self._command = command
        self._everything = everything
        self._guards = guards
        self._names = names
        self._interval = min(guards.interval, names.interval)
        self._orders = orders
        self._grace_seconds = grace_seconds
        self.report = b""

    def run(self) -> bytes:
        """Returns how the command ended, once nothing of it is left: "exit N", "signal N", "limit NAME", "exposed PATH in hex" or
        "orphaned".
        """
        with _ChildAlarm() as alarm:
            self._orders.also(alarm.reader)
            self._run(alarm)
        # A command that was quick may have ended before the last hint was looked at.
        if not self.report.startswith(b"exposed") and self._names.hints.pending() and (path := self._names.exposed()) is not None:
            self.report = b"exposed " + path.hex().encode()
        return self.report

    def _run(self, alarm: "_ChildAlarm") -> None:
        deadline: float | None = None
        rested: float | None = None
        look = time.monotonic() + self._interval  # by the clock, because a command can wake us as often as it likes
        while self._reap():
            now = time.monotonic()
            if self.report and deadline is None:
                deadline = now + self._grace_seconds
            order = self._orders.wait(min(look, deadline or look, rested or look) - now)
            alarm.clear()
            now = time.monotonic()
            if order == TERM:
                self._everything.signal(signal.SIGTERM)
            elif order == ORPHANED:
                self.report = self.report or b"orphaned"
            told = self._names.hints.given(self._orders.ready)
            if rested is not None and now >= rested:
                rested = None
                self._names.hints.wake(self._orders)
            elif told and rested is None:
                rested = now + REST
                self._names.hints.rest(self._orders)
            if (told or now >= look) and (path := self._names.exposed()) is not None:
                self.report = self.report or b"exposed " + path.hex().encode()
                order = END
            if now >= look and not self.report and (broken := self._guards.broken()):
                self.report = b"limit " + broken
                order = END
            if now >= look:
                look = time.monotonic() + self._interval
            if order in (END, ORPHANED) or (deadline is not None and now >= deadline):
                self._end(alarm)
                break

    def _reap(self) -> bool:
        """Reap ended children; False if there are none left."""
        for _ in range(_REAPED_AT_ONCE):
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                break
            if pid == self._command and not self.report:
                if os.WIFSIGNALED(status):
                    self.report = b"signal %d" % os.WTERMSIG(status)
                else:
                    self.report = b"exit %d" % os.WEXITSTATUS(status)
        return True

    def _end(self, alarm: "_ChildAlarm") -> None:
        limit = time.monotonic() + _SWEEP_SECONDS
        self._everything.end()
        while self._reap() and time.monotonic() < limit:
            alarm.wait(0.01)
            self._everything.end()


class _ChildAlarm:
    """A descriptor that becomes readable when a child may have ended."""

    def __enter__(self) -> "_ChildAlarm":
        self.reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _ignore)
        return self

    def clear(self) -> None:
        try:
            os.read(self.reader, 4096)
        except BlockingIOError:
            pass

    def wait(self, seconds: float) -> None:
        select.select([self.reader], [], [], seconds)
        self.clear()

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        os.close(self.reader)
        os.close(self._writer)


def _ignore(number: int, frame: object) -> None:
    """Does nothing, but only with a handler does the kernel wake us."""


class Namespace:
    """All other processes in our PID namespace, where we are number 1."""

    def signal(self, number: int) -> None:
        try:
            os.kill(-1, number)
        except ProcessLookupError:
            pass

    def end(self) -> None:
        self.signal(signal.SIGKILL)


class Descendants:
    """Our children and their descendants. Orphans among them become our children, because we are a subreaper."""

    def signal(self, number: int) -> None:
        for pid in self._all():
            send(pid, number)

    def end(self) -> None:
        # Stop all before killing any; otherwise a process that keeps forking could escape us.
        stopped: set[int] = set()
        for _ in range(20):
            fresh = [pid for pid in self._all() if pid not in stopped]
            if not fresh:
                break
            for pid in fresh:
                send(pid, signal.SIGSTOP)
                stopped.add(pid)
        for pid in stopped:
            send(pid, signal.SIGKILL)

    def _all(self) -> "list[int]":
        found: list[int] = []
        waiting = [os.getpid()]
        while waiting:
            children = children_of(waiting.pop())
            found += children
            waiting += children
        return found


def children_of(pid: int) -> "list[int]":
    found: list[int] = []
    try:
        threads = os.listdir(b"/proc/%d/task" % pid)
    except OSError:
        return found
    for thread in threads:
        try:
            descriptor = os.open(b"/proc/%d/task/%s/children" % (pid, thread), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return _children_by_parent(pid)
        except OSError:
            continue
        content = b""
        while block := os.read(descriptor, 65536):
            content += block
        os.close(descriptor)
        found += [int(child) for child in content.split()]
    return found


def _children_by_parent(parent: int) -> "list[int]":
    """For kernels built without the `children` files."""
    found: list[int] = []
    for name in os.listdir(b"/proc"):
        if not name.isdigit():
            continue
        try:
            descriptor = os.open(b"/proc/" + name + b"/stat", os.O_RDONLY | os.O_CLOEXEC)
            content = os.read(descriptor, 4096)
            os.close(descriptor)
        except OSError:
            continue
        if int(content[content.rindex(b")") + 2 :].split()[1]) == parent:
            found.append(int(name))
    return found


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass


def wait_until_gone(pids: "list[int]", seconds: float) -> None:
    limit = time.monotonic() + seconds
    left = set(pids)
    while left and time.monotonic() < limit:
        for pid in list(left):
            try:
                if os.waitpid(pid, os.WNOHANG)[0]:
                    left.discard(pid)
            except ChildProcessError:
                left.discard(pid)
        if left:
            time.sleep(0.002)
