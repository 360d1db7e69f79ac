"""One running command, as the server sees it: its output, its end, and ways to end it."""

import _socket
import asyncio
import errno
import fcntl
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from understudy.protocol.choices import OutputStream
from understudy.sandbox.cell import placeholder
from understudy.sandbox.cell.orders import BEGIN, END, TERM
from understudy.sandbox.cell.plan import FULL, Plan
from understudy.sandbox.control import Control
from understudy.sandbox.pace import Floods, Pace
from understudy.sandbox.spec import NOT_EXECUTABLE, NOT_FOUND, NOT_RUN, TIMED_OUT, CommandResult, LimitName

OnOutput = Callable[[OutputStream, bytes], None]

_CHUNK = 65536
_READS_PER_TURN = 4
_PIPE_SIZE = 1 << 18
_ANSWER_SECONDS = 0.1
_SWEEP_SECONDS = 2.5  # longer than a watching process needs to end its charges
_LOST_SECONDS = 5.0  # in case another process holds the pipe open
_F_SETPIPE_SZ = 1031
_NO_ROOM = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT))
_WITHOUT_ROOM = "; protected names need some room in the workspace, so free some first: a patch can delete files"
_LIMITS: dict[str, LimitName] = {"memory": "memory", "disk": "disk", "processes": "processes", "tmp": "tmp"}


