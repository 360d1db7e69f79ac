"""However a command ends, and whatever dies with it, nothing of it is left: no process, no file, no mount."""

import asyncio
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sandbox.stage import (
    BOUND,
    ENV,
    PROTECTED,
    Output,
    at_rest,
    children_of_helper,
    mark,
    processes_with,
    run,
    spare_of,
    until,
)
from tests.support.interpreter import PLAIN_PYTHON
from understudy.sandbox import Command, CommandResult, Containment, Limits, Sandbox
from understudy.sandbox.cell import placeholder

DAEMON = """
import os, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
time.sleep(3600)
"""
STUBBORN = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; print('up', flush=True); time.sleep(3600)"


def helper_pid(sandbox: Sandbox) -> int:
    assert sandbox.helper_pid is not None
    return sandbox.helper_pid


async def start(
    sandbox: Sandbox, containment: Containment | None, *argv: str, cwd: Path
) -> tuple["asyncio.Task[CommandResult]", Output]:
    """A command that has said "up"."""
    output = Output()
    task = asyncio.create_task(sandbox.run(Command(argv, str(cwd), ENV, None, containment), output))
    await output.until("up")
    return task, output


async def test_a_daemon_ends_with_the_command_that_started_it(
    sandbox: Sandbox, either: Containment | None, workspace: Path
) -> None:
    result, _ = await run(sandbox, either, PLAIN_PYTHON, "-c", DAEMON, mark("daemon-70001"), cwd=workspace)
    assert result.exit_code == 0
    assert processes_with(mark("daemon-70001")) == []


async def test_cancelling_ends_a_command_that_ignores_signals_and_its_daemons(
    sandbox: Sandbox, either: Containment | None, workspace: Path
) -> None:
    (workspace / "daemon.py").write_text(DAEMON)
    script = f"'{PLAIN_PYTHON}' daemon.py {mark('daemon-70002')}; exec '{PLAIN_PYTHON}' -c \"{STUBBORN}\" {mark('daemon-70002')}"
    task, _ = await start(sandbox, either, "sh", "-c", script, cwd=workspace)
    assert len(processes_with(mark("daemon-70002"))) >= 2
    task.cancel()
    await asyncio.wait([task], timeout=BOUND)
    assert task.cancelled()
    assert processes_with(mark("daemon-70002")) == []


async def test_cancelling_twice_leaves_nothing_either(sandbox: Sandbox, either: Containment | None, workspace: Path) -> None:
    task, _ = await start(sandbox, either, PLAIN_PYTHON, "-c", STUBBORN, mark("stubborn-70003"), cwd=workspace)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task], timeout=BOUND)
    assert task.cancelled()
    await until(lambda: processes_with(mark("stubborn-70003")) == [])


async def test_cancelling_before_the_command_has_started_leaves_nothing(
    sandbox: Sandbox, either: Containment | None, workspace: Path
) -> None:
    for delay in (0, 0.001, 0.003, 0.006, 0.012):
        command = Command(("sleep", mark("70004")), str(workspace), ENV, None, either)
        task = asyncio.create_task(sandbox.run(command, Output()))
        await asyncio.sleep(delay)
        task.cancel()
        await asyncio.wait([task], timeout=BOUND)
        assert task.cancelled()
    assert processes_with(mark("70004")) == []
    await sandbox.tidied()
    assert list(workspace.iterdir()) == []


async def test_a_command_that_was_told_a_time_limit_takes_its_daemons_along(
    sandbox: Sandbox, either: Containment | None, workspace: Path
) -> None:
    (workspace / "daemon.py").write_text(DAEMON)
    script = f"'{PLAIN_PYTHON}' daemon.py {mark('daemon-70005')}; trap '' TERM; while :; do sleep 0.05; done"
    result, _ = await run(sandbox, either, "sh", "-c", script, cwd=workspace, timeout=0.5)
    assert result.timed_out
    assert processes_with(mark("daemon-70005")) == []


