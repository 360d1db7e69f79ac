"""Runs commands where the helper process does not work, that is, anywhere but on Linux.

A process group replaces the PID namespace, so a process that leaves the group is not ended with the command.

Also makes the macOS profile and the command line that applies it: written from public documentation, never tried on a Mac.
"""

import asyncio
import fcntl
import os
import signal
import struct
import termios
import time
from collections.abc import Callable
from functools import partial

from understudy.protocol.choices import OutputStream
from understudy.sandbox.cell.plan import GRACE_SECONDS
from understudy.sandbox.control import Control
from understudy.sandbox.spec import NOT_EXECUTABLE, NOT_FOUND, NOT_RUN, TIMED_OUT, CommandResult, Containment
from understudy.sandbox.starting import signal_group, start_process
from understudy.sandbox.taking import at_head_of_session

SANDBOX_EXEC = "/usr/bin/sandbox-exec"  # by its full path: a program of that name elsewhere in PATH cannot be trusted

_BASE = """(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read)
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo") (global-name "com.apple.PowerManagement.control"))
(allow ipc-posix-sem)
(allow ipc-posix-shm)
(allow pseudo-tty)
(allow file-read*)
(allow file-write-data (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty"))
(allow file-ioctl (regex #"^/dev/tty") (literal "/dev/ptmx"))
(allow file-read* file-write* (regex #"^/dev/ttys[0-9]+$") (literal "/dev/ptmx"))
"""
_NETWORK = {
    "off": "",
    "loopback": """(allow network-bind (local ip "localhost:*"))
(allow network-inbound (local ip "localhost:*"))
(allow network-outbound (remote ip "localhost:*"))
(allow system-socket)
""",
    "on": """(allow network-bind)
(allow network-inbound)
(allow network-outbound)
(allow system-socket)
(allow mach-lookup (global-name "com.apple.dnssd.service") (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.trustd.agent") (global-name "com.apple.SecurityServer"))
""",
}