class RunningCommand:
    """One running command. The event loop drives it rather than a task, so that no cancellation can leave it behind."""

    argv: tuple[str, ...] = ()  # as the caller gave it; the plan's may be longer
    owner = ""  # see `Command`

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        plan: Plan,
        on_output: OnOutput,
        control: Control | None = None,
        floods: Floods | None = None,
    ) -> None:
        """`control`: the command may run for long. While nobody waits for it, it shares little of our time with other such
        `floods`."""
        self._loop = loop
        self._control = control
        self._master = -1  # of its terminal
        self._pace = Pace(floods or Floods())
        self._rest: asyncio.TimerHandle | None = None
        self.plan = plan
        self.covers: list[bytes] = []  # placeholders that the command's cell made; the helper removes them
        self._on_output = on_output
        self._began = loop.time()
        self._pidfd = -1
        self._held = plan.held
        self._timed_out = False
        self._killed = False
        self._to_stop = False  # asked before the helper reported the start
        self._ended_for: str | None = None
        self._failure: BaseException | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.done: asyncio.Future[CommandResult] = loop.create_future()
        self.done.add_done_callback(_retrieve)
        (out, out_writer), (err, err_writer), (self._status, status_writer) = _make_channels()
        self.writers = [out_writer, err_writer, status_writer]
        self._report = b""
        self._closed = False
        self._lost = False
        self._status_ended = False
        self._readers: dict[int, OutputStream] = {out: "stdout", err: "stderr"}
        if control is not None:
            control.begin(self.stop, self._end_rest)
        os.set_blocking(self._status, False)
        loop.add_reader(self._status, self._read_status)
        for reader in self._readers:
            os.set_blocking(reader, False)
            _enlarge(reader)
            loop.add_reader(reader, self._read, reader)

    def started(self, pidfd: int) -> None:
        if self._closed:  # a quick command may report its end before the helper reports its start
            os.close(pidfd)
            return
        self._pidfd = pidfd
        self._loop.add_reader(pidfd, self._ended)
        if self._killed:
            self._kill()
        elif self._to_stop:
            self.stop()

    def release(self) -> None:
        """Let a held command begin."""
        if self._held and not self._closed:
            self._held = False
            self._began = self._loop.time()
            self._order(BEGIN)

    def lose(self) -> None:
        """The helper died before it reported a start. If the command started after all, its end closes the status pipe."""
        self._lost = True
        if self._status_ended:
            self._finish_lost()
        else:
            self._timer = self._loop.call_later(_LOST_SECONDS, self._finish_lost)

    def _finish_lost(self) -> None:
        if self._closed:
            return
        self._report += b"failed the helper died before it could start the command\n"
        placeholder.remove_all(self.plan.roots, self.plan.protected)
        self._finish()

    def fail(self, message: str) -> None:
        """The command was never started."""
        self._close()
        self._settle(CommandResult(NOT_RUN, self._loop.time() - self._began, setup_error=message))

    def limit(self, seconds: float) -> None:
        if not self._lost:
            self._timer = self._loop.call_later(seconds, self._expire)

    def kill(self) -> None:
        """Kill it and all that it started, at once; `done` tells when they are gone."""
        self._killed = True
        if self._pidfd >= 0:
            self._kill()

    def _expire(self) -> None:
        self._timed_out = True
        self.stop()

    def end_for(self, why: str) -> None:
        """Stop it for a reason that is not its fault."""
        self._ended_for = self._ended_for or why
        self.stop()

    def stop(self) -> None:
        """Ask it to end; a moment later it is killed."""
        if self._closed:
            return
        if self._pidfd < 0:
            self._to_stop = True
            return
        self._order(TERM)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(self.plan.grace_seconds, self._kill)

    def _kill(self) -> None:
        self._killed = True  # counts as killed even after its time limit: if the watching process does not answer, we kill it
        if self._timer is not None:
            self._timer.cancel()
        # The watching process kills everything and reports when that is done, sooner than the kernel would tear down the
        # namespaces. If it
        # is number 1, killing it has the same effect, but slower, and works even if it does not answer.
        self._order(END)
        patience = _ANSWER_SECONDS if self.plan.shape == FULL else _SWEEP_SECONDS
        self._timer = self._loop.call_later(patience, self._kill_watcher)

    def _order(self, order: bytes) -> None:
        with suppress(OSError):  # it may have ended already
            os.write(self._status, order)

    def _kill_watcher(self) -> None:
        if self._pidfd >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _read(self, reader: int) -> None:
        if self._control is None or self._control.is_awaited:
            self._read_some(reader)
            return
        with self._pace:
            self._read_some(reader)
        if self._pace.tired and self._rest is None and not self._closed:
            for each in self._readers:
                self._loop.remove_reader(each)
            self._rest = self._loop.call_later(self._pace.rest(), self._end_rest)

    def _read_some(self, reader: int) -> None:
        for _ in range(_READS_PER_TURN):
            chunk = _read_output(reader)
            if chunk is None:
                return
            if not chunk:
                self._close_reader(reader)
                return
            self._pass_on(self._readers[reader], chunk)
            if len(chunk) < _CHUNK and reader != self._master:
                return

    def _end_rest(self) -> None:
        if self._rest is None:
            return
        self._rest.cancel()
        self._rest = None
        self._pace.rested()
        for reader in self._readers:
            self._loop.add_reader(reader, self._read, reader)

    def _pass_on(self, stream: OutputStream, chunk: bytes) -> None:
        if self._failure is not None:
            return
        try:
            self._on_output(stream, chunk)
        except Exception as error:  # raised by the caller's `on_output`: end the command, and raise it where the caller waits
            self._failure = error
            self.kill()

    def _read_status(self) -> None:
        try:
            block = self._receive()
        except BlockingIOError:
            return
        except ConnectionResetError:  # the process has ended without reading our last order
            block = b""
        self._report += block
        if not block:
            self._loop.remove_reader(self._status)  # the watching process is ending; `_ended` comes next
            self._status_ended = True
            if self._lost:
                self._finish_lost()
        elif _is_final(self._report):
            self._finish()

    def _receive(self) -> bytes:
        if not self.plan.terminal:
            return os.read(self._status, 4096)
        endpoint = socket.socket(fileno=self._status)
        try:
            block, descriptors, _, _ = socket.recv_fds(endpoint, 4096, 1, socket.MSG_CMSG_CLOEXEC)
        finally:
            endpoint.detach()
        for master in descriptors:
            self._attach_terminal(master)
        return block

    def _attach_terminal(self, master: int) -> None:
        os.set_blocking(master, False)
        self._master = master
        self._readers[master] = "stdout"
        self._loop.add_reader(master, self._read, master)
        if self._control is not None:
            self._control.attach(self._loop, master)

    def _ended(self) -> None:
        """The watching process is gone, and everything that it watched."""
        self._loop.remove_reader(self._pidfd)
        while block := self._receive_some():
            self._report += block
        if not _is_final(self._report):  # it may have ended before it reported all its placeholders
            placeholder.remove_all(self.plan.roots, self.plan.protected)
        self._finish()

    def _receive_some(self) -> bytes:
        try:
            return self._receive()
        except (BlockingIOError, ConnectionResetError):
            return b""

    def _finish(self) -> None:
        """Nothing of the command runs any more, so the pipes contain the rest of its output."""
        for reader in list(self._readers):
            self._drain(reader)
        self._close()
        lines = self._report.decode(errors="replace").splitlines()
        self.covers = [bytes.fromhex(line[6:]) for line in lines if line.startswith("cover ")]
        placeholder.remove_each([bytes.fromhex(line[6:]) for line in lines if line.startswith("stray ")])
        result = self._result([line for line in lines if not line.startswith(("cover ", "stray ", "note "))])
        self._settle(result if self._ended_for is None else replace(result, ended_for=self._ended_for))

    def _drain(self, reader: int) -> None:
        left = _PIPE_SIZE * 4  # in case another process holds the other end open
        while left > 0 and (chunk := _read_output(reader)):
            left -= len(chunk)
            self._pass_on(self._readers[reader], chunk)

    def _result(self, report: list[str]) -> CommandResult:
        duration = self._loop.time() - self._began
        exit_code: int | None = None
        number: int | None = None
        spawn_error: str | None = None
        lost: str | None = None
        for line in report:
            word, _, rest = line.partition(" ")
            match word:
                case "failed":  # reported only if nothing was executed
                    way = _WITHOUT_ROOM if rest.startswith(_NO_ROOM) else ""
                    return CommandResult(NOT_RUN, duration, setup_error=f"the sandbox could not be set up: {rest}{way}")
                case "chdir" | "exec":
                    spawn_error = f"{os.strerror(int(rest))} (os error {rest})"
                    exit_code = NOT_RUN if word == "chdir" else NOT_FOUND if rest == "2" else NOT_EXECUTABLE
                case "exit":
                    exit_code = int(rest) if exit_code is None else exit_code
                case "signal":
                    number = int(rest)
                case "limit":
                    return CommandResult(128 + signal.SIGKILL, duration, signal=signal.SIGKILL, limit=_LIMITS[rest])
                case "exposed":
                    path = bytes.fromhex(rest).decode(errors="backslashreplace")
                    by = "another program" if self.plan.shape == FULL else "the command or another program"
                    killed = signal.SIGKILL
                    return CommandResult(128 + killed, duration, signal=killed, exposed=path, exposed_by=by)
                case "lost":
                    lost = f"the process that watched the command failed: {rest}"
                case _:
                    lost = "the sandbox helper died while the command ran"
        if self._timed_out:
            return CommandResult(TIMED_OUT, duration, timed_out=True, signal=number)
        if exit_code is None and number is None:
            number = signal.SIGKILL
            if not self._killed:
                lost = lost or "the process that watched the command was killed"
        if number is not None:
            return CommandResult(128 + number, duration, signal=number, lost=lost)
        return CommandResult(exit_code or 0, duration, spawn_error=spawn_error)

    def _settle(self, result: CommandResult) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.done.done():
            return
        if self._failure is not None:
            self.done.set_exception(self._failure)
        else:
            self.done.set_result(result)

    def _close_reader(self, reader: int) -> None:
        if reader == self._master and self._control is not None:
            self._control.end()
        self._loop.remove_reader(reader)
        del self._readers[reader]
        os.close(reader)

    def _close(self) -> None:
        self._closed = True
        self._end_rest()
        if self._control is not None:
            self._control.end()
        for reader in list(self._readers):
            self._close_reader(reader)
        self._loop.remove_reader(self._status)
        os.close(self._status)
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1


