"""Running commands where the helper process does not work, that is, anywhere but on Linux.

A process group takes the place of the PID namespace: what leaves the group is not ended with the command.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable

from understudy.protocol.choices import OutputStream
from understudy.sandbox.spec import NOT_EXECUTABLE, NOT_FOUND, NOT_RUN, TIMED_OUT, CommandResult

_CHUNK = 65536
_GRACE_SECONDS = 0.2
_DRAIN_SECONDS = 2.0


async def run_directly(
    argv: tuple[str, ...],
    *,
    cwd: str,
    env: dict[str, str],
    timeout: float | None,
    on_output: Callable[[OutputStream, bytes], None],
) -> CommandResult:
    """Run to the end; however this is left, the command's process group has ended."""
    began = time.monotonic()
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=cwd,
            env=env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            limit=_CHUNK,
        )
    except OSError as error:
        code = NOT_RUN if error.filename == cwd else NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
        return CommandResult(code, time.monotonic() - began, spawn_error=f"{error.strerror} (os error {error.errno})")
    assert process.stdout is not None
    assert process.stderr is not None
    readers = [
        asyncio.ensure_future(_pass_on(process.stdout, "stdout", on_output)),
        asyncio.ensure_future(_pass_on(process.stderr, "stderr", on_output)),
    ]
    timed_out = False
    try:
        async with asyncio.timeout(timeout):
            await process.wait()
    except TimeoutError:
        timed_out = True
        _signal_group(process.pid, signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), _GRACE_SECONDS)
        except TimeoutError:
            pass
    finally:
        _signal_group(process.pid, signal.SIGKILL)
        await process.wait()
        # A process that left the group may keep the pipes open.
        _, late = await asyncio.wait(readers, timeout=_DRAIN_SECONDS)
        for reader in late:
            reader.cancel()
    for reader in readers:
        if reader.done() and not reader.cancelled():
            reader.result()
    code = process.returncode if process.returncode is not None else NOT_RUN
    number = -code if code < 0 else None
    if timed_out:
        return CommandResult(TIMED_OUT, time.monotonic() - began, timed_out=True, signal=number)
    return CommandResult(128 + number if number else code, time.monotonic() - began, signal=number)


async def _pass_on(pipe: asyncio.StreamReader, stream: OutputStream, on_output: Callable[[OutputStream, bytes], None]) -> None:
    while chunk := await pipe.read(_CHUNK):
        on_output(stream, chunk)


def _signal_group(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass
