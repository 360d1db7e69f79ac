"""The server's side of the helper process: starts it, sends it commands, reads their output, ends them."""

import asyncio
import logging
import marshal
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path

from understudy.protocol.choices import OutputStream
from understudy.sandbox.cell import placeholder
from understudy.sandbox.cell.plan import FULL, Plan
from understudy.sandbox.spec import NOT_EXECUTABLE, NOT_FOUND, NOT_RUN, TIMED_OUT, CommandResult

logger = logging.getLogger(__name__)

OnOutput = Callable[[OutputStream, bytes], None]

_BOOT = "import sys; sys.path.append(sys.argv[1]); from cell.serve import main; main(int(sys.argv[2]))"
_CHUNK = 65536
_READS_PER_TURN = 4
_PIPE_SIZE = 1 << 18
_INLINE = 32768
_GRACE_SECONDS = 0.2
_SWEEP_SECONDS = 2.5  # longer than a watching process needs to end its charges
_F_SETPIPE_SZ = 1031
_OPEN_FILES = 8192
_CLOSE_SECONDS = 5.0


class HelperDied(Exception):
    pass


class Helper:
    """One helper process and the commands it runs. Useless once `dead`; its owner then makes another."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.dead = False
        self.probed: asyncio.Future[dict[str, str]] = loop.create_future()
        self._next = 1
        self._starting: dict[int, Running] = {}
        self._under_way: set[Running] = set()
        self._unsent: deque[tuple[bytes, list[int], Running]] = deque()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        with theirs:
            self._process = _start_process(theirs)
        loop.add_reader(self._socket.fileno(), self._receive)

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self, plan: Plan, on_output: OnOutput, extra: tuple[int, ...] = ()) -> "Running":
        """Ask for a command. What comes of it is in the returned `Running`; never raises for the helper's failures.

        `extra` are descriptors for the command to have from number 4 on; they are closed here.
        """
        identifier = self._next
        self._next += 1
        running = Running(self._loop, plan, on_output)
        self._under_way.add(running)
        running.done.add_done_callback(lambda _: self._under_way.discard(running))
        if self.dead:
            for descriptor in (*running.writers, *extra):
                os.close(descriptor)
            running.fail("the sandbox helper is not running")
            return running
        self._starting[identifier] = running
        packed = plan.pack()
        descriptors = [*running.writers, *extra]
        if len(packed) > _INLINE:
            descriptors.append(as_file(packed))
            packed = None
        self._unsent.append((marshal.dumps((identifier, packed)), descriptors, running))
        self._send()
        return running

    def _send(self) -> None:
        while self._unsent:
            message, descriptors, _ = self._unsent[0]
            try:
                socket.send_fds(self._socket, [message], descriptors)
            except BlockingIOError:
                self._loop.add_writer(self._socket.fileno(), self._send)
                return
            except OSError:
                self._lose()
                return
            self._unsent.popleft()
            for descriptor in descriptors:
                os.close(descriptor)
        self._loop.remove_writer(self._socket.fileno())

    def _receive(self) -> None:
        while not self.dead:
            try:
                message, descriptors, _, _ = socket.recv_fds(self._socket, 65536, 1)
            except BlockingIOError:
                return
            except OSError:
                message, descriptors = b"", []
            if not message:
                self._lose()
                return
            identifier, kind, detail = marshal.loads(message)
            if kind == "probed":
                self.probed.set_result(detail)
                continue
            running = self._starting.pop(identifier)
            if kind == "started":
                running.started(descriptors[0])
            else:
                running.fail(detail)

    def _lose(self) -> None:
        """The helper is gone. What it had not started never will be; what it had started dies with it."""
        if self.dead:
            return
        self.dead = True
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        for _, descriptors, _ in self._unsent:
            for descriptor in descriptors:
                os.close(descriptor)
        self._unsent.clear()
        for running in self._starting.values():
            running.fail("the sandbox helper died before it could start the command")
        self._starting.clear()
        if not self.probed.done():
            self.probed.set_exception(HelperDied("the sandbox helper died while starting"))
            self.probed.exception()  # whoever waits is told; nobody waiting is no error
        self._process.poll()  # it has usually ended by now; if not, `close` waits for it

    async def close(self) -> None:
        """End every command and the helper, and wait until they are gone."""
        for running in self._under_way:
            running.kill()
        if self._under_way:
            await asyncio.wait([running.done for running in self._under_way], timeout=_CLOSE_SECONDS)
        self._lose()
        try:
            await self._loop.run_in_executor(None, self._process.wait, _CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def probe_helper() -> dict[str, str]:
    """Start a helper only to ask what works here. Blocks; raises OSError if it does not answer."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            process = _start_process(theirs)
        try:
            ours.settimeout(10)
            message = ours.recv(65536)
        finally:
            ours.close()
            process.wait()
    if not message:
        raise OSError("the sandbox helper does not start")
    return marshal.loads(message)[2]