def _retrieve(done: "asyncio.Future[CommandResult]") -> None:
    """Fetch the error, so that asyncio does not log it when nobody waits any more."""
    if not done.cancelled():
        done.exception()


def _read_output(reader: int) -> bytes | None:
    """Returns None if there is no output now, and b"" once all writers have closed the pipe."""
    try:
        return os.read(reader, _CHUNK)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno != errno.EIO:  # a terminal reports its end so
            raise
        return b""


def _is_final(report: bytes) -> bool:
    """Whether the watching process has reported the end, which it does once nothing is left."""
    if not report.endswith(b"\n"):
        return False
    last = report.splitlines()[-1]
    return last.startswith((b"exit ", b"signal ", b"limit ", b"exposed ", b"orphaned"))


def _make_channels() -> list[tuple[int, int]]:
    """Pipes for stdout and stderr, and a pair of sockets to talk to the process above the command."""
    channels: list[tuple[int, int]] = []
    try:
        channels += [os.pipe(), os.pipe()]
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)  # `socket` would ask each end for its name
    except OSError:
        for descriptor in (end for channel in channels for end in channel):
            os.close(descriptor)
        raise
    return [*channels, (ours.detach(), theirs.detach())]


def _enlarge(pipe: int) -> None:
    try:
        fcntl.fcntl(pipe, _F_SETPIPE_SZ, _PIPE_SIZE)
    except OSError:
        pass  # this user has many pipes already; the usual size works, too
