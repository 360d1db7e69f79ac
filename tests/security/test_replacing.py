"""What is kept from a running command stays so, whatever programs outside do to it: the protection holds, or the command is ended.

A hostile command tries without end to write, to make and to read a name, while something is done to the name from outside.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.sandbox.stage import BOUND, until
from tests.security.replacing import CHANGING, FRESH, REPLACING, Way, fresh_folder, remove
from understudy.protocol.choices import OutputStream
from understudy.sandbox import Command, CommandResult, Containment, Sandbox
from understudy.sandbox.control import Control
from understudy.sandbox.probe import find_bubblewrap
from understudy.sandbox.spec import RungName

HOSTILE = "HOSTILE"
ENV = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
BEATS = 20  # rounds of the hostile command in which nothing may happen to what is kept from it

# Each round tries all it can, and then adds a byte to the file `beat`.
ATTACK = f"""
import os, sys
name, speaks = sys.argv[1], sys.argv[2] == "speaks"
beat = os.open(sys.argv[3], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

def tried(act, *words):
    try:
        act(*words)
    except OSError:
        pass

def write(path):
    with open(path, "w") as file:
        file.write("{HOSTILE}")

def read(path):
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), errors="replace") as file:
        text = file.read()
    if "{FRESH}" in text:
        with open("loot", "a") as file:
            file.write(text)

while not os.path.exists("stop"):
    tried(write, name)
    tried(write, name + "/{HOSTILE}")
    tried(write, name + "/key")
    tried(os.mkdir, name)
    tried(os.symlink, "{HOSTILE}", name)
    tried(write, "evil")
    tried(os.rename, "evil", name)
    tried(os.link, "evil", name)
    tried(read, name)
    tried(read, name + "/key")
    os.write(beat, b".")
    if speaks:
        print("here", flush=True)
"""


@dataclass(frozen=True)
class Target:
    """A name that is kept from commands, and what stands there when the command begins."""

    name: str
    lay: Callable[[Path], object]
    masked: bool = False
    root: bool = False  # it is a writable root itself, inside the other one


def nothing(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)


def file(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("before")


def folder(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.mkdir()
    (path / "key").write_text("before")


def sticky(path: Path) -> None:
    folder(path)
    path.chmod(0o1777)


def link(path: Path) -> None:
    (path.parent / "behind").mkdir()
    path.symlink_to("behind")


TARGETS = (
    Target(".envrc", file),
    Target(".git", folder),
    Target(".vscode", sticky),
    Target(".agents", link),
    Target(".mcp.json", nothing),
    Target(".idea", nothing),
    Target("deep/kept", file),
    Target("deep/missing", nothing),
    Target("secret", file, masked=True),
    Target("secrets", folder, masked=True),
    Target("sticky", sticky, masked=True),
    Target("not-yet", nothing, masked=True),
    Target("deep/secret", file, masked=True),
    Target("inner", folder, root=True),
)


@dataclass(frozen=True)
class Kind:
    """How commands run: what they are to the sandbox, and how many are there."""

    name: str
    session: bool = False
    terminal: bool = False
    speaks: bool = False
    cells: int = 1
    sandboxes: int = 1  # each as another server has it


KINDS = (
    Kind("one command"),
    Kind("one command that prints", speaks=True),
    Kind("a session", session=True),
    Kind("a session at a terminal", session=True, terminal=True, speaks=True),
    Kind("several cells", cells=3),
    Kind("two servers", sandboxes=2),
)


def ignore(stream: OutputStream, chunk: bytes) -> None:
    """What it prints is nobody's."""


class Scene:
    """A root with one target in it, and hostile commands that work on that."""

    def __init__(self, top: Path, target: Target, sandboxes: list[Sandbox], kind: Kind) -> None:
        self.root, self.aside, self._outside = top / "root", top / "aside", top / "outside"
        for each in (self.root, self.aside, self._outside):
            each.mkdir()
        self.path = self.root / target.name
        target.lay(self.path)
        self._target = target
        self._kind = kind
        self._sandboxes = sandboxes[: kind.sandboxes]
        self._beats: list[Path] = []
        self._running: list[asyncio.Task[CommandResult]] = []
        self.before = self.identity()

    def identity(self) -> tuple[int, int] | None:
        try:
            entry = os.lstat(self.path)
        except OSError:
            return None
        return entry.st_dev, entry.st_ino

    def _containment(self) -> Containment:
        target, root = self._target, str(self.root)
        roots = (root, str(self.path)) if target.root else (root,)
        masked = (str(self.path),) if target.masked else ()
        return Containment("workspace-write", roots, workspace=root, masked=masked, protected=() if masked else (target.name,))

    async def begin(self) -> None:
        for sandbox in self._sandboxes:
            for _ in range(self._kind.cells):
                beat = self.root / f"beat{len(self._beats)}"
                self._beats.append(beat)
                words = (self._target.name, "speaks" if self._kind.speaks else "silent", beat.name)
                control = Control(terminal=self._kind.terminal) if self._kind.session else None
                program = Path(sys.executable).resolve()
                argv = (str(program), "-I", "-S", "-c", ATTACK, *words)
                command = Command(argv, str(self.root), ENV, None, self._containment(), control=control)
                self._running.append(asyncio.ensure_future(sandbox.run(command, ignore)))
        self._beats = [Path(f"/proc/self/fd/{await self._opened(beat)}") for beat in self._beats]
        self.covered = self.identity()

    async def _opened(self, beat: Path) -> int:
        """The root may be moved away later."""
        await until(lambda: (beat.exists() and beat.stat().st_size > 0) or self._any_over())
        assert not self._any_over(), self._running
        return os.open(beat, os.O_PATH)

    def _any_over(self) -> bool:
        return any(running.done() for running in self._running)

    async def settle(self) -> list[CommandResult | None]:
        """Wait until each has ended or has gone on for a while; None for those that go on."""
        counts = [os.stat(beat).st_size for beat in self._beats]

        def settled() -> bool:
            return all(
                running.done() or os.stat(beat).st_size > count + BEATS
                for running, beat, count in zip(self._running, self._beats, counts, strict=True)
            )

        await until(settled)
        return [running.result() if running.done() else None for running in self._running]

    def harmed(self) -> list[str]:
        """What the command has done to the name, or has read there."""
        found: list[str] = []
        for root in (self.root, self.aside / "root"):
            path = root / self._target.name
            files = [each for each in (path, path / "key") if each.is_file()]
            found += [f"{each} was written" for each in files if HOSTILE in each.read_text(errors="replace")]
            if (path / HOSTILE).exists() or (path.is_symlink() and str(path.readlink()) == HOSTILE):
                found.append(f"{path} was replaced")
            if self._target.masked and (root / "loot").exists():
                found.append(f"{path} was read")
        return found

    async def end(self) -> list[CommandResult]:
        for root in (self.root, self.aside / "root"):
            if root.exists():
                (root / "stop").touch()
        try:
            results = await asyncio.wait_for(asyncio.gather(*self._running), BOUND)
            for sandbox in self._sandboxes:
                await asyncio.wait_for(sandbox.tidied(), BOUND)
            return results
        finally:
            for running in self._running:
                running.cancel()
            await asyncio.wait(self._running)
            for beat in self._beats:
                if beat.parent.name == "fd":
                    os.close(int(beat.name))


