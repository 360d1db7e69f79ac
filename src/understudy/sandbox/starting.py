"""Starts processes so that none is left over when the caller is cancelled; also workers that can be killed at any moment."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any


async def start_process(*argv: str, **options: Any) -> asyncio.subprocess.Process:
    """Like `asyncio.create_subprocess_exec`, in a session of its own.

    The process may run before that call returns. When cancelled there, asyncio kills at most that one process and does not wait;
    this function ends the whole group before the cancellation goes on.
    """
    starting = asyncio.ensure_future(asyncio.create_subprocess_exec(*argv, start_new_session=True, **options))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(OSError):  # it could not be started
            process = await starting
            signal_group(process.pid, signal.SIGKILL)
            await process.wait()
        raise


def signal_group(group: int, number: signal.Signals) -> None:
    """Does nothing if the group is gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


@dataclass(frozen=True, slots=True)
class WorkerResult:
    code: int  # negative: killed by this signal
    out: bytes
    err: str


async def run_worker(module: str, job: bytes, seconds: float) -> WorkerResult | None:
    """None if it had to be killed because its time was over."""
    worker = await start_process(  # in a session of its own, because a Ctrl-C at the terminal is meant for us
        *(sys.executable, "-I", "-X", "utf8", "-m", module),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={},
        cwd="/",
    )
    try:
        async with asyncio.timeout(seconds):
            out, err = await converse(worker, job)
    except TimeoutError:
        return None
    finally:
        if worker.returncode is None:
            worker.kill()
            await worker.wait()
    return WorkerResult(worker.returncode or 0, out, err.decode(errors="replace")[-2000:])


async def converse(worker: asyncio.subprocess.Process, job: bytes) -> tuple[bytes, bytes]:
    """Like `Process.communicate`, which fails on uvloop if the process is killed before it gets its input."""
    assert worker.stdin
    assert worker.stdout
    assert worker.stderr
    _, out, err = await asyncio.gather(_feed(worker.stdin, job), worker.stdout.read(), worker.stderr.read())
    await worker.wait()
    return out, err


async def _feed(pipe: asyncio.StreamWriter, job: bytes) -> None:
    with suppress(OSError, RuntimeError):  # the process is gone; uvloop raises RuntimeError for a closed pipe
        pipe.write(job)
        await pipe.drain()
        pipe.close()
