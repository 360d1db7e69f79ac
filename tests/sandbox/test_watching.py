"""What a command does to the process above it changes neither its limits nor what is said of its end."""

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sandbox.stage import BOUND, ENV, Output, children_of_helper, mark, processes_with, run
from tests.support.interpreter import PLAIN_PYTHON
from understudy.sandbox import Command, Containment, Limits, Sandbox

CALLS = """
import ctypes, os, resource, signal, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"
def call(x86, arm, *arguments):
    return libc.syscall(*[ctypes.c_long(a) if isinstance(a, int) else a for a in (x86 if X86 else arm, *arguments)])
def forge(number, code=-1):
    info = struct.pack("<iii4xii", number, 0, code, 0, 0).ljust(128, b"\\0")  # from process 0, that is, from outside
    return call(129, 138, 1, number, ctypes.create_string_buffer(info, 128))
def lower(kind, pid=1):
    return call(302, 261, pid, kind, ctypes.create_string_buffer(struct.pack("<QQ", 0, 0), 16), None)
"""
NUMBERS = "(1, 2, 3, 10, 12, 15, 17, 18, 19)"

ATTACKS = {
    "forged signals": f"[forge(number, code) for number in {NUMBERS} for code in (-1, -2, -6, -60)]",
    # Where the queue is full the kernel drops who sent a signal, and says that it came from outside.
    "forged signals with no room for their sender": f"""
resource.setrlimit(resource.RLIMIT_SIGPENDING, (0, 0)); lower(resource.RLIMIT_SIGPENDING)
signal.pthread_sigmask(signal.SIG_BLOCK, range(34, 64))
for n in range(40000):
    if call(129, 138, os.getpid(), 40, ctypes.create_string_buffer(struct.pack("<iii", 40, 0, -1), 128)): break
[(forge(number), call(234, 131, 1, 1, number)) for number in {NUMBERS}]
""",
    "signals by descriptor": f"pidfd = os.pidfd_open(1); [signal.pidfd_send_signal(pidfd, number) for number in {NUMBERS} + (9,)]",
    "signals of files": f"""
import fcntl
for number in {NUMBERS}:
    reader, writer = os.pipe()
    fcntl.fcntl(reader, fcntl.F_SETOWN, 1)
    fcntl.fcntl(reader, 10, number)  # F_SETSIG
    fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(writer, b"x")
""",
    "limits": "[lower(kind) for kind in range(16)]",
    "priorities": """
try: os.setpriority(os.PRIO_PROCESS, 1, 19)
except PermissionError: pass
try: os.setpriority(os.PRIO_USER, 0, 19)
except PermissionError: pass
for attempt in (lambda: os.sched_setaffinity(1, {0}), lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))):
    try: attempt(); print("changed")
    except PermissionError: pass
""",
    "a child whose end is told by another signal": """
for number in (10, 12, 1):
    signal.signal(number, signal.SIG_IGN)
    if call(56, 220, number, 0, 0, 0, 0) == 0: os._exit(0)
    if call(56, 220, 0x8000 | number, 0, 0, 0, 0) == 0: os._exit(0)  # a child of our parent
""",
    "tracing": "call(101, 117, 16, 1, 0, 0); call(101, 117, 0x4206, 1, 0, 0)",
    "its descriptors": """
for place in ("/proc/1/fd", "/proc/1/task/1/fd"):
    try:
        for name in os.listdir(place): open(f"{place}/{name}", "wb", 0).write(b"failed x\\nexit 0\\n")
    except OSError: pass
""",
}


@pytest.mark.quick(1)
@pytest.mark.parametrize("attack", ATTACKS)
async def test_the_end_is_told_truly_after(attack: str, sandbox: Sandbox, contained: Containment, workspace: Path) -> None:
    script = f"{CALLS}\nprint('up', flush=True)\n{ATTACKS[attack]}\ntime.sleep(0.3)\nprint('still')\nsys.exit(7)"
    for _ in range(2):  # the second time in a cell that waited
        result, output = await run(sandbox, contained, PLAIN_PYTHON, "-c", script, cwd=workspace)
        assert (result.exit_code, result.signal, result.lost, result.setup_error) == (7, None, None, None), output.text("stderr")
        assert output.text() == "up\nstill\n"


@pytest.mark.quick(1)
@pytest.mark.parametrize("disturbance", ["os.kill(1, 17)", "forge(17)", "os.fork() or os._exit(0)"])
async def test_a_limit_is_looked_at_however_often_the_watcher_is_woken(
    disturbance: str, sandbox: Sandbox, contained: Containment, workspace: Path
) -> None:
    limited = replace(contained, limits=Limits(memory_mb=150))
    script = f"""{CALLS}
for n in range(3): os.fork()
if os.getpid() == 2:
    while True: {disturbance}; time.sleep(0.01)
x = bytearray(b"x") * (50 << 20)
time.sleep(60)"""
    result, _ = await run(sandbox, limited, PLAIN_PYTHON, "-c", script, mark("hungry-70101"), cwd=workspace)
    assert (result.limit, result.signal) == ("memory", 9)
    assert processes_with(mark("hungry-70101")) == []


@pytest.mark.parametrize("kind", ["contained", "uncontained"])
async def test_what_is_said_after_the_watcher_was_killed_is_that_nobody_knows(
    kind: str, sandbox: Sandbox, contained: Containment, workspace: Path
) -> None:
    output = Output()
    containment = contained if kind == "contained" else None
    command = Command(("sh", "-c", f"echo up; sleep {mark('70102')}"), str(workspace), ENV, None, containment)
    task = asyncio.create_task(sandbox.run(command, output))
    await output.until("up")
    (watcher,) = children_of_helper(sandbox)
    os.kill(watcher, signal.SIGKILL)
    await asyncio.wait([task], timeout=BOUND)
    result = task.result()
    assert (result.exit_code, result.setup_error) == (137, None)
    assert result.lost == "the process that watched the command was killed"
    assert output.text() == "up\n"
