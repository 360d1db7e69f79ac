"""What is kept from a running command stays so, whatever programs outside do to it: the protection holds, or the command is ended.

`make replacements` plays as many layouts as one likes; here are some of each kind.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.sandbox.stage import BOUND, until
from tests.security.layouts import (
    ATTACK,
    BEATS,
    ENV,
    HOSTILE,
    KINDS,
    PYTHON,
    TARGETS,
    Layout,
    Target,
    behind_a_link,
    drawn,
    ignore,
    link,
    link_to_a_file,
    of_a_worktree_by_a_link,
    play,
    target_named,
)
from tests.security.replaced_names import ABOVE, MORE_CHANGING, MORE_REPLACING, SWAPPING
from tests.security.replacing import CHANGING, FRESH, REPLACING, Way, fresh_folder, remove
from understudy.places.masks import INSTRUCTIONS
from understudy.sandbox import Command, Containment, Sandbox
from understudy.sandbox.probe import find_bubblewrap

WAYS = (*REPLACING, *MORE_REPLACING, *CHANGING, *MORE_CHANGING)


@pytest.mark.quick(1)
@pytest.mark.parametrize("seed", range(3))
async def test_what_is_kept_from_a_command_stays_so_whoever_replaces_it(seed: int) -> None:
    await play([drawn(random.Random(f"{seed} {number}")) for number in range(6)])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_every_way_to_replace_or_change_it(seed: int) -> None:
    chance = random.Random(seed)
    await play([drawn(chance, way) for way in WAYS])


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.name} {target.lay.__name__}")
async def test_every_name_in_every_kind_of_command(target: Target) -> None:
    chance = random.Random(target.name)
    kinds = [kind for kind in KINDS if not (kind.early and target.name in INSTRUCTIONS)]
    await play([Layout((target,), (chance.choice(REPLACING),), kind) for kind in kinds])


@pytest.mark.parametrize("way", SWAPPING)
async def test_one_kept_name_in_the_place_of_another_keeps_less(way: Way) -> None:
    """There is a mount on both names afterwards, but not the ones that were put there."""
    protected, masked, inner = target_named(".envrc"), target_named("secret"), target_named("inner")
    pairs = ((masked, protected), (protected, inner), (masked, target_named("deep/kept")))
    await play([Layout(pair, (way,), KINDS[0]) for pair in pairs])


@pytest.mark.parametrize("way", ABOVE)
async def test_the_folder_above_is_replaced(way: Way) -> None:
    await play([Layout((target_named(name),), (way,), KINDS[0]) for name in ("deep/kept", "deep/secret", "deep/missing")])


@pytest.mark.slow
@pytest.mark.skipif(find_bubblewrap() is None, reason="bubblewrap is not installed: install the package bubblewrap")
async def test_bubblewrap_holds_or_ends_as_well() -> None:
    """Links are not held there: a command that moves one is ended (`tests/sandbox/test_probes.py`)."""
    chance = random.Random("bubblewrap")
    links = (link, link_to_a_file, behind_a_link, of_a_worktree_by_a_link)
    targets = [target for target in TARGETS if target.lay not in links]
    kinds = [kind for kind in KINDS if not kind.early]
    ways = (*REPLACING, *CHANGING)
    await play([Layout((chance.choice(targets),), (way,), chance.choice(kinds)) for way in ways], "bubblewrap")


async def test_the_hostile_command_can_do_what_it_tries(tmp_path: Path) -> None:
    """Or the other tests would prove nothing."""
    root = tmp_path / "root"
    root.mkdir()
    sandbox = Sandbox()
    try:
        for name in ("file", "folder", "none"):
            for leftover in root.iterdir():
                remove(leftover)
            if name == "folder":
                fresh_folder(root / name)
            elif name == "file":
                (root / name).write_text(FRESH)
            argv = (PYTHON, "-I", "-S", "-c", ATTACK, "beat", "silent", f"masked:{name}")
            command = Command(argv, str(root), ENV, None, Containment("workspace-write", (str(root),), workspace=str(root)))
            running = asyncio.ensure_future(sandbox.run(command, ignore))
            beat = root / "beat"
            await until(lambda beat=beat: beat.exists() and beat.stat().st_size > BEATS)
            (root / "stop").touch()
            assert (await asyncio.wait_for(running, BOUND)).exit_code == 0
            written = root / name / "key" if name == "folder" else root / name
            assert written.read_text() == HOSTILE
            assert name != "folder" or (root / name / HOSTILE).exists()
    finally:
        await sandbox.close()
