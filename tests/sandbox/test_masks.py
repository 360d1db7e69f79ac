"""Masked paths stay out of sight while a command runs, whatever others do to them meanwhile."""

import asyncio
import dataclasses
import os
import tempfile
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.sandbox.stage import BOUND, ENV, Output, run
from tests.sandbox.test_probes import needs_bubblewrap
from understudy.sandbox import Command, CommandResult, Containment, Sandbox
from understudy.sandbox.spec import RungName

ROUNDS = 30
SECRET = "THE-MASKED-BYTES"
LOOK = "echo ready; while [ ! -e go ]; do :; done; cat {path} {path}/* 2>/dev/null; echo looked"


@pytest.fixture
def home() -> Generator[Path]:
    # not /tmp, which is empty inside
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="masks-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder).resolve()


@pytest.fixture
def contained(home: Path) -> Containment:
    (home / "ws").mkdir()
    return Containment("workspace-write", (str(home / "ws"),), workspace=str(home / "ws"))


async def while_it_runs(sandbox: Sandbox, containment: Containment, path: Path, change: str) -> tuple[CommandResult, str]:
    """A command that is running when `change` is made to `path`, and looks there afterwards."""
    output = Output()
    workspace = containment.writable_roots[0]
    (Path(workspace) / "go").unlink(missing_ok=True)
    command = Command(("sh", "-c", LOOK.format(path=path)), workspace, ENV, 15, containment)
    running = asyncio.ensure_future(sandbox.run(command, output))
    await output.until("ready")
    secret = path.with_name("new-secret")
    if "folder" in change:
        secret.mkdir()
        (secret / "key").write_text(SECRET)
    else:
        secret.write_text(SECRET)
    if change.startswith("replaced"):
        if path.is_dir():
            path.rename(path.with_name("old"))
        secret.rename(path)
    elif path.is_dir() and os.stat(path).st_mode & 0o1000:  # a placeholder: nobody can make a file there
        with pytest.raises(OSError):
            secret.rename(path)
        secret.unlink()
    else:
        secret.rename(path)
    (Path(workspace) / "go").touch()
    result = await asyncio.wait_for(running, BOUND)
    await asyncio.wait_for(sandbox.tidied(), BOUND)
    return result, output.text()


@pytest.mark.quick(2)
@pytest.mark.parametrize("change", ["replaced by a file", "replaced by a folder", "appears as a file", "appears as a folder"])
@pytest.mark.parametrize("rung", ["full", "landlock"])
async def test_a_mask_outside_the_roots_holds_when_the_path_is_replaced_or_appears(
    home: Path, contained: Containment, change: str, rung: str
) -> None:
    if rung == "landlock" and os.geteuid() == 0:
        os.chown(contained.writable_roots[0], 12345, 12345)
    masked = home / ".secret"
    if change == "replaced by a file":
        masked.write_text("old")
    elif change == "replaced by a folder":
        masked.mkdir()
    sandbox = Sandbox(rung="full" if rung == "full" else "landlock")
    try:
        hiding = dataclasses.replace(contained, masked=(str(masked),))
        result, text = await while_it_runs(sandbox, hiding, masked, change)
        assert (result.exit_code, text) == (0, "ready\nlooked\n")
        shown, text = await while_it_runs(sandbox, contained, home / ".plain", change)  # what is not masked can be read
        assert (shown.exit_code, text) == (0, f"ready\n{SECRET}looked\n")
    finally:
        await sandbox.close()


async def test_a_mask_inside_a_root_holds_when_the_file_would_appear(sandbox: Sandbox, home: Path, contained: Containment) -> None:
    masked = home / "ws" / "secret.env"
    result, text = await while_it_runs(sandbox, dataclasses.replace(contained, masked=(str(masked),)), masked, "appears as a file")
    assert (result.exit_code, text) == (0, "ready\nlooked\n")
    assert not masked.exists()  # what stood there for the command has gone


async def test_beside_masked_paths_everything_can_be_read_and_run(sandbox: Sandbox, home: Path, contained: Containment) -> None:
    (home / "beside").mkdir()
    (home / "beside" / "f").write_text("f")
    (home / "program").write_text("#!/bin/sh\necho ran\n")
    (home / "program").chmod(0o755)
    (home / "link").symlink_to("beside/f")
    masked = (str(home / ".ssh"), str(home / "deep" / "er" / "none"), "/nonexistent/x")
    script = f"cat {home}/beside/f {home}/link; {home}/program; echo mine > new && cat new; echo t > /tmp/t; cat /tmp/t <(echo sub)"
    result, output = await run(
        sandbox, dataclasses.replace(contained, masked=masked), "bash", "-c", script, cwd=contained.writable_roots[0]
    )
    assert (result.exit_code, output.text(), output.text("stderr")) == (0, "ffran\nmine\nt\nsub\n", "")


