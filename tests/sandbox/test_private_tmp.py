"""A conversation's /tmp holds no more than it may, and what is over does not outlive the command."""

import asyncio
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sandbox.stage import BOUND, ENV, Output, run, until
from tests.sandbox.test_probes import needs_bubblewrap
from tests.support.interpreter import PLAIN_PYTHON
from understudy.sandbox import Command, Containment, Limits, Sandbox
from understudy.sandbox.cell.plan import FULL, Plan
from understudy.sandbox.private_tmp import PrivateFolders
from understudy.sandbox.spec import RungName, Temporary

OTHER = 1000
SMALL = Limits(tmp_mb=8, tmp_files=300)


@pytest.fixture
def small(contained: Containment) -> Containment:
    return replace(contained, limits=SMALL)


@pytest.fixture
def elsewhere() -> Iterator[Containment]:
    """Another user's folder if we are root, whose commands the rung `landlock` refuses. Other runs of pytest may close its own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="private-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        workspace, hidden = Path(folder) / "workspace", Path(folder) / "home"
        (hidden / "private").mkdir(parents=True)
        hidden.chmod(0o700)
        workspace.mkdir()
        if os.geteuid() == 0:
            os.chown(workspace, OTHER, OTHER)
        yield Containment("workspace-write", (str(workspace),), private_tmp=str(hidden / "private"))


def private(containment: Containment) -> Path:
    assert containment.private_tmp is not None
    return Path(containment.private_tmp)


async def python(
    sandbox: Sandbox, containment: Containment, workspace: Path, script: str
) -> tuple[int, str | None, str | None, str]:
    result, output = await run(sandbox, containment, PLAIN_PYTHON, "-c", f"import os, time\n{script}", cwd=workspace)
    return (result.exit_code, result.limit, result.cleared, output.text("stderr"))


RESERVE = "os.posix_fallocate(os.open('/tmp/big', os.O_CREAT | os.O_RDWR), 0, 20 << 20)"
CLOSED = "os.makedirs('/tmp/a/b'); open('/tmp/a/b/f', 'wb').write(bytes(20 << 20)); os.chmod('/tmp/a/b', 0); os.chmod('/tmp/a', 0)"
MANY = "[os.mkdir(f'/tmp/{n}') for n in range(400)]"
ODD = "open(os.fsencode('/tmp/') + bytes([255, 10]), 'wb').write(bytes(20 << 20))"


@pytest.mark.parametrize("script", [RESERVE, CLOSED, ODD])
async def test_bytes_that_a_quick_command_leaves_over_are_cleared(
    script: str, sandbox: Sandbox, small: Containment, workspace: Path
) -> None:
    _, limit, cleared, _ = await python(sandbox, small, workspace, script)
    assert limit in (None, "tmp")  # on a busy machine it is not quick enough
    assert cleared == "it held more than 8 MB"
    assert os.listdir(private(small)) == []


async def test_files_that_a_quick_command_leaves_over_are_cleared(sandbox: Sandbox, small: Containment, workspace: Path) -> None:
    _, limit, cleared, _ = await python(sandbox, small, workspace, MANY)
    assert limit in (None, "tmp")
    assert cleared == "it held more than 300 files"
    assert os.listdir(private(small)) == []


@pytest.mark.parametrize("script", [RESERVE, MANY])
async def test_a_command_that_goes_on_is_ended(script: str, sandbox: Sandbox, small: Containment, workspace: Path) -> None:
    code, limit, cleared, _ = await python(sandbox, small, workspace, f"{script}\ntime.sleep(60)")
    assert (code, limit) == (137, "tmp")
    assert cleared is not None
    assert os.listdir(private(small)) == []


async def test_what_many_commands_leave_adds_up(sandbox: Sandbox, small: Containment, workspace: Path) -> None:
    script = "open(f'/tmp/{time.monotonic_ns()}', 'wb').write(os.urandom(3 << 20))"
    cleared = [(await python(sandbox, small, workspace, script))[2] for _ in range(3)]
    assert cleared == [None, None, "it held more than 8 MB"]


@pytest.mark.slow
async def test_what_is_within_the_limits_stays(sandbox: Sandbox, small: Containment, workspace: Path) -> None:
    for _ in range(3):
        script = "open('/tmp/kept', 'wb').write(os.urandom(6 << 20)); [os.makedirs(f'/tmp/{n}', exist_ok=True) for n in range(200)]"
        assert await python(sandbox, small, workspace, script) == (0, None, None, "")
    assert {"kept", "0", "199"} <= set(os.listdir(private(small)))


async def test_what_is_written_elsewhere_does_not_count(sandbox: Sandbox, small: Containment, workspace: Path) -> None:
    script = "open('big', 'wb').write(os.urandom(20 << 20)); time.sleep(0.6)"
    assert await python(sandbox, small, workspace, script) == (0, None, None, "")
    assert (workspace / "big").stat().st_size == 20 << 20


async def test_without_a_limit_nothing_is_cleared(sandbox: Sandbox, contained: Containment, workspace: Path) -> None:
    lifted = replace(contained, limits=Limits(tmp_mb=0, tmp_files=0))
    assert await python(sandbox, lifted, workspace, f"{RESERVE}\n{MANY}") == (0, None, None, "")
    assert {"big", "0", "399"} <= set(os.listdir(private(lifted)))


async def test_what_a_cancelled_command_leaves_over_is_cleared_too(sandbox: Sandbox, small: Containment, workspace: Path) -> None:
    output = Output()
    script = f"import os, time\n{RESERVE}\nprint('up', flush=True)\ntime.sleep(60)"
    task = asyncio.create_task(sandbox.run(Command((PLAIN_PYTHON, "-c", script), str(workspace), ENV, None, small), output))
    await output.until("up")
    task.cancel()
    await asyncio.wait([task], timeout=BOUND)
    await until(lambda: os.listdir(private(small)) == [])


async def test_a_folder_that_was_full_before_is_judged_after_the_first_command(
    sandbox: Sandbox, small: Containment, workspace: Path
) -> None:
    (private(small) / "left").write_bytes(bytes(20 << 20))
    code, ended_by, emptied, _ = await python(sandbox, small, workspace, "pass")
    assert (code, ended_by) in ((0, None), (137, "tmp"))  # on a busy machine it runs long enough to be ended for it
    assert emptied == "it held more than 8 MB"


async def test_what_others_delete_from_the_disk_meanwhile_hides_nothing(tmp_path: Path) -> None:
    plan = Plan(shape=FULL, argv=[], environment={}, cwd=b"/", private_tmp=os.fsencode(tmp_path), tmp_mb=8, tmp_files=300)
    folders = PrivateFolders()
    folders.before(plan)
    (tmp_path / "large").write_bytes(bytes(9 << 20))
    less_room_than_now = (0, 0)
    assert await folders.after(plan, less_room_than_now) == "it held more than 8 MB"
    for number in range(301):
        (tmp_path / str(number)).mkdir()
    assert await folders.after(plan, less_room_than_now) == "it held more than 300 files"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("rung", ["full", "landlock", pytest.param("bubblewrap", marks=needs_bubblewrap)])
async def test_it_is_told_where_a_command_finds_it_on_each_rung(rung: RungName, elsewhere: Containment) -> None:
    workspace = elsewhere.writable_roots[0]
    sandbox = Sandbox(rung=rung)
    try:
        found = await sandbox.temporary(elsewhere, workspace)
        result, output = await run(sandbox, elsewhere, "sh", "-c", f"echo mine >{found.seen}/kept", cwd=workspace)
        assert result.exit_code == 0, (result, output.text("stderr"))
        assert (Path(found.folder) / "kept").read_text() == "mine\n"
    finally:
        await sandbox.close()
    assert found.folder == elsewhere.private_tmp or not os.path.exists(found.folder)


@pytest.mark.parametrize("rung", ["full", pytest.param("bubblewrap", marks=needs_bubblewrap)])
async def test_nobody_is_told_of_it_where_a_command_works_in_the_machine_s_tmp(rung: RungName, contained: Containment) -> None:
    sandbox = Sandbox(rung=rung)
    try:
        for roots, workspace in ((("/tmp",), None), ((), "/tmp")):
            mode = "workspace-write" if roots else "read-only"
            where = replace(contained, mode=mode, writable_roots=roots, workspace=workspace)
            found = await sandbox.temporary(where, "/tmp")
            assert found == Temporary(str(contained.private_tmp), None)
    finally:
        await sandbox.close()