def profile(containment: Containment, roots: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """The profile's text and its parameters. Paths are passed only as parameters, so none can be read as a rule."""
    parameters: dict[str, str] = {}
    text = _BASE
    for index, root in enumerate(_real(roots)):
        parameters[f"ROOT_{index}"] = root
        kept = ""
        for number, name in enumerate(name for name in containment.protected if not name.startswith("/")):
            key = f"ROOT_{index}_KEEP_{number}"
            parameters[key] = os.path.join(root, name)
            kept += f' (require-not (subpath (param "{key}"))) (require-not (literal (param "{key}")))'
        text += f'(allow file-write* (require-all (subpath (param "ROOT_{index}")){kept}))\n'
    for index, path in enumerate(_real(tuple(name for name in containment.protected if name.startswith("/")))):
        parameters[f"KEEP_{index}"] = path
        text += f'(deny file-write* (subpath (param "KEEP_{index}")))\n'
    for index, path in enumerate(_real(containment.masked)):
        parameters[f"MASK_{index}"] = path
        text += f'(deny file-read* file-write* (subpath (param "MASK_{index}")))\n'
    if containment.private_tmp is not None:  # after the masks, because it is inside our masked state
        parameters["PRIVATE_TMP"] = os.path.realpath(containment.private_tmp)
        text += '(allow file-read* file-write* (subpath (param "PRIVATE_TMP")))\n'
    return text + _NETWORK[containment.network], parameters


def command_line(argv: tuple[str, ...], containment: Containment, roots: tuple[str, ...]) -> tuple[str, ...]:
    text, parameters = profile(containment, roots)
    definitions = [f"-D{name}={value}" for name, value in parameters.items()]
    return (SANDBOX_EXEC, "-p", text, *definitions, "--", *argv)


def _real(paths: tuple[str, ...]) -> list[str]:
    """As the kernel names them: on macOS /tmp and /var are links into /private."""
    return [os.path.realpath(path) for path in paths]


_CHUNK = 65536
_MOST_DRAINED = 1 << 20  # more than a pipe can hold


class _Pipe:
    """One output stream. Uses its own pipe: with the event loop's we would learn of the end only once every writer is gone."""

    def __init__(
        self, stream: OutputStream, on_output: Callable[[OutputStream, bytes], None], control: Control | None = None
    ) -> None:
        """`control`: the stream is a terminal, which also takes input."""
        self._stream: OutputStream = stream
        self._on_output = on_output
        self._loop = asyncio.get_running_loop()
        self._control = control
        self._reader, self.writer = os.pipe() if control is None else os.openpty()
        os.set_blocking(self._reader, False)
        if control is not None:
            fcntl.ioctl(self.writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
            control.attach(self._loop, self._reader)
        self._loop.add_reader(self._reader, self._read)
        self.failure: Exception | None = None
        self._end: Callable[[], None] | None = None

    def end_by(self, end: Callable[[], None]) -> None:
        """Set how to end the command if its output is refused. It may have written before this call."""
        self._end = end
        if self.failure is not None:
            end()

    def _read(self) -> bool:
        try:
            chunk = os.read(self._reader, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:  # a terminal reports so that all have left it
            chunk = b""
        if not chunk:
            self._loop.remove_reader(self._reader)
            return False
        try:
            self._on_output(self._stream, chunk)
        except Exception as error:  # raised by the caller's `on_output`; raise it where the caller waits
            self.failure = self.failure or error
            if self._end is not None:
                self._end()
        return True

    def close(self) -> None:
        """Read what is left and no more: a process that left the group may keep writing."""
        for _ in range(_MOST_DRAINED // _CHUNK):
            if not self._read():
                break
        if self._control is not None:
            self._control.end()
        self._loop.remove_reader(self._reader)
        os.close(self._reader)


async def run_directly(
    argv: tuple[str, ...],
    *,
    cwd: str,
    env: dict[str, str],
    timeout: float | None,
    on_output: Callable[[OutputStream, bytes], None],
    control: Control | None = None,
    source: int | None = None,
) -> CommandResult:
    """Run the command to its end. However this call is left, the command's process group has ended. `source`: its standard
    input."""
    if control is not None and control.terminal:
        argv = (*at_head_of_session(), *argv)
        pipes = [_Pipe("stdout", on_output, control)]
    else:
        pipes = [_Pipe("stdout", on_output), _Pipe("stderr", on_output)]
    try:
        result = await _run(argv, cwd, env, timeout, pipes, control, source)
    finally:
        for pipe in pipes:
            pipe.close()
    for pipe in pipes:
        if pipe.failure is not None:
            raise pipe.failure
    return result


async def _run(
    argv: tuple[str, ...],
    cwd: str,
    env: dict[str, str],
    timeout: float | None,
    pipes: list[_Pipe],
    control: Control | None,
    source: int | None,
) -> CommandResult:
    began = time.monotonic()
    out, err = pipes[0].writer, pipes[-1].writer
    given = out if len(pipes) == 1 else asyncio.subprocess.DEVNULL if source is None else source
    try:
        process = await start_process(*argv, cwd=cwd, env=env, stdin=given, stdout=out, stderr=err)
    except OSError as error:
        code = NOT_RUN if error.filename == cwd else NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
        return CommandResult(code, time.monotonic() - began, spawn_error=f"{error.strerror} (os error {error.errno})")
    finally:
        for descriptor in {out, err}:
            os.close(descriptor)
    for pipe in pipes:
        pipe.end_by(partial(signal_group, process.pid, signal.SIGKILL))
    timed_out = False
    ends: list[asyncio.TimerHandle] = []

    def stop() -> None:
        signal_group(process.pid, signal.SIGTERM)
        ends.append(asyncio.get_running_loop().call_later(GRACE_SECONDS, signal_group, process.pid, signal.SIGKILL))

    if control is not None:
        control.begin(stop)
    try:
        async with asyncio.timeout(timeout):
            await process.wait()
    except TimeoutError:
        timed_out = True
        signal_group(process.pid, signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), GRACE_SECONDS)
        except TimeoutError:
            pass
    finally:
        for end in ends:
            end.cancel()  # another group may have the same number by then
        signal_group(process.pid, signal.SIGKILL)
        code = await process.wait()
    number = -code if code < 0 else None
    duration = time.monotonic() - began
    if timed_out:
        return CommandResult(TIMED_OUT, duration, timed_out=True, signal=number)
    return CommandResult(128 + number if number else code, duration, signal=number)
