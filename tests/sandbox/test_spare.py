"""The cell that is kept ready for the next command: it sees the machine as it is when the command comes, and never stays behind."""

import asyncio
import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.arena import PLAIN_UID
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
from tests.sandbox.test_lifecycle import helper_pid, start
from tests.support.interpreter import PLAIN_PYTHON
from understudy.protocol.choices import NetworkMode, SandboxMode
from understudy.sandbox import Command, CommandResult, Containment, Limits, Sandbox

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may: run the tests as root for it")
MODES: tuple[NetworkMode, ...] = ("on", "off", "loopback")
MOST_PRIVATE_KB = 8 * 1024
MOST_SPARES = 2


@pytest.fixture
async def ready(sandbox: Sandbox, contained: Containment, workspace: Path) -> Sandbox:
    """A sandbox in which a cell waits."""
    await run(sandbox, contained, "true", cwd=workspace)
    await spare_of(sandbox)
    return sandbox


async def script(sandbox: Sandbox, containment: Containment, text: str, *, cwd: Path) -> str:
    """Both streams of a script, which is run by the cell that waits."""
    spare = await spare_of(sandbox)
    result, output = await run(sandbox, containment, "bash", "-c", f"exec 2>&1; {text}", cwd=cwd)
    assert result.setup_error is None
    assert spare not in sandbox.spares
    return output.text()


def is_running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it may go between being opened and being read
        return False


