"""A process that runs a module of ours on one job and can be killed: for work that may never end, or take all the memory.

It has none of our environment and limits itself. It is not for what a model wrote: that runs in the cell.
"""

import asyncio
import sys

import msgspec

from understudy.sandbox.starting import start_process


class WorkerResult(msgspec.Struct, frozen=True):
    code: int  # negative: the signal that ended it
    out: bytes
    err: str


async def run_worker(module: str, job: bytes, seconds: float) -> WorkerResult | None:
    """None where it had to be killed, because its time was over."""
    worker = await start_process(  # in a session of its own: a Ctrl-C at the terminal is for us
        *(sys.executable, "-I", "-X", "utf8", "-m", module),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={},
        cwd="/",
    )
    try:
        async with asyncio.timeout(seconds):
            out, err = await worker.communicate(job)
    except TimeoutError:
        return None
    finally:
        if worker.returncode is None:
            worker.kill()
            await worker.wait()
    return WorkerResult(worker.returncode or 0, out, err.decode(errors="replace")[-2000:])