@pytest.mark.slow
async def test_a_fork_bomb_is_bounded_and_ended_while_others_run(sandbox: Sandbox, contained: Containment, workspace: Path) -> None:
    limited = Containment(
        "workspace-write", contained.writable_roots, private_tmp=contained.private_tmp, limits=Limits(processes=64)
    )
    # It does not keep trying in vain: looking at processes that fork all the time would take the test minutes.
    bomb = "import os, time\nwhile True:\n  try: os.fork()\n  except OSError: print('up', flush=True); time.sleep(60)"
    task, _ = await start(sandbox, limited, PLAIN_PYTHON, "-c", bomb, mark("bomb-70006"), cwd=workspace)
    result, output = await run(sandbox, contained, "echo", "still here", cwd=workspace)
    assert (result.exit_code, output.text()) == (0, "still here\n")
    assert 20 < len(processes_with(mark("bomb-70006"))) < 500
    task.cancel()
    await asyncio.wait([task], timeout=BOUND)
    assert processes_with(mark("bomb-70006")) == []


async def test_an_uncontained_crowd_is_ended_by_cancelling(sandbox: Sandbox, workspace: Path) -> None:
    crowd = "import os, time\nfor n in range(6):\n  if not os.fork(): os.setsid()\nprint('up', flush=True)\ntime.sleep(3600)"
    task, _ = await start(sandbox, None, PLAIN_PYTHON, "-c", crowd, mark("crowd-70007"), cwd=workspace)
    await until(lambda: len(processes_with(mark("crowd-70007"))) == 64)
    task.cancel()
    await asyncio.wait([task], timeout=BOUND)
    assert processes_with(mark("crowd-70007")) == []


async def test_memory_beyond_the_limit_is_refused(sandbox: Sandbox, contained: Containment, workspace: Path) -> None:
    limited = Containment(
        "workspace-write", contained.writable_roots, private_tmp=contained.private_tmp, limits=Limits(memory_mb=200)
    )
    result, output = await run(sandbox, limited, PLAIN_PYTHON, "-c", "x = bytearray(400 << 20)", cwd=workspace)
    assert result.exit_code == 1
    assert "MemoryError" in output.text("stderr")


async def test_memory_of_all_processes_together_is_limited(sandbox: Sandbox, contained: Containment, workspace: Path) -> None:
    limited = Containment(
        "workspace-write", contained.writable_roots, private_tmp=contained.private_tmp, limits=Limits(memory_mb=150)
    )
    script = "import os, time\nfor n in range(3): os.fork() or bytearray(1)\nx = bytearray(b'x') * (50 << 20)\ntime.sleep(60)"
    result, _ = await run(sandbox, limited, PLAIN_PYTHON, "-c", script, mark("hungry-70008"), cwd=workspace)
    assert (result.limit, result.signal) == ("memory", 9)
    assert processes_with(mark("hungry-70008")) == []


SHARED = "x = mmap.mmap(-1, 100 << 20); x.write(bytes(100 << 20))"


@pytest.mark.slow
async def test_memory_that_is_shared_counts_too_and_once(sandbox: Sandbox, contained: Containment, workspace: Path) -> None:
    limited = replace(contained, limits=Limits(memory_mb=250))
    each = f"import mmap, os, time\nfor n in range(2): os.fork()\n{SHARED}\ntime.sleep(30)"
    result, _ = await run(sandbox, limited, PLAIN_PYTHON, "-c", each, cwd=workspace)
    assert (result.limit, result.signal) == ("memory", 9)
    together = f"import mmap, os, time\n{SHARED}\nfor n in range(2): os.fork()\nx[::4096]\ntime.sleep(1)"
    result, _ = await run(sandbox, limited, PLAIN_PYTHON, "-c", together, cwd=workspace)
    assert (result.exit_code, result.limit) == (0, None)


async def test_a_file_beyond_the_limit_is_refused(sandbox: Sandbox, contained: Containment, workspace: Path) -> None:
    limited = Containment("workspace-write", contained.writable_roots, private_tmp=contained.private_tmp, limits=Limits(file_mb=1))
    result, _ = await run(sandbox, limited, "dd", "if=/dev/zero", "of=big", "bs=1M", "count=4", cwd=workspace)
    assert result.exit_code != 0
    assert (workspace / "big").stat().st_size <= 1 << 20