async def test_what_is_masked_stays_so_when_it_is_made_anew_while_a_command_is_set_up(home: Path, contained: Containment) -> None:
    """It may not be there when the sandbox looks, and be there a moment later."""
    secret = home / "ws" / "secret"
    contained = dataclasses.replace(contained, masked=(str(secret),))
    command = Command(("sh", "-c", "cat secret"), str(home / "ws"), ENV, 15, contained)
    seen: list[str] = []
    over = threading.Event()

    def make_anew() -> None:
        while not over.is_set():
            with suppress(OSError):  # a placeholder stands there for as long as a command runs
                secret.unlink(missing_ok=True)
                secret.write_text(SECRET)

    sandbox = Sandbox()
    try:
        for _ in range(ROUNDS):
            over.clear()
            making = threading.Thread(target=make_anew)
            making.start()
            output = Output()
            running = asyncio.ensure_future(sandbox.run(dataclasses.replace(command, clearance=stopping(over, making)), output))
            await asyncio.wait_for(running, BOUND)
            seen.append(output.text())
    finally:
        over.set()
        await sandbox.close()
    assert not any(SECRET in text for text in seen)


def stopping(over: threading.Event, making: threading.Thread) -> Callable[[], Awaitable[None]]:
    """The command is set up when it is cleared to begin, or nearly so."""

    async def clear() -> None:
        await asyncio.sleep(0.02)
        over.set()
        await asyncio.to_thread(making.join)

    return clear


CANARY = "canary"
WAYS_TO_READ = (
    *("cat secret", "cat ./deep/../secret", "cat /proc/self/cwd/secret", "cat $PWD/secret", "tail -c+1 <secret", "grep -r . ."),
    *("ln secret deep/two; cat deep/two", "ln secret two; cat two", "ln -s secret three; cat three", "tar c . | tar xO", "cat */*"),
    *("cp -l secret copy; cat copy", "cp -a secret copy2; cat copy2", "mkdir x; cp -al folder x/y; cat x/y/key", "od -c secret"),
    *("mv secret moved; cat moved", "mv secret deep/moved; cat deep/moved", "mv secret plain/moved; cat plain/moved"),
    *("ln secret plain/two; cat plain/two", "ln folder/key plain/key; cat plain/key", "mv folder/key plain/key; cat plain/key"),
    *(
        "mv folder away; cat away/key",
        "mv folder plain/away; cat plain/away/key",
        "mv deep other; cat other/secret",
        "umount secret",
    ),
    *("mkdir x; mount --bind . x; cat x/secret", "unshare -rm sh -c 'mount --bind folder deep; cat deep/key'", "cat deep/secret"),
    *(
        "exec 3<>secret; cat <&3",
        "chmod 777 secret folder deep; cat secret",
        "cd folder && cat key",
        "cd deep; mv secret ..; cat ../secret",
    ),
)


@pytest.mark.parametrize("rung", ["full", "landlock", pytest.param("bubblewrap", marks=needs_bubblewrap)])
async def test_a_masked_file_in_a_root_is_read_in_no_way_nor_by_the_next_command(home: Path, rung: RungName) -> None:
    root = home / "work"
    masked = [root / name for name in ("secret", "folder", "deep/secret")]
    for folder in ("folder", "deep", "plain"):
        (root / folder).mkdir(parents=True)
    for name in ("secret", "folder/key", "deep/secret"):
        (root / name).write_text(CANARY)
    if os.geteuid() == 0:  # the rung `landlock` runs nothing as root
        for each in (root, *root.rglob("*")):
            os.chown(each, 12345, 12345)
    hiding = Containment("workspace-write", (str(root),), workspace=str(root), masked=tuple(map(str, masked)))
    sandbox = Sandbox(rung=rung)
    try:
        for script in ("\n".join(f"({way}) </dev/null" for way in WAYS_TO_READ), "find . -type f -exec cat {} +", "cat plain/*"):
            result, output = await run(sandbox, hiding, "sh", "-c", f"{script}\n:", cwd=root)
            assert (result.setup_error, CANARY in output.text(), CANARY in output.text("stderr")) == (None, False, False)
    finally:
        await sandbox.close()


async def test_beside_a_masked_file_in_a_root_the_rung_landlock_lets_files_be_changed(home: Path) -> None:
    root = home / "work"
    (root / "plain").mkdir(parents=True)
    for name in ("secret", "beside"):
        (root / name).write_text(CANARY)
    if os.geteuid() == 0:
        for each in (root, *root.rglob("*")):
            os.chown(each, 12345, 12345)
    hiding = Containment("workspace-write", (str(root),), workspace=str(root), masked=(str(root / "secret"),))
    sandbox = Sandbox(rung="landlock")
    try:
        script = (
            "echo more >>beside; cat beside; mkdir plain/x; echo new >plain/x/y; mv plain/x/y plain/z; cat plain/z; echo >secret"
        )
        _, output = await run(sandbox, hiding, "sh", "-c", script, cwd=root)
        assert output.text() == f"{CANARY}more\nnew\n", output.text("stderr")
        assert (root / "secret").read_text() == CANARY
    finally:
        await sandbox.close()
