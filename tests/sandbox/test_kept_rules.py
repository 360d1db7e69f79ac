"""What may be read beside masked paths is kept for the next command, and holds only as long as nothing has moved there."""

import asyncio
import os
import random
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.stage import run
from understudy.sandbox import Containment, Sandbox
from understudy.sandbox.cell import landlock
from understudy.sandbox.cell.kept_rules import KeptRules, Need
from understudy.sandbox.cell.plan import FULL, Plan

SECRET = "THE-MASKED-BYTES"
NAMES = ("a", "b", "c", "deep")
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="only there are cells"),
    pytest.mark.skipif(landlock.version() < landlock.WITH_MOVES, reason="the kernel's Landlock is too old for it"),
]


@pytest.fixture
def home() -> Generator[Path]:
    # not /tmp, which is empty inside
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="kept-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "ws").mkdir()
        yield Path(folder).resolve()


@pytest.fixture
def contained(home: Path) -> Containment:
    (home / "deep").mkdir()
    (home / "deep" / "secret").write_text(SECRET)
    masked = (str(home / ".secret"), str(home / "deep" / "secret"))
    (home / ".secret").write_text(SECRET)
    return Containment("workspace-write", (str(home / "ws"),), workspace=str(home / "ws"), masked=masked)


def _change(home: Path, chance: random.Random, step: int) -> None:
    """Something that anybody may do beside a masked path between two commands."""
    folder = chance.choice((home, home / "deep"))
    name = folder / chance.choice(NAMES[:3])
    fresh = home.with_name(f"{home.name}-fresh")
    deed = chance.choice(("write", "replace", "remove", "move", "folder", "link", "mask"))
    if deed == "mask":  # the masked file anew, and what was it beside it: not masked any more, but new
        fresh.write_text(SECRET)
        fresh.rename(folder / (".secret" if folder == home else "secret"))
    elif deed == "write" and not os.path.lexists(name):
        name.write_text(f"{step}")
    elif deed == "replace" and not name.is_dir():
        fresh.write_text(f"{step}")
        fresh.rename(name)
    elif deed == "remove" and name.is_file():
        name.unlink()
    elif deed == "move" and name.exists():
        name.rename(name.with_name(f"moved-{step}"))
    elif deed == "folder" and not os.path.lexists(name):
        name.mkdir()
        (name / "in").write_text(f"in {step}")
    elif deed == "link" and not os.path.lexists(name):
        name.symlink_to(chance.choice(NAMES[:3]))


def _seen_from_outside(home: Path) -> str:
    found = [Path(folder) / name for folder, _, names in os.walk(home) for name in names if folder != str(home / "ws")]
    told = {str(path): path.read_text() for path in found if path.is_file() and path.name not in (".secret", "secret")}
    return "".join(f"{path} {told[path]}\n" for path in sorted(told))


@pytest.mark.quick(1)
@pytest.mark.parametrize("seed", range(4))
async def test_a_command_reads_what_is_beside_masked_paths_when_it_begins_and_nothing_that_is_masked(
    sandbox: Sandbox, home: Path, contained: Containment, seed: int
) -> None:
    chance = random.Random(seed)
    look = (
        f"import os\nfor folder, _, names in os.walk({str(home)!r}):\n for name in names:\n  path = os.path.join(folder, name)\n"
        "  if folder.endswith('/ws'): continue\n  try: print(path, open(path).read())\n  except OSError: pass\n"
    )
    for step in range(12):
        for _ in range(chance.randrange(3)):  # often nothing: then what was kept is used
            _change(home, chance, step)
        result, output = await run(sandbox, contained, sys.executable, "-c", look, cwd=home / "ws")
        lines = "".join(sorted(output.text().splitlines(keepends=True)))
        assert (result.exit_code, output.text("stderr")) == (0, "")
        assert (lines, SECRET in lines) == (_seen_from_outside(home), False), f"seed {seed}, step {step}"


@pytest.mark.parametrize(
    "differs",
    [
        {"roots": [b"/w/b"]},
        {"pins": {b"/w/a": (1, 3)}},
        {"masked": [b"/w/other"]},
        {"workspace": b"/w/b"},
        {"private_tmp": b"/w/tmp2"},
        {"network": "on"},
    ],
    ids=lambda differs: next(iter(differs)),
)
def test_only_commands_that_may_do_the_same_have_rules_in_common(differs: dict[str, Any]) -> None:
    """Each cell adds rules of its own, which those after it inherit."""
    kept = KeptRules(landlock.version(), [b"/tmp"])
    facts: dict[str, Any] = {
        "roots": [b"/w/a"],
        "pins": {b"/w/a": (1, 2)},
        "masked": [b"/w/secret"],
        "workspace": b"/w/a",
        "private_tmp": b"/w/tmp1",
        "network": "off",
    }
    needs: list[Need | None] = []
    for each in (facts, dict(facts), facts | differs):
        plan = Plan(shape=FULL, argv=[b"true"], environment={}, cwd=b"/w/a", **each)
        needs.append(kept.need_of(plan, plan.masked))
    assert needs[0] == needs[1] != needs[2]
    kept.leave()


@pytest.mark.parametrize("masked", [b"/proc/kcore", b"/proc", b"/dev/x", b"/"])
def test_where_a_mask_lies_in_what_each_cell_has_anew_nothing_is_kept(masked: bytes) -> None:
    kept = KeptRules(landlock.version(), [b"/tmp"])
    plan = Plan(shape=FULL, argv=[b"true"], environment={}, cwd=b"/w", masked=[masked])
    assert kept.need_of(plan, plan.masked) is None
    kept.leave()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount: run the tests as root for it")
async def test_what_is_mounted_between_two_commands_can_be_read(sandbox: Sandbox, home: Path, contained: Containment) -> None:
    place = home / "disk"
    place.mkdir()
    for _ in range(3):
        await run(sandbox, contained, "true", cwd=home / "ws")
    await _as_root("mount", "-t", "tmpfs", "none", str(place))
    try:
        (place / "file").write_text("on the disk")
        texts: list[str] = []
        while "on the disk" not in texts and len(texts) < 20:  # the helper is told a moment later than we know it
            _, output = await run(sandbox, contained, "cat", str(place / "file"), cwd=home / "ws")
            texts.append(output.text())
        assert "on the disk" in texts
    finally:
        await _as_root("umount", "-l", str(place))


async def _as_root(*words: str) -> None:
    process = await asyncio.create_subprocess_exec(*words)
    assert await process.wait() == 0


def _rules_of(pid: int) -> int:
    """How many rulesets a process has open."""
    links = Path(f"/proc/{pid}/fd").iterdir()
    return sum(os.readlink(link) == "anon_inode:[landlock-ruleset]" for link in links)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees what a helper has open: run it as root")
async def test_a_ruleset_is_kept_once_two_commands_would_have_needed_it_and_let_go_when_something_moves(
    sandbox: Sandbox, home: Path, contained: Containment
) -> None:
    kept: list[int] = []
    while not any(_rules_of(pid) for pid in sandbox.spares):  # others may move things in /var/tmp, which it is about too
        await run(sandbox, contained, "true", cwd=home / "ws")
        helper = sandbox.helper_pid
        assert helper is not None
        kept.append(_rules_of(helper))
        assert len(kept) < 100
    assert kept[0] == 0
    (home / "new").write_text("new")
    result, output = await run(sandbox, contained, "cat", str(home / "new"), cwd=home / "ws")
    assert (result.exit_code, output.text()) == (0, "new")