async def test_the_default_temporary_folder_cannot_fill_the_machine(sandbox: Sandbox, workspace: Path) -> None:
    without = Containment("workspace-write", (str(workspace),))
    result, output = await run(sandbox, without, "dd", "if=/dev/zero", "of=/tmp/big", "bs=1M", "count=400", cwd=workspace)
    assert result.exit_code != 0
    assert result.limit == "disk" or "No space left" in output.text("stderr")  # whichever is quicker: the guard, or dd


async def test_a_flood_of_output_is_passed_on_and_others_are_served_meanwhile(
    sandbox: Sandbox, either: Containment | None, workspace: Path
) -> None:
    seen = 0

    def count(stream: str, chunk: bytes) -> None:
        nonlocal seen
        seen += len(chunk)
        assert len(chunk) <= 65536

    flood = asyncio.create_task(sandbox.run(Command(("yes",), str(workspace), ENV, None, either), count))
    for _ in range(3):
        result, output = await run(sandbox, either, "echo", "served", cwd=workspace)
        assert (result.exit_code, output.text()) == (0, "served\n")
    await until(lambda: seen > 50_000_000 or flood.done())
    assert not flood.done(), flood.result()
    flood.cancel()
    await asyncio.wait([flood], timeout=BOUND)
    assert flood.cancelled()


@pytest.mark.slow
async def test_commands_that_begin_at_once_share_a_temporary_folder_that_is_still_empty(
    sandbox: Sandbox, contained: Containment, workspace: Path, tmp_path: Path
) -> None:
    for round_ in range(10):
        private = tmp_path / f"private{round_}"
        private.mkdir()
        fresh = dataclasses.replace(contained, private_tmp=str(private))
        ran = await asyncio.gather(*(run(sandbox, fresh, "echo", "served", cwd=workspace) for _ in range(6)))
        assert [(result.exit_code, result.setup_error, output.text()) for result, output in ran] == [(0, None, "served\n")] * 6


async def test_all_of_a_large_output_arrives_once(sandbox: Sandbox, either: Containment | None, workspace: Path) -> None:
    sizes = {"stdout": 0, "stderr": 0}

    def count(stream: str, chunk: bytes) -> None:
        sizes[stream] += len(chunk)

    script = "head -c 100000000 /dev/zero & head -c 1000000 /dev/zero >&2; wait"
    result = await asyncio.wait_for(sandbox.run(Command(("sh", "-c", script), str(workspace), ENV, None, either), count), BOUND)
    assert (result.exit_code, sizes) == (0, {"stdout": 100_000_000, "stderr": 1_000_000})


async def test_killing_the_helper_ends_its_commands_and_the_next_one_gets_a_new_helper(
    sandbox: Sandbox, either: Containment | None, workspace: Path
) -> None:
    (workspace / "daemon.py").write_text(DAEMON)
    script = f"'{PLAIN_PYTHON}' daemon.py {mark('daemon-70009')}; exec '{PLAIN_PYTHON}' -c \"{STUBBORN}\" {mark('daemon-70009')}"
    task, _ = await start(sandbox, either, "sh", "-c", script, cwd=workspace)
    os.kill(helper_pid(sandbox), signal.SIGKILL)
    await asyncio.wait([task], timeout=BOUND)
    assert (task.result().lost, task.result().setup_error) == ("the sandbox helper died while the command ran", None)
    assert processes_with(mark("daemon-70009")) == []
    again, output = await run(sandbox, either, "echo", "again", cwd=workspace)
    assert (again.exit_code, output.text()) == (0, "again\n")
    assert [entry.name for entry in workspace.iterdir()] == ["daemon.py"]


SERVER = """
import asyncio, json, sys
sys.path[:0] = json.loads(sys.argv[1])
from understudy.sandbox import Command, Containment, Sandbox
async def main():
    given = json.loads(sys.argv[2])
    contained = Containment("workspace-write", (given["workspace"],), protected=tuple(given["protected"]))
    command = Command(tuple(given["argv"]), given["workspace"], given["env"], None, contained if given["contained"] else None)
    await Sandbox().run(command, lambda stream, chunk: print(chunk.decode(), flush=True))
asyncio.run(main())
"""


