"""Commands that run until a time that has to be put off again and again: they end then, also while their server stands still."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.sandbox.stage import ENV, Output, run, until
from understudy.sandbox import Command, Containment, Sandbox

WRITES = """
import time
def write():
    with open("lines", "a") as file: file.write("x")
write(); print("up", flush=True)
while True: write(); time.sleep(0.01)
"""
SERVER = """
import asyncio, sys, time
from understudy.sandbox import Command, Sandbox
async def main():
    sandbox = Sandbox()
    sandbox.hold(time.monotonic() + 3.0)
    argv = (sys.executable, "-c", sys.argv[1])
    await sandbox.run(Command(argv, sys.argv[2], {"PATH": "/usr/bin:/bin"}, None, None), lambda *said: print(said, flush=True))
asyncio.run(main())
"""


async def test_they_end_at_the_time_that_was_said_and_others_can_run_after_it(
    sandbox: Sandbox, either: Containment | None, workspace: Path
) -> None:
    output = Output()
    before = sandbox.helper_pid
    sandbox.hold(time.monotonic() + 60)
    task = asyncio.create_task(sandbox.run(Command((sys.executable, "-c", WRITES), str(workspace), ENV, None, either), output))
    await output.until("up")
    sandbox.hold(time.monotonic() + 0.2)
    result = await task
    assert result.exit_code != 0
    size = (workspace / "lines").stat().st_size
    assert (await run(sandbox, either, "true", cwd=workspace))[0].exit_code == 0
    assert sandbox.helper_pid != before
    assert (workspace / "lines").stat().st_size == size


@pytest.mark.slow
async def test_they_end_while_their_server_stands_still(tmp_path: Path) -> None:
    command = (sys.executable, "-c", SERVER, WRITES, str(tmp_path))
    server = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=dict(os.environ))
    assert server.stdout is not None
    try:
        assert b"up" in await server.stdout.readline()
        server.send_signal(signal.SIGSTOP)
        lines = tmp_path / "lines"

        def is_over() -> bool:
            size = lines.stat().st_size
            time.sleep(0.2)
            return lines.stat().st_size == size

        await until(is_over)
    finally:
        server.kill()
        await server.wait()
