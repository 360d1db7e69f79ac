"""What a command outside the sandbox depends on is locked: those who could change it wait, and it waits for them."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from understudy.tools.acts.dependencies import FoldersBusy, folders_to_lock, identities, identity, locked

HOLDER = """
import asyncio, sys
from understudy.tools.acts.dependencies import identities
from understudy.tools.acts.dependencies import locked

async def main():
    async with locked(sys.argv[1], identities([sys.argv[2]]), alone=sys.argv[3] == "alone", seconds=0, otherwise=""):
        print("held", flush=True)
        sys.stdin.read()

asyncio.run(main())
"""


@pytest.mark.parametrize(("first", "second", "meet"), [
    ("alone", "alone", True), ("alone", "shared", True), ("shared", "alone", True), ("shared", "shared", False),
])  # fmt: skip
async def test_one_who_locks_a_folder_alone_keeps_out_all_others(tmp_path: Path, first: str, second: str, meet: bool) -> None:
    folders = identities([str(tmp_path)])
    async with locked(str(tmp_path), folders, alone=first == "alone", seconds=0, otherwise=""):
        other = locked(str(tmp_path), folders, alone=second == "alone", seconds=0, otherwise="the folder is locked")
        if meet:
            with pytest.raises(FoldersBusy, match="the folder is locked"):
                async with other:
                    pass
        else:
            async with other:
                pass
    async with locked(str(tmp_path), folders, alone=True, seconds=0, otherwise=""):
        pass


async def test_folders_that_do_not_meet_are_locked_at_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    a, b = (identities([str(tmp_path / name)]) for name in "ab")
    async with (
        locked(str(tmp_path), a, alone=True, seconds=0, otherwise=""),
        locked(str(tmp_path), b, alone=True, seconds=0, otherwise=""),
    ):
        pass


async def test_whoever_waits_goes_on_when_the_other_ends(tmp_path: Path) -> None:
    folders = identities([str(tmp_path)])
    entered = asyncio.Event()

    async def wait() -> None:
        async with locked(str(tmp_path), folders, alone=False, seconds=60, otherwise=""):
            entered.set()

    async with locked(str(tmp_path), folders, alone=True, seconds=0, otherwise=""):
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        assert not entered.is_set()
    await asyncio.wait_for(waiting, 60)
    assert entered.is_set()


async def test_other_processes_are_kept_out_until_they_end_however_they_do(tmp_path: Path) -> None:
    folders = identities([str(tmp_path)])
    for how in ("alone", "shared"):
        holder = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", HOLDER, str(tmp_path), str(tmp_path), how), stdin=PIPE, stdout=PIPE
        )
        assert holder.stdout
        assert await asyncio.wait_for(holder.stdout.readline(), 60) == b"held\n"
        with pytest.raises(FoldersBusy):
            async with locked(str(tmp_path), folders, alone=True, seconds=0, otherwise=""):
                pass
        holder.kill()
        await holder.communicate()
        async with locked(str(tmp_path), folders, alone=True, seconds=0, otherwise=""):
            pass


def test_locked_is_every_folder_in_which_a_script_a_program_or_the_folder_itself_could_be_replaced(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "tools").mkdir(parents=True)
    (project / "tools" / "run.sh").write_text("true\n")
    (project / "bin").mkdir()
    (tmp_path / "link").symlink_to(project / "tools")
    here, tools, above = identity(str(project)), identity(str(project / "tools")), identity(str(tmp_path))
    cwd = str(project)

    for argv in (("bash", "tools/run.sh"), ("./tools/run.sh",), ("bash", "-c", "set -e; tools/run.sh"), ("python3", "tools/run.sh"),
                 ("bash", "../link/run.sh"), ("env", "A=b", "tools/run.sh")):  # fmt: skip
        assert {here, tools, above} <= folders_to_lock(argv, cwd, "/usr/bin"), argv
    assert {here, above} <= folders_to_lock(("bash", "not-there-yet.sh"), cwd, "/usr/bin")
    assert here in folders_to_lock(("git", "push"), cwd, f"{project}/bin:/usr/bin")
    for argv in (("git", "push"), ("bash", "-lc", "git push"), ("touch", "tools/run.sh")):
        folders = folders_to_lock(argv, cwd, "/usr/bin")
        assert here not in folders
        assert above in folders
    assert identity("/") in folders_to_lock(("ls",), "/", "")


async def test_without_room_for_locks_contained_commands_go_on_and_none_leaves_the_sandbox(tmp_path: Path) -> None:
    (tmp_path / "held").write_text("no folder")
    folders = identities([str(tmp_path)])
    async with locked(str(tmp_path), folders, alone=False, seconds=0, otherwise=""):
        pass
    with pytest.raises(Exception, match="cannot keep what the command depends on from changing"):
        async with locked(str(tmp_path), folders, alone=True, seconds=0, otherwise=""):
            pass
    assert os.path.isfile(tmp_path / "held")