class TestUse:
    async def test_the_next_command_is_run_by_it(self, ready: Sandbox, contained: Containment, workspace: Path) -> None:
        spare = await spare_of(ready)
        task, _ = await start(ready, contained, "sh", "-c", f"echo up; sleep {mark('71001')}", cwd=workspace)
        await until(lambda: children_of_helper(ready) == [spare])  # the one before is gone once it has been waited for
        task.cancel()
        await asyncio.wait([task], timeout=BOUND)
        assert processes_with(mark("71001")) == []

    async def test_there_is_one_after_every_command_that_leaves_it_time(
        self, ready: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        for _ in range(5):
            result, _ = await run(ready, contained, "true", cwd=workspace)
            assert result == CommandResult(0, result.duration)
        await at_rest(ready)
        assert children_of_helper(ready) == [await spare_of(ready)]

    async def test_of_many_commands_at_once_each_is_run(self, ready: Sandbox, contained: Containment, workspace: Path) -> None:
        ran = await asyncio.gather(*(run(ready, contained, "echo", str(number), cwd=workspace) for number in range(8)))
        assert [output.text() for _, output in ran] == [f"{number}\n" for number in range(8)]
        await at_rest(ready)
        assert len(ready.spares) == MOST_SPARES

    async def test_two_wait_for_commands_that_come_faster_than_they_are_made_ready(
        self, ready: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        await asyncio.gather(*(run(ready, contained, "true", cwd=workspace) for _ in range(3)))
        await at_rest(ready)
        waiting = ready.spares
        assert len(waiting) == MOST_SPARES
        tasks = [await start(ready, contained, "sh", "-c", f"echo up; sleep {mark('71002')}", cwd=workspace) for _ in waiting]
        assert set(children_of_helper(ready)) >= set(waiting)
        assert ready.spares == ()
        for task, _ in tasks:
            task.cancel()
        await asyncio.wait([task for task, _ in tasks], timeout=BOUND)
        assert processes_with(mark("71002")) == []

    async def test_what_is_too_long_for_a_message_takes_the_other_way(
        self, ready: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        result, output = await run(ready, contained, "sh", "-c", f": {'x' * 60000}; echo done", cwd=workspace)
        assert (result.exit_code, output.text()) == (0, "done\n")

    async def test_a_command_that_cannot_be_executed_is_told_so(
        self, ready: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        result, _ = await run(ready, contained, "no-such-program", cwd=workspace)
        assert (result.exit_code, result.spawn_error) == (127, "No such file or directory (os error 2)")

    async def test_a_set_up_that_fails_is_told(self, ready: Sandbox, contained: Containment, workspace: Path) -> None:
        broken = dataclasses.replace(contained, private_tmp=str(workspace / "missing"))
        result, _ = await run(ready, broken, "touch", "ran", cwd=workspace)
        assert result.setup_error is not None
        assert "missing" in result.setup_error
        assert list(workspace.iterdir()) == []

    @needs_root
    async def test_it_has_little_memory_of_its_own(self, ready: Sandbox) -> None:
        spare = await spare_of(ready)
        lines = Path(f"/proc/{spare}/smaps_rollup").read_text().splitlines()
        assert sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) < MOST_PRIVATE_KB


class TestWhatChangedMeanwhile:
    """Between the moment that the cell was made ready and the command."""

    async def test_a_repository_that_was_made_is_protected(self, ready: Sandbox, contained: Containment, workspace: Path) -> None:
        (workspace / ".git").mkdir()
        (workspace / ".git" / "config").write_text("[core]\n")
        text = await script(ready, contained, "cat .git/config; echo x > .git/config; mv .git moved; touch .git/new", cwd=workspace)
        assert text.startswith("[core]\n")
        assert "Read-only file system" in text
        assert [entry.name for entry in workspace.iterdir()] == [".git"]
        assert (workspace / ".git" / "config").read_text() == "[core]\n"

    async def test_a_protected_name_that_was_removed_cannot_be_made(
        self, sandbox: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        (workspace / ".git").mkdir()
        await run(sandbox, contained, "true", cwd=workspace)
        await spare_of(sandbox)
        (workspace / ".git").rmdir()
        await script(sandbox, contained, "mkdir .git; touch .git/hook; mkdir x && mv x .git", cwd=workspace)
        assert [entry.name for entry in workspace.iterdir()] in ([], ["x"])

    async def test_a_protected_name_that_became_a_link_is_followed_and_kept(
        self, ready: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        (workspace / "real").mkdir()
        (workspace / ".git").symlink_to("real")
        await script(ready, contained, "touch real/x .git/y; rm .git; ln -sfn /tmp .git; mv real elsewhere", cwd=workspace)
        assert os.readlink(workspace / ".git") == "real"
        assert list((workspace / "real").iterdir()) == []

    async def test_a_root_that_was_replaced_is_the_new_one(self, ready: Sandbox, contained: Containment, workspace: Path) -> None:
        old = workspace.rename(workspace.parent / "old")
        workspace.mkdir()
        await script(ready, contained, f"touch new; touch {old}/changed", cwd=workspace)
        assert ([entry.name for entry in workspace.iterdir()], list(old.iterdir())) == (["new"], [])

    async def test_a_root_that_became_a_link_is_where_it_points_to(
        self, ready: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        other = workspace.parent / "other"
        other.mkdir()
        workspace.rmdir()
        workspace.symlink_to(other)
        await script(ready, contained, "touch here", cwd=other)
        assert [entry.name for entry in other.iterdir()] == ["here"]

    async def test_what_is_masked_and_was_not_there_looks_empty(
        self, sandbox: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        secret = workspace.parent / "secret"
        masked = dataclasses.replace(contained, masked=(str(secret),))
        await run(sandbox, masked, "true", cwd=workspace)
        await spare_of(sandbox)
        secret.mkdir()
        (secret / "key").write_text("SECRET")
        assert "SECRET" not in await script(sandbox, masked, f"cat {secret}/*; ls {secret}", cwd=workspace)

    @pytest.mark.parametrize("mode", ["workspace-write", "read-only"])
    async def test_another_containment_is_what_it_gets(
        self, ready: Sandbox, contained: Containment, workspace: Path, mode: SandboxMode
    ) -> None:
        other = workspace.parent / "other"
        other.mkdir()
        changed = dataclasses.replace(contained, mode=mode, writable_roots=(str(other),), workspace=str(workspace))
        await script(ready, changed, f"touch {workspace}/in {other}/in", cwd=workspace)
        assert list(workspace.iterdir()) == []
        assert [entry.name for entry in other.iterdir()] == (["in"] if mode == "workspace-write" else [])

    @needs_root
    async def test_mounts_of_the_machine_are_as_they_are_now(self, workspace: Path) -> None:
        done = await asyncio.create_subprocess_exec(
            *("unshare", "--mount", sys.executable, "-c", MOUNTING, json.dumps(sys.path), str(workspace)),
            stdout=subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(done.communicate(), BOUND)
        assert out.decode().splitlines() == ["mounted: ['new']", "unmounted: []"]


MOUNTING = """
import asyncio, json, os, subprocess, sys
sys.path[:0] = json.loads(sys.argv[1])
from understudy.sandbox import Command, Containment, Sandbox
async def main():
    workspace = sys.argv[2]
    place = workspace + "/place"
    os.mkdir(place)
    sandbox, contained = Sandbox(), Containment("workspace-write", (workspace,))
    async def listing():
        found = []
        command = Command(("ls", place), workspace, {"PATH": os.defpath}, 10, contained)
        await sandbox.run(command, lambda stream, chunk: found.extend(chunk.decode().split()))
        async with asyncio.timeout(60):
            while not sandbox.spares:
                await asyncio.sleep(0.01)
        return found
    await listing()
    subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
    open(place + "/new", "w").close()
    print("mounted:", await listing())
    subprocess.run(["umount", place], check=True)
    print("unmounted:", await listing())
    await sandbox.close()
asyncio.run(main())
"""


class TestClearingUp:
    async def test_a_command_that_is_not_contained_finds_no_placeholders(
        self, ready: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        for _ in range(5):
            await ready.run(Command(("true",), str(workspace), ENV, BOUND, contained), Output())
            output = Output()
            await ready.run(Command(("ls", "-A"), str(workspace), ENV, BOUND, None), output)
            assert output.text() == ""

    async def test_commands_one_after_the_other_leave_nothing(
        self, ready: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        for _ in range(10):
            await ready.run(Command(("true",), str(workspace), ENV, BOUND, contained), Output())
        await until(lambda: list(workspace.iterdir()) == [])

    async def test_a_thousand_missing_names_are_covered_and_nothing_stays(
        self, ready: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        many = dataclasses.replace(contained, protected=tuple(f"{'protected' * 8}-{number}" for number in range(1000)))
        for _ in range(2):
            result, _ = await run(ready, many, "true", cwd=workspace)
            assert result == CommandResult(0, result.duration)
            await until(lambda: list(workspace.iterdir()) == [])


class TestKinds:
    async def test_one_of_another_kind_is_sent_away(self, ready: Sandbox, contained: Containment, workspace: Path) -> None:
        before = await spare_of(ready)
        seen = {mode: await self._interfaces(ready, contained, mode, workspace) for mode in MODES}
        outside = [line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]]
        assert seen == {"on": outside, "off": ["lo"], "loopback": ["lo"]}
        await until(lambda: not is_running(before))
        await at_rest(ready)
        assert children_of_helper(ready) == [await spare_of(ready)]

    async def _interfaces(self, sandbox: Sandbox, contained: Containment, mode: NetworkMode, cwd: Path) -> list[str]:
        _, output = await run(sandbox, dataclasses.replace(contained, network=mode), "cat", "/proc/net/dev", cwd=cwd)
        return [line.split(":")[0].strip() for line in output.text().splitlines()[2:]]

    async def test_of_two_kinds_each_command_gets_its_own(self, ready: Sandbox, contained: Containment, workspace: Path) -> None:
        online = dataclasses.replace(contained, network="on")
        await asyncio.gather(*(run(ready, each, "true", cwd=workspace) for each in (contained, online)))
        await at_rest(ready)
        assert len(ready.spares) == MOST_SPARES
        for each in (contained, online):
            before = set(ready.spares)
            await run(ready, each, "true", cwd=workspace)
            assert len(before - set(ready.spares)) == 1  # the other one was neither used nor sent away

    async def test_a_command_that_is_not_contained_leaves_it_waiting(self, ready: Sandbox, workspace: Path) -> None:
        spare = await spare_of(ready)
        result, _ = await run(ready, None, "true", cwd=workspace)
        assert result.exit_code == 0
        assert (ready.spares[-1], is_running(spare)) == (spare, True)

    @needs_root
    async def test_each_workspace_gets_its_owners_rights(self, ready: Sandbox, contained: Containment, workspace: Path) -> None:
        theirs = workspace.parent / "theirs"
        theirs.mkdir()
        os.chown(theirs, PLAIN_UID, PLAIN_UID)
        for parent in (*workspace.parent.parents, workspace.parent):
            if parent.stat().st_mode & 0o001 == 0:
                parent.chmod(parent.stat().st_mode | 0o011)
        private = workspace.parent / "their-tmp"
        private.mkdir()
        other = dataclasses.replace(contained, writable_roots=(str(theirs),), workspace=str(theirs), private_tmp=str(private))
        for containment, folder, uid in ((other, theirs, PLAIN_UID), (other, theirs, PLAIN_UID), (contained, workspace, 0)):
            result, _ = await run(ready, containment, "touch", "made", cwd=folder)
            assert result == CommandResult(0, result.duration)
            assert (folder / "made").stat().st_uid == uid


class TestEnds:
    async def test_killed_from_outside_it_is_not_missed(self, ready: Sandbox, contained: Containment, workspace: Path) -> None:
        spare = await spare_of(ready)
        os.kill(spare, signal.SIGKILL)
        await until(lambda: not is_running(spare))
        result, output = await run(ready, contained, "echo", "all the same", cwd=workspace)
        assert (result.exit_code, output.text()) == (0, "all the same\n")
        assert await spare_of(ready) != spare

    async def test_killed_just_when_its_command_comes_it_takes_that_along(
        self, ready: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        for _ in range(5):
            await run(ready, contained, "true", cwd=workspace)
            spare = await spare_of(ready)
            os.kill(spare, signal.SIGSTOP)  # so that it is killed before it has looked at the command
            task = asyncio.create_task(ready.run(Command(("touch", "ran"), str(workspace), ENV, BOUND, contained), Output()))
            await asyncio.sleep(0)
            os.kill(spare, signal.SIGKILL)
            result = await asyncio.wait_for(task, BOUND)
            assert result.lost == "the process that watched the command was killed"
            await asyncio.wait_for(ready.tidied(), BOUND)
            assert list(workspace.iterdir()) == []

    async def test_it_does_not_outlive_a_killed_helper(self, ready: Sandbox, contained: Containment, workspace: Path) -> None:
        spare = await spare_of(ready)
        os.kill(helper_pid(ready), signal.SIGKILL)
        await until(lambda: not is_running(spare) and ready.helper_pid is None)
        result, _ = await run(ready, contained, "true", cwd=workspace)
        assert result.exit_code == 0

    async def test_it_does_not_outlive_a_killed_server(self, workspace: Path) -> None:
        server = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", SERVER, json.dumps(sys.path), str(workspace)), stdout=subprocess.PIPE
        )
        assert server.stdout is not None
        helper, spare = (int(word) for word in (await asyncio.wait_for(server.stdout.readline(), BOUND)).split())
        assert (is_running(helper), is_running(spare)) == (True, True)
        server.kill()
        await server.communicate()
        await until(lambda: not is_running(spare) and not is_running(helper))

    async def test_closing_sends_it_away(self, contained: Containment, workspace: Path) -> None:
        sandbox = Sandbox()
        await run(sandbox, contained, "true", cwd=workspace)
        spare = await spare_of(sandbox)
        await sandbox.close()
        await until(lambda: not is_running(spare))


SERVER = """
import asyncio, json, os, sys
sys.path[:0] = json.loads(sys.argv[1])
from understudy.sandbox import Command, Containment, Sandbox
async def main():
    sandbox, contained = Sandbox(), Containment("workspace-write", (sys.argv[2],))
    await sandbox.run(Command(("true",), sys.argv[2], {"PATH": os.defpath}, 10, contained), lambda stream, chunk: None)
    while not sandbox.spares:
        await asyncio.sleep(0.01)
    print(sandbox.helper_pid, *sandbox.spares, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


FORKING = """
import os, time
count = 0
try:
    while os.fork(): count += 1
    time.sleep(60)
except OSError:
    print(count)
"""


class TestLimitsAndCancelling:
    @pytest.mark.slow
    async def test_limits_hold(self, ready: Sandbox, contained: Containment, workspace: Path) -> None:
        few = dataclasses.replace(contained, limits=Limits(processes=20))
        _, output = await run(ready, few, PLAIN_PYTHON, "-c", FORKING, cwd=workspace)
        assert 5 < int(output.text()) < 400  # the kernel keeps 300 process numbers back
        await spare_of(ready)
        little = dataclasses.replace(contained, limits=Limits(memory_mb=200, file_mb=1))
        hungry, output = await run(ready, little, PLAIN_PYTHON, "-c", "x = bytearray(400 << 20)", cwd=workspace)
        assert (hungry.exit_code, "MemoryError" in output.text("stderr")) == (1, True)
        await spare_of(ready)
        await run(ready, little, "dd", "if=/dev/zero", "of=big", "bs=1M", "count=4", cwd=workspace)
        assert (workspace / "big").stat().st_size <= 1 << 20

    async def test_what_is_cancelled_while_it_is_set_up_changes_nothing_afterwards(
        self, ready: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        for number, delay in enumerate((0, 0.0005, 0.001, 0.002, 0.003, 0.005)):
            await run(ready, contained, "true", cwd=workspace)
            await spare_of(ready)
            argv = ("sh", "-c", f"while :; do echo >> {mark(f'written-{number}')}; done")
            task = asyncio.create_task(ready.run(Command(argv, str(workspace), ENV, None, contained), Output()))
            await asyncio.sleep(delay)
            task.cancel()
            await asyncio.wait([task], timeout=BOUND)
            assert task.cancelled()
            path = workspace / mark(f"written-{number}")
            size = path.stat().st_size if path.exists() else None
            assert processes_with(mark(f"written-{number}")) == []
            assert (path.stat().st_size if path.exists() else None) == size

    async def test_cancelling_does_not_wait_for_a_watching_process_that_is_stopped(
        self, ready: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        watcher = await spare_of(ready)
        task, _ = await start(ready, contained, "sh", "-c", f"echo up; sleep {mark('71002')}", cwd=workspace)
        os.kill(watcher, signal.SIGSTOP)
        task.cancel()
        await asyncio.wait([task], timeout=BOUND)
        assert task.cancelled()
        assert processes_with(mark("71002")) == []

    async def test_placeholders_are_removed_also_if_the_helper_dies_meanwhile(
        self, ready: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        task, _ = await start(ready, contained, "sh", "-c", f"echo up; sleep {mark('71003')}", cwd=workspace)
        assert {entry.name for entry in workspace.iterdir()} == set(PROTECTED)
        os.kill(helper_pid(ready), signal.SIGKILL)
        await asyncio.wait([task], timeout=BOUND)
        await until(lambda: list(workspace.iterdir()) == [])


class TestLeaveToBegin:
    """A command is set up while its caller still makes sure that it may run."""

    @pytest.mark.parametrize("waiting", [True, False], ids=["waiting-cell", "first-cell"])
    async def test_nothing_is_executed_before_there_is_leave(
        self, sandbox: Sandbox, contained: Containment, workspace: Path, waiting: bool
    ) -> None:
        if waiting:
            await run(sandbox, contained, "true", cwd=workspace)
            await spare_of(sandbox)
        asked, leave = asyncio.Event(), asyncio.Event()

        async def clearance() -> None:
            asked.set()
            await leave.wait()

        command = Command(("touch", "ran"), str(workspace), ENV, BOUND, contained, clearance)
        task = asyncio.create_task(sandbox.run(command, Output()))
        await asyncio.wait_for(asked.wait(), BOUND)
        await until(lambda: {entry.name for entry in workspace.iterdir()} == set(PROTECTED))  # it is set up already
        assert not (workspace / "ran").exists()
        leave.set()
        result = await asyncio.wait_for(task, BOUND)
        assert result == CommandResult(0, result.duration)
        assert (workspace / "ran").exists()

    @pytest.mark.parametrize("waiting", [True, False], ids=["waiting-cell", "first-cell"])
    async def test_nothing_is_executed_without_leave(
        self, sandbox: Sandbox, contained: Containment, workspace: Path, waiting: bool
    ) -> None:
        if waiting:
            await run(sandbox, contained, "true", cwd=workspace)
            await spare_of(sandbox)

        async def clearance() -> None:
            raise PermissionError("the disk is full")

        with pytest.raises(PermissionError, match="the disk is full"):
            await sandbox.run(Command(("touch", "ran"), str(workspace), ENV, BOUND, contained, clearance), Output())
        await sandbox.tidied()
        assert list(workspace.iterdir()) == []

    @pytest.mark.parametrize("waiting", [True, False], ids=["waiting-cell", "first-cell"])
    async def test_cancelling_while_it_waits_for_leave_ends_it(
        self, sandbox: Sandbox, contained: Containment, workspace: Path, waiting: bool
    ) -> None:
        if waiting:
            await run(sandbox, contained, "true", cwd=workspace)
            await spare_of(sandbox)
        never = asyncio.Event()

        async def clearance() -> None:
            await never.wait()

        command = Command(("touch", "ran"), str(workspace), ENV, BOUND, contained, clearance)
        task = asyncio.create_task(sandbox.run(command, Output()))
        await until(lambda: {entry.name for entry in workspace.iterdir()} == set(PROTECTED))
        task.cancel()
        await asyncio.wait([task], timeout=BOUND)
        assert task.cancelled()
        await sandbox.tidied()
        await at_rest(sandbox)
        assert list(workspace.iterdir()) == []

    async def test_with_leave_that_comes_before_the_start_it_begins(
        self, sandbox: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        async def clearance() -> None:
            pass

        for _ in range(3):
            result = await sandbox.run(Command(("touch", "ran"), str(workspace), ENV, BOUND, contained, clearance), Output())
            assert result == CommandResult(0, result.duration)
            await until((workspace / "ran").exists)
            (workspace / "ran").unlink()

    async def test_a_helper_that_dies_meanwhile_leaves_nothing_that_begins(
        self, sandbox: Sandbox, contained: Containment, workspace: Path
    ) -> None:
        async def clearance() -> None:
            await until(lambda: {entry.name for entry in workspace.iterdir()} == set(PROTECTED))
            os.kill(helper_pid(sandbox), signal.SIGKILL)
            await until(lambda: sandbox.helper_pid is None)

        result = await sandbox.run(Command(("touch", "ran"), str(workspace), ENV, BOUND, contained, clearance), Output())
        assert result.exit_code != 0
        await until(lambda: list(workspace.iterdir()) == [])

    async def test_a_set_up_that_failed_meanwhile_is_told(self, ready: Sandbox, contained: Containment, workspace: Path) -> None:
        spare = await spare_of(ready)
        broken = dataclasses.replace(contained, private_tmp=str(workspace / "missing"))

        async def clearance() -> None:
            await until(lambda: not is_running(spare))

        result = await ready.run(Command(("touch", "ran"), str(workspace), ENV, BOUND, broken, clearance), Output())
        assert result.setup_error is not None
        assert "missing" in result.setup_error