def raise_open_files() -> int:
    """Let this process have the many descriptors that many commands need; returns what commands shall have instead."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return soft if soft != resource.RLIM_INFINITY else 0


def _start_process(theirs: socket.socket) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-E", "-c", _BOOT, str(Path(__file__).parent), str(theirs.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},
        cwd="/",
        pass_fds=(theirs.fileno(),),
        start_new_session=True,
    )


def as_file(content: bytes) -> int:
    descriptor = os.memfd_create("command", os.MFD_CLOEXEC)
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    return descriptor


class Running:
    """One command under way, moved on by the event loop and by nobody's task, so that no cancellation can strand it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, plan: Plan, on_output: OnOutput) -> None:
        self._loop = loop
        self._plan = plan
        self._on_output = on_output
        self._began = loop.time()
        self._pidfd = -1
        self._timed_out = False
        self._killed = False
        self._failure: BaseException | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.done: asyncio.Future[CommandResult] = loop.create_future()
        out, out_writer = os.pipe()
        err, err_writer = os.pipe()
        self._status, status_writer = os.pipe()
        self.writers = [out_writer, err_writer, status_writer]
        self._report = b""
        self._closed = False
        self._readers: dict[int, OutputStream] = {out: "stdout", err: "stderr"}
        os.set_blocking(self._status, False)
        loop.add_reader(self._status, self._read_status)
        for reader in self._readers:
            os.set_blocking(reader, False)
            _enlarge(reader)
            loop.add_reader(reader, self._read, reader)

    def started(self, pidfd: int) -> None:
        if self._closed:  # a quick command may have told its end before the helper told its start
            os.close(pidfd)
            return
        self._pidfd = pidfd
        self._loop.add_reader(pidfd, self._ended)
        if self._killed:
            self._kill()

    def fail(self, message: str) -> None:
        """It was never started."""
        self._close()
        self._settle(CommandResult(NOT_RUN, self._loop.time() - self._began, setup_error=message))

    def limit(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self._expire)

    def kill(self) -> None:
        """End it and all that it started, at once; `done` tells when that is so."""
        self._killed = True
        if self._pidfd >= 0:
            self._kill()

    def _expire(self) -> None:
        self._timed_out = True
        if self._pidfd < 0:
            self._killed = True
            return
        self._signal(signal.SIGTERM)
        self._timer = self._loop.call_later(_GRACE_SECONDS, self._kill)

    def _kill(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._plan.shape == FULL:
            self._signal(signal.SIGKILL)
            return
        # Without a PID namespace the watching process has to find and end what the command started.
        self._signal(signal.SIGUSR1)
        self._timer = self._loop.call_later(_SWEEP_SECONDS, self._signal, signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self._pidfd >= 0:
            try:
                signal.pidfd_send_signal(self._pidfd, number)
            except ProcessLookupError:
                pass

    def _read(self, reader: int) -> None:
        for _ in range(_READS_PER_TURN):
            try:
                chunk = os.read(reader, _CHUNK)
            except BlockingIOError:
                return
            if not chunk:
                self._close_reader(reader)
                return
            self._pass_on(self._readers[reader], chunk)
            if len(chunk) < _CHUNK:
                return

    def _pass_on(self, stream: OutputStream, chunk: bytes) -> None:
        if self._failure is not None:
            return
        try:
            self._on_output(stream, chunk)
        except Exception as error:  # it is the caller's: end the command and raise it where the caller waits
            self._failure = error
            self.kill()

    def _read_status(self) -> None:
        try:
            block = os.read(self._status, 4096)
        except BlockingIOError:
            return
        self._report += block
        if not block:
            self._loop.remove_reader(self._status)  # the watching process is going; `_ended` follows
        elif _is_final(self._report):
            self._finish()

    def _ended(self) -> None:
        """The watching process is gone, and with it everything it watched."""
        self._loop.remove_reader(self._pidfd)
        try:
            self._report += os.read(self._status, 4096)
        except BlockingIOError:
            pass
        self._finish()

    def _finish(self) -> None:
        """Nothing of the command runs any more, so what is in the pipes now is all there will be."""
        for reader in list(self._readers):
            self._drain(reader)
        self._close()
        lines = self._report.decode(errors="replace").splitlines()
        for line in lines:
            if line.startswith("cover "):
                placeholder.remove(bytes.fromhex(line[6:]))
        self._settle(self._result([line for line in lines if not line.startswith(("cover ", "note "))]))

    def _drain(self, reader: int) -> None:
        for _ in range(_PIPE_SIZE * 4 // _CHUNK):
            try:
                chunk = os.read(reader, _CHUNK)
            except BlockingIOError:
                return
            if not chunk:
                return
            self._pass_on(self._readers[reader], chunk)

    def _result(self, report: list[str]) -> CommandResult:
        duration = self._loop.time() - self._began
        exit_code: int | None = None
        number: int | None = None
        setup_error: str | None = None
        spawn_error: str | None = None
        for line in report:
            word, _, rest = line.partition(" ")
            match word:
                case "failed":
                    setup_error = setup_error or f"the sandbox could not be set up: {rest}"
                case "chdir" | "exec":
                    spawn_error = f"{os.strerror(int(rest))} (os error {rest})"
                    exit_code = NOT_RUN if word == "chdir" else NOT_FOUND if rest == "2" else NOT_EXECUTABLE
                case "exit":
                    exit_code = int(rest) if exit_code is None else exit_code
                case "signal":
                    number = int(rest)
                case "limit":
                    limit = "disk" if rest == "disk" else "memory"
                    return CommandResult(128 + signal.SIGKILL, duration, signal=signal.SIGKILL, limit=limit)
                case _:
                    setup_error = setup_error or "the sandbox helper died while the command ran"
        if self._timed_out:
            return CommandResult(TIMED_OUT, duration, timed_out=True, signal=number)
        if setup_error is not None and exit_code in (None, NOT_RUN) and number is None and report[0].startswith("failed"):
            return CommandResult(NOT_RUN, duration, setup_error=setup_error)
        if exit_code is None and number is None:
            number = signal.SIGKILL
            if not self._killed and setup_error is None:
                setup_error = "the process that watched the command was killed"
        if number is not None:
            return CommandResult(128 + number, duration, signal=number, setup_error=setup_error)
        return CommandResult(exit_code or 0, duration, setup_error=setup_error, spawn_error=spawn_error)

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
        self._loop.remove_reader(reader)
        del self._readers[reader]
        os.close(reader)

    def _close(self) -> None:
        self._closed = True
        for reader in list(self._readers):
            self._close_reader(reader)
        self._loop.remove_reader(self._status)
        os.close(self._status)
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1


def _is_final(report: bytes) -> bool:
    """Whether the watching process has said how it all ended: it does so when nothing is left."""
    last = report.splitlines()[-1]
    return report.endswith(b"\n") and last.startswith((b"exit ", b"signal ", b"limit ", b"orphaned"))


def _enlarge(pipe: int) -> None:
    import fcntl

    try:
        fcntl.fcntl(pipe, _F_SETPIPE_SZ, _PIPE_SIZE)
    except OSError:
        pass  # this user has many pipes already; the usual size works as well
