"""A signal that comes before the event loop runs: it counts."""

import signal
import subprocess
import sys

import pytest

from understudy.testing.waiting import WAIT_SECONDS

PROGRAM = """
import asyncio, signal, sys
from understudy.servers.process.process import call_on_signals, new_loop

async def wait(heard):
    return await asyncio.wait_for(heard, {seconds})

loop = {loop}()
heard = loop.create_future()
call_on_signals(loop, [signal.SIGTERM, signal.SIGINT], heard.set_result)
if {early}:
    signal.raise_signal({number})
else:
    loop.call_soon(signal.raise_signal, {number})
with asyncio.Runner(loop_factory=lambda: loop) as runner:
    print(runner.run(wait(heard)))
signal.raise_signal({number})  # the loop is closed: there is nobody to tell
"""


@pytest.mark.parametrize("early", [True, False], ids=["before it runs", "while it runs"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("loop", ["new_loop", "asyncio.new_event_loop"])
def test_a_signal_is_heard_whenever_it_comes(loop: str, number: int, early: bool) -> None:
    program = PROGRAM.format(loop=loop, number=int(number), early=early, seconds=WAIT_SECONDS)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=2 * WAIT_SECONDS, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{int(number)}\n", "")
