"""What is kept from a command stays so also while the command closes the folder to everybody, its watcher included, and from the
first moment on."""

import asyncio
import os
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.sandbox.stage import BOUND, Output
from understudy.sandbox import Command, CommandResult, Containment, Sandbox
from understudy.sandbox.cell.exposure import NameWatch
from understudy.sandbox.spec import Limits, RungName

ENV = {"PATH": os.environ["PATH"]}
NOTHING_ELSE = Limits(processes=None, tmp_mb=None, tmp_files=None, disk_free_mb=None)  # so that nothing else wakes the watcher

# The folder is open for a moment only, again and again. Writing five times is enough for it.
FLAPS = """
import os, sys, time
folder = os.open(sys.argv[1], os.O_RDONLY)
print("here", flush=True)
done = 0
while done < 5:
    os.fchmod(folder, 0o700)
    try:
        file = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND, dir_fd=folder)
        done += os.write(file, b"HOSTILE") == 7
        os.close(file)
    except OSError:
        pass
    os.fchmod(folder, 0)
    time.sleep(0.02)
os.fchmod(folder, 0o700)
"""

TRIES = """
import os, time
for _ in range(5):
    try:
        file = os.open("name0", os.O_WRONLY | os.O_APPEND)
        os.write(file, b"HOSTILE")
        os.close(file)
    except OSError:
        pass
    time.sleep(0.02)
"""

STIRS = """
import os
os.chmod("deep", 0)
for _ in range(500):
    os.rename("other", "another")
    os.rename("another", "other")
"""


@pytest.fixture
def top() -> Generator[Path]:
    # not /tmp, which commands do not see
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="closed-", ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o755)
        yield Path(made).resolve()


def hostile(program: str, root: Path, *words: str, masked: tuple[str, ...] = (), protected: tuple[str, ...] = ()) -> Command:
    containment = Containment(
        "workspace-write", (str(root),), workspace=str(root), masked=masked, protected=protected, limits=NOTHING_ELSE
    )
    argv = (str(Path(sys.executable).resolve()), "-I", "-S", "-c", program, *words)
    return Command(argv, str(root), ENV, None, containment)


async def replaced_while_closed(top: Path, name: str, *, masked: bool, rung: RungName | None = None) -> CommandResult:
    root, new = top / "root", top / "new"
    path = root / name
    path.parent.mkdir(parents=True)
    path.write_text("before")
    new.write_text("fresh")
    kept = {"masked": (str(path),)} if masked else {"protected": (name,)}
    sandbox, output = Sandbox(rung=rung), Output()
    try:
        command = hostile(FLAPS, root, str(path.parent), path.name, **kept)
        running = asyncio.ensure_future(sandbox.run(command, output))
        await output.until("here")
        done = threading.Event()
        while not done.is_set():  # a server of root always gets through, anybody else in an open moment
            try:
                new.rename(path)
                done.set()
            except PermissionError:
                await asyncio.sleep(0)
        return await asyncio.wait_for(running, BOUND)
    finally:
        path.parent.chmod(0o700)
        await sandbox.close()


@pytest.mark.parametrize(("name", "masked"), [("kept", False), ("kept", True), ("deep/a name\\with\tsigns", False)])
async def test_a_command_that_closes_the_folder_is_ended_all_the_same(top: Path, name: str, masked: bool) -> None:
    result = await replaced_while_closed(top, name, masked=masked)
    assert result.exposed == str(top / "root" / name)


async def test_a_closed_folder_alone_ends_nothing(top: Path) -> None:
    """Its watcher is made to look all the time by what is renamed in the root."""
    root = top / "root"
    (root / "deep").mkdir(parents=True)
    names = ("kept", "deep/kept", "deep/a name\\with\tsigns")
    for name in (*names, "other"):
        (root / name).write_text("before")
    sandbox = Sandbox()
    try:
        running = sandbox.run(hostile(STIRS, root, protected=names), Output())
        result = await asyncio.wait_for(running, BOUND)
        assert (result.exposed, result.exit_code) == (None, 0)
    finally:
        (root / "deep").chmod(0o700)
        await sandbox.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user: run the tests as root for it")
def test_what_may_not_be_looked_at_from_outside_counts_as_replaced(top: Path) -> None:
    """On the rungs without mounts, for a name that did not exist."""
    root = top / "root"
    root.mkdir()
    os.chown(root, 99, 99)
    child = os.fork()
    if not child:
        os.setresgid(99, 99, 99)
        os.setresuid(99, 99, 99)
        path = os.fsencode(root / "not-yet")
        watch = NameWatch([path])
        before = watch.exposed()
        root.chmod(0)
        os._exit(0 if (before, watch.exposed()) == (None, path) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.slow
async def test_what_is_replaced_while_a_command_starts_is_seen(top: Path) -> None:
    """Its many mounts take a while: a name may be free again before there is a watch."""
    root, chance = top / "root", random.Random(5)
    root.mkdir()
    names = tuple(f"name{number}" for number in range(300))
    for name in names:
        (root / name).write_text("before")
    sandbox = Sandbox()
    try:
        ends: list[str] = []
        for _ in range(25):
            (root / "name0").write_text("before")
            (top / "new").write_text("fresh")
            later = threading.Timer(chance.uniform(0, 0.05), lambda: (top / "new").rename(root / "name0"))
            later.start()
            result = await asyncio.wait_for(sandbox.run(hostile(TRIES, root, protected=names), Output()), BOUND)
            later.join()
            ends.append(str(result.exposed or result.setup_error))
            if ends[-1] == "None":
                assert "HOSTILE" not in (root / "name0").read_text()
        assert len(set(ends)) > 1
    finally:
        await sandbox.close()


# Counts how often the process above a command looks while the command renames something beside the name as fast as it can.
COUNTING = """
import os, sys, time
from understudy.sandbox.cell.exposure import NameWatch
from understudy.sandbox.cell.guards import LimitGuards
from understudy.sandbox.cell.orders import Orders
from understudy.sandbox.cell.plan import PLAIN, Plan
from understudy.sandbox.cell.supervise import REST, CommandWatch, Descendants

class Counted(NameWatch):
    looks = 0

    def exposed(self):
        self.looks += 1
        return super().exposed()

RENAMES = '''
import os
for _ in range(10_000):
    os.rename("other", "another")
    os.rename("another", "other")
os.rename("kept", "gone")
while True:
    os.rename("other", "another")
    os.rename("another", "other")
'''
os.chdir(sys.argv[1])
ends = [os.pipe() for _ in range(3)]
guards = LimitGuards(Plan(shape=PLAIN, argv=[], environment={}, cwd=b"/"), own_proc=False, count_processes=False, private_tmp=b"")
names, orders = Counted([os.fsencode(os.path.abspath("kept"))]), Orders(*(end[0] for end in ends))
names.hints.wake(orders)
began = time.monotonic()
command = os.posix_spawn(sys.executable, [sys.executable, "-I", "-S", "-c", RENAMES], {})
ended = CommandWatch(command, Descendants(), guards, names, orders, 0.1).run()
assert ended == b"exposed " + os.path.abspath("kept").encode().hex().encode(), ended
most = 2 * (time.monotonic() - began) / REST + 10
assert 0 < names.looks < most, (names.looks, most)
"""


def test_renaming_without_end_neither_keeps_the_watcher_busy_nor_hides_anything(top: Path) -> None:
    for name in ("kept", "other"):
        (top / name).write_text("")
    ended = subprocess.run([sys.executable, "-c", COUNTING, str(top)], capture_output=True, text=True, timeout=BOUND)
    assert (ended.returncode, ended.stderr) == (0, "")