@pytest.mark.parametrize("contained", [True, False], ids=["contained", "uncontained"])
async def test_killing_the_server_leaves_nothing(contained: bool, workspace: Path) -> None:
    (workspace / "daemon.py").write_text(DAEMON)
    script = f"'{PLAIN_PYTHON}' daemon.py {mark('daemon-70010')}; exec '{PLAIN_PYTHON}' -c \"{STUBBORN}\" {mark('daemon-70010')}"
    given = {
        "workspace": str(workspace),
        "protected": PROTECTED,
        "argv": ["sh", "-c", script],
        "env": ENV,
        "contained": contained,
    }
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SERVER, json.dumps(sys.path), json.dumps(given)), stdout=subprocess.PIPE
    )
    assert server.stdout is not None
    assert (await asyncio.wait_for(server.stdout.readline(), BOUND)).strip() == b"up"
    assert len(processes_with(mark("daemon-70010"))) >= 2
    server.kill()
    await server.communicate()
    await until(lambda: processes_with(mark("daemon-70010")) == [])
    await until(lambda: [entry.name for entry in workspace.iterdir()] == ["daemon.py"])


async def test_a_watching_process_that_is_killed_takes_everything_along(
    sandbox: Sandbox, either: Containment | None, workspace: Path
) -> None:
    task, _ = await start(sandbox, either, "sh", "-c", f"(sleep {mark('70011')} &); echo up; sleep {mark('70011')}", cwd=workspace)
    (watcher,) = children_of_helper(sandbox)
    os.kill(watcher, signal.SIGKILL)
    await asyncio.wait([task], timeout=BOUND)
    assert (task.result().lost, task.result().setup_error) == ("the process that watched the command was killed", None)
    await until(lambda: processes_with(mark("70011")) == [])


async def test_a_set_up_that_fails_is_told_and_nothing_runs(sandbox: Sandbox, workspace: Path) -> None:
    broken = Containment("workspace-write", (str(workspace),), private_tmp=str(workspace / "missing"))
    result, output = await run(sandbox, broken, "touch", "ran", cwd=workspace)
    assert result.exit_code == 125
    assert result.setup_error is not None
    assert "missing" in result.setup_error
    assert output.chunks == []
    assert list(workspace.iterdir()) == []


async def test_closing_ends_what_still_runs(workspace: Path, either: Containment | None) -> None:
    sandbox = Sandbox()
    task, _ = await start(sandbox, either, "sh", "-c", f"echo up; sleep {mark('70012')}", cwd=workspace)
    await sandbox.close()
    await asyncio.wait([task], timeout=BOUND)
    assert task.done()
    assert processes_with(mark("70012")) == []


async def test_descriptors_are_given_back(sandbox: Sandbox, either: Containment | None, workspace: Path) -> None:
    await run(sandbox, either, "true", cwd=workspace)
    if either is not None:
        await spare_of(sandbox)
    before = len(os.listdir("/proc/self/fd"))
    for argv in (("true",), ("no-such-program",), ("sh", "-c", "sleep 5 & echo x")):
        await run(sandbox, either, *argv, cwd=workspace)
    await at_rest(sandbox)
    if either is not None:
        await spare_of(sandbox)
    await until(lambda: len(os.listdir("/proc/self/fd")) <= before)  # what another test forgot may be closed meanwhile


async def test_a_command_cannot_end_the_process_that_watches_it(sandbox: Sandbox, contained: Containment, workspace: Path) -> None:
    script = "for name in HUP USR1 TERM KILL STOP INT; do kill -$name 1; done; sleep 0.1; echo still; exit 4"
    result, output = await run(sandbox, contained, "sh", "-c", script, cwd=workspace)
    assert (result.exit_code, result.setup_error, output.text()) == (4, None, "still\n")


@pytest.mark.slow
async def test_placeholders_that_come_and_go_do_not_disturb_a_command(
    sandbox: Sandbox, contained: Containment, workspace: Path
) -> None:
    """Other commands in the same folder begin and end all the time."""
    over = threading.Event()

    def come_and_go() -> None:
        while not over.is_set():
            for name in PROTECTED:
                path = os.fsencode(workspace / name)
                held = placeholder.hold(path)
                assert held is not None
                os.close(held)
                placeholder.remove(path)

    others = asyncio.get_running_loop().run_in_executor(None, come_and_go)
    try:
        for _ in range(20):
            result, _ = await run(sandbox, contained, "true", cwd=workspace)
            assert result == CommandResult(0, result.duration)
    finally:
        over.set()
        await others
