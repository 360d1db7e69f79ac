"""What the rung `bubblewrap` keeps from commands, and what it leaves behind."""

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sandbox.stage import BOUND, ENV, Output, children_of_helper, run, until
from tests.sandbox.test_probes import needs_bubblewrap
from tests.support.interpreter import PLAIN_PYTHON
from understudy.places.resolving import resolve_places
from understudy.sandbox import Command, Containment, Sandbox

pytestmark = needs_bubblewrap

EXCHANGE = """
import ctypes, sys
ctypes.CDLL(None).renameat2(-100, b".git", -100, sys.argv[1].encode(), 2)
"""
MISSING = (".codex", ".mcp.json", "a/b/.envrc")
MAKE = "mkdir .codex; echo x >.mcp.json; ln -s here a/b/.envrc; mv a c; echo x >secret; find . | sort; echo x >here; sleep 0.1"


@pytest.fixture
async def wrapped() -> AsyncGenerator[Sandbox]:
    sandbox = Sandbox(rung="bubblewrap")
    yield sandbox
    await sandbox.close()


@pytest.fixture
def missing(tmp_path: Path) -> Containment:
    """A root in which names are kept that are not there."""
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    names = tuple(name if "/" not in name else str(root / name) for name in MISSING)
    return Containment("workspace-write", (str(root),), protected=names, masked=(str(root / "secret"),))


async def test_bubblewrap_keeps_names_that_are_missing_and_leaves_nothing_behind(wrapped: Sandbox, missing: Containment) -> None:
    root = Path(missing.writable_roots[0])
    for commands in (1, 3):
        done = await asyncio.gather(*[run(wrapped, missing, "sh", "-c", MAKE, cwd=root) for _ in range(commands)])
        for result, output in done:
            assert (result.exit_code, result.exposed) == (0, None), (result, output.text("stderr"))
            assert set(output.text().split()) - {"./here"} == {".", "./.codex", "./.mcp.json", "./a", "./a/b", "./secret"}
        assert sorted(str(path.relative_to(root)) for path in root.rglob("*")) == ["a", "here"]


@pytest.mark.parametrize("killed", ["watcher", "helper"])
async def test_nothing_is_left_behind_by_bubblewrap_when_what_watches_it_is_killed(
    wrapped: Sandbox, missing: Containment, killed: str
) -> None:
    root = Path(missing.writable_roots[0])
    output = Output()
    words = ("sh", "-c", "echo up; sleep 100")
    task = asyncio.ensure_future(wrapped.run(Command(words, str(root), ENV, None, missing), output))
    await output.until("up")
    assert len(list(root.iterdir())) == 4
    os.kill(children_of_helper(wrapped)[0] if killed == "watcher" else wrapped.helper_pid or 0, signal.SIGKILL)
    result = await asyncio.wait_for(task, BOUND)
    assert result.exit_code == 137
    await until(lambda: list(root.iterdir()) == [root / "a"])


async def test_what_somebody_puts_into_what_stands_for_a_missing_name_ends_nothing(wrapped: Sandbox, missing: Containment) -> None:
    root = Path(missing.writable_roots[0])
    output = Output()
    words = ("sh", "-c", "echo up; while [ ! -e go ]; do sleep 0.01; done; sleep 0.3; ls .codex")
    task = asyncio.ensure_future(wrapped.run(Command(words, str(root), ENV, None, missing), output))
    await output.until("up")
    (root / ".codex" / "key").write_text("x")
    (root / "go").touch()
    result = await asyncio.wait_for(task, BOUND)
    assert (result.exit_code, result.exposed, output.text()) == (0, None, "up\n")
    assert (root / ".codex" / "key").exists()


async def test_bubblewrap_takes_nothing_for_missing_that_somebody_makes_meanwhile(wrapped: Sandbox, missing: Containment) -> None:
    root = Path(missing.writable_roots[0])
    output = Output()
    words = ("sh", "-c", "echo up; sleep 100")
    task = asyncio.ensure_future(wrapped.run(Command(words, str(root), ENV, None, missing), output))
    await output.until("up")
    (root / ".mcp.json").rmdir()
    result = await asyncio.wait_for(task, BOUND)
    assert result.exposed == str(root / ".mcp.json")


async def test_a_command_that_is_over_before_anybody_looked_is_told_of_too(wrapped: Sandbox, tmp_path: Path) -> None:
    """A link is all that bubblewrap cannot hold."""
    (tmp_path / "real").mkdir()
    contained = Containment("workspace-write", (str(tmp_path),), protected=(".git",))
    for number in range(5):
        (tmp_path / ".git").symlink_to("real")
        (tmp_path / f"evil{number}").mkdir()
        result, _ = await run(wrapped, contained, PLAIN_PYTHON, "-c", EXCHANGE, f"evil{number}", cwd=tmp_path)
        assert result.exposed == str(tmp_path / ".git")
        (tmp_path / ".git").rmdir()


async def test_a_mask_in_another_mask_does_not_keep_bubblewrap_from_beginning(wrapped: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "home" / "deep").mkdir(parents=True)
    (tmp_path / "home" / "auth.json").write_text("secret")
    masked = tuple(str(tmp_path / name) for name in ("home/auth.json", "home", "home/deep"))
    contained = Containment("workspace-write", (str(tmp_path),), masked=masked)
    result, output = await run(wrapped, contained, "ls", "-A", "home", cwd=tmp_path)
    assert (result.exit_code, output.text()) == (0, ""), output.text("stderr")


async def test_bubblewrap_refuses_what_does_not_stand_where_the_conversation_began(wrapped: Sandbox, tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "inner").mkdir(parents=True)
    outside.mkdir()
    contained = Containment("workspace-write", (str(root), str(root / "inner")), workspace=str(root))
    pinned = replace(contained, pinned=tuple(resolve_places(contained.writable_roots)))
    (root / "inner").rmdir()
    (root / "inner").symlink_to(outside)
    refused, _ = await run(wrapped, pinned, "touch", "inner/made", cwd=root)
    root.rename(tmp_path / "away")
    root.mkdir()
    (root / "inner").mkdir()
    refused_too, _ = await run(wrapped, pinned, "touch", "made", cwd=root)
    assert "did not begin with" in (refused.setup_error or "")
    assert "is not what stood there" in (refused_too.setup_error or "")
    assert list(outside.iterdir()) == [] == list((root / "inner").iterdir())
    assert not (root / "made").exists()


async def test_bubblewrap_shows_nothing_of_the_machine_where_everything_is_a_root(wrapped: Sandbox) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        open_all = Containment("workspace-write", ("/", folder), workspace=folder, protected=(".git",))
        result, output = await run(wrapped, open_all, "sh", "-c", "ls /dev/shm; ls /run; touch made 2>/dev/null && ls", cwd=folder)
        assert (result.exit_code, output.text()) == (0, f"{Path(folder).name}\nmade\n"), output.text("stderr")
