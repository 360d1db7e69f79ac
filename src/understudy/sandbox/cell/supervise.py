"""Watching one command to its end and ending all that it started.

Each command has a process of ours above it. In a PID namespace that process is number 1 and its end is everybody's end.
Elsewhere it adopts what the command leaves behind and ends that too.
"""

import os
import time
from collections.abc import Callable

from .guards import Guards

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # the module itself: `signal` wraps it in enums, which costs a tenth of the helper's start

TERM = signal.SIGTERM  # ask everything to stop; the server follows up with an end
END = signal.SIGUSR1  # end everything now
KILL = signal.SIGKILL
ORPHANED = signal.SIGHUP  # sent by the kernel when the helper has died
FRESH = (signal.SIGPIPE, signal.SIGXFSZ)  # ignored by Python, so to be reset for commands
_LISTENED = (TERM, END, ORPHANED, signal.SIGCHLD)

# A command that has ended leaves this long to what it started, e.g. the `tee` behind a redirection.
LEFTOVER_SECONDS = 0.2
_SWEEP_SECONDS = 2.0


Attempt = Callable[[bytes, "list[bytes]"], None]  # program and argv: execute or spawn it, raise OSError


def leave_interrupts_to_the_kernel() -> None:
    """Python's own handler would let a command interrupt the process that watches it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def block_signals() -> None:
    """Before the command is forked: what is sent to us waits until we look."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _LISTENED)


def unblock_signals() -> None:
    """In the command: everything as a fresh process has it."""
    for number in FRESH:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def told_to_end() -> bool:
    """Whether the end has come before the beginning."""
    return END in signal.sigpending()


class Watch:
    """Waits for `command`; `everything` knows how to signal the rest, `guards` whether a limit is broken."""

    def __init__(self, command: int, everything: "Namespace | Descendants", guards: Guards) -> None:
        self._command = command
        self._everything = everything
        self._guards = guards
        self.report = b""

    def run(self) -> bytes:
        """Returns how the command ended, once nothing of it is left: "exit N", "signal N", "limit NAME" or "orphaned"."""
        deadline: float | None = None
        while self._reap():
            if self.report and deadline is None:
                deadline = time.monotonic() + LEFTOVER_SECONDS
            number = self._wait(deadline)
            if number == TERM:
                self._everything.signal(signal.SIGTERM)
                continue
            if number == ORPHANED:
                self.report = self.report or b"orphaned"
            elif not self.report and number == 0 and (broken := self._guards.broken()):
                self.report = b"limit " + broken
            elif number != END and (deadline is None or time.monotonic() < deadline):
                continue
            self._end()
            break
        return self.report

    def _wait(self, deadline: float | None) -> int:
        """The next signal for us, 0 if none came in time."""
        seconds = self._guards.interval
        if deadline is not None:
            seconds = max(0.0, min(seconds, deadline - time.monotonic()))
        received = signal.sigtimedwait(_LISTENED, seconds)
        if received is None:
            return 0
        number = received.si_signo
        return number if number == signal.SIGCHLD or self._everything.is_outside(received.si_pid) else signal.SIGCHLD

    def _reap(self) -> bool:
        """Collect what has ended; False when there are no children any more."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._command and not self.report:
                if os.WIFSIGNALED(status):
                    self.report = b"signal %d" % os.WTERMSIG(status)
                else:
                    self.report = b"exit %d" % os.WEXITSTATUS(status)

    def _end(self) -> None:
        limit = time.monotonic() + _SWEEP_SECONDS
        self._everything.end()
        while self._reap() and time.monotonic() < limit:
            signal.sigtimedwait((signal.SIGCHLD,), 0.01)
            self._everything.end()


class Namespace:
    """Everything else in our PID namespace, of which we are number 1."""

    def signal(self, number: int) -> None:
        try:
            os.kill(-1, number)
        except ProcessLookupError:
            pass

    def end(self) -> None:
        self.signal(signal.SIGKILL)

    def is_outside(self, sender: int) -> bool:
        """Whoever has no number in here is outside. The command may send us signals too, which mean nothing."""
        return sender == 0


class Descendants:
    """Our children and theirs. Orphans among them become our children, since we are a subreaper."""

    def signal(self, number: int) -> None:
        for pid in self._all():
            send(pid, number)

    def end(self) -> None:
        # All are stopped before any is killed, or a process that keeps forking could stay ahead of us.
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

    def is_outside(self, sender: int) -> bool:
        return True  # only Landlock keeps the command from signalling us

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