@pytest.fixture
def top() -> Generator[Path]:
    # not /tmp, which commands do not see
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="replacing-", ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o755)
        yield Path(made).resolve()


async def hold_or_end(top: Path, target: Target, way: Way, kind: Kind, sandboxes: list[Sandbox]) -> None:
    scene = Scene(top, target, sandboxes, kind)
    what = f"{target}, {way.__name__}, {kind.name}"
    try:
        await scene.begin()
        assert scene.harmed() == [], what
        try:
            way(scene.path, scene.aside)
        except (OSError, subprocess.CalledProcessError):
            assert scene.identity() != scene.covered, what  # half-way, the command was quicker for once
        gone = not scene.root.exists() or way.__name__.startswith("rename_the_root")  # its mounts go along with it
        replaced = scene.identity() != scene.covered and not gone
        results = await scene.settle()
        for result in results:
            assert result is None or result.exposed in (str(scene.path), str(scene.path.parent)), f"{what}: {result}"
            assert result is not None or not replaced, f"{what}: it goes on"
        if None in results:
            assert scene.harmed() == [], what
        ended = scene.harmed(), scene.identity()
    finally:
        results = await scene.end()
    if all(result.exposed for result in results):
        assert (scene.harmed(), scene.identity()) == ended, what  # nobody is left who could


async def play(top: Path, cases: list[tuple[Target, Way, Kind]], rung: RungName | None = None) -> None:
    sandboxes = [Sandbox(rung=rung), Sandbox(rung=rung)]
    try:
        for number, (target, way, kind) in enumerate(cases):
            (top / str(number)).mkdir()
            await hold_or_end(top / str(number), target, way, kind, sandboxes)
    finally:
        for sandbox in sandboxes:
            await sandbox.close()


def sampled(seed: int, count: int, ways: tuple[Way, ...]) -> list[tuple[Target, Way, Kind]]:
    chance = random.Random(seed)
    return [(chance.choice(TARGETS), chance.choice(ways), chance.choice(KINDS)) for _ in range(count)]


def each_way(seed: int) -> list[tuple[Target, Way, Kind]]:
    """Every way once."""
    chance = random.Random(seed)
    return [(chance.choice(TARGETS), way, chance.choice(KINDS)) for way in (*REPLACING, *CHANGING)]


@pytest.mark.quick(1)
@pytest.mark.parametrize("seed", range(3))
async def test_what_is_kept_from_a_command_stays_so_whoever_replaces_it(top: Path, seed: int) -> None:
    await play(top, sampled(seed, 4, REPLACING))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
async def test_every_way_to_replace_or_change_it(top: Path, seed: int) -> None:
    await play(top, each_way(seed))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
async def test_every_name_in_every_kind_of_command(top: Path, target: Target) -> None:
    chance = random.Random(target.name)
    await play(top, [(target, chance.choice(REPLACING), kind) for kind in KINDS])


@pytest.mark.slow
@pytest.mark.skipif(find_bubblewrap() is None, reason="bubblewrap is not installed (package bubblewrap)")
async def test_bubblewrap_holds_or_ends_as_well(top: Path) -> None:
    """For what stands there; what is missing and what lies behind links is said to be left open there."""
    chance = random.Random("bubblewrap")
    targets = [target for target in TARGETS if target.lay in (file, folder, sticky) and not target.root]
    await play(top, [(chance.choice(targets), way, chance.choice(KINDS)) for way in (*REPLACING, *CHANGING)], "bubblewrap")


async def test_the_hostile_command_can_do_what_it_tries(top: Path) -> None:
    """Or the other tests would prove nothing."""
    root = top / "root"
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
            argv = (str(Path(sys.executable).resolve()), "-I", "-S", "-c", ATTACK, name, "silent", "beat")
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
