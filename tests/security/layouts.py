"""Layouts in which names are kept from hostile commands while somebody outside replaces one of them, and what may come of each.

A hostile command tries without end to write, to make and to read each name, while something is done to one of them from outside.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.sandbox.stage import BOUND, until
from tests.security.replaced_names import ABOVE, MORE_CHANGING, MORE_REPLACING, SWAPPING, repository
from tests.security.replacing import CHANGING, FRESH, REPLACING, Way
from understudy.places.masks import INSTRUCTIONS
from understudy.protocol.choices import OutputStream
from understudy.sandbox import Command, CommandResult, Containment, Sandbox
from understudy.sandbox.control import Control
from understudy.sandbox.spec import RungName

HOSTILE = "HOSTILE"
BEFORE = "BEFORE-CONTENT"
ENV = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
BEATS = 20  # rounds of the hostile command in which nothing may happen to what is kept from it
USER = 12345  # whose the workspace is, where it is not the server's
PYTHON = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") or str(Path(sys.executable).resolve())  # for any user

# Each round tries all it can with each name, and then adds a byte to the file `beat`.
ATTACK = f"""
import os, sys
beat, speaks, *names = sys.argv[1:]
beat = os.open(beat, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

def tried(act, *words):
    try:
        act(*words)
    except OSError:
        pass

def write(path):
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK, 0o644)
    os.write(file, b"{HOSTILE}")
    os.close(file)

def read(path, masked):
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), errors="replace") as file:
        text = file.read()
    if masked and ("{FRESH}" in text or "{BEFORE}" in text):
        with open("loot", "a") as file:
            file.write(path + text)

while not os.path.exists("stop"):
    for name in names:
        masked, name = name.startswith("masked:"), name.removeprefix("masked:")
        tried(write, name)
        tried(write, name + "/{HOSTILE}")
        tried(write, name + "/key")
        tried(os.mkdir, name)
        tried(os.symlink, "{HOSTILE}", name)
        tried(write, "evil")
        tried(os.rename, "evil", name)
        tried(os.link, "evil", name)
        tried(read, name, masked)
        tried(read, name + "/key", masked)
    os.write(beat, b".")
    if speaks == "speaks":
        print("here", flush=True)
"""


@dataclass(frozen=True)
class Target:
    """A name that is kept from commands, and what stands there when the command begins."""

    name: str
    lay: Callable[[Path], object]
    masked: bool = False
    root: bool = False  # it is a writable root itself, inside the other one
    kept_by: str = ""  # another protected name, which leads to it


def nothing(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)


def file(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(BEFORE)


def folder(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.mkdir()
    (path / "key").write_text(BEFORE)


def sticky(path: Path) -> None:
    folder(path)
    path.chmod(0o1777)


def link(path: Path) -> None:
    (path.parent / "behind").mkdir()
    path.symlink_to("behind")


def link_to_a_file(path: Path) -> None:
    (path.parent / "text").write_text(BEFORE)
    path.symlink_to("text")


def behind_a_link(path: Path) -> None:
    folder(path)
    (path.parent / ".cursor").symlink_to(path.name)


def of_a_worktree_by_a_link(path: Path) -> None:
    folder(path.with_name("repository"))
    path.symlink_to("repository")
    (path.parent / ".git").write_text(f"gitdir: {path}\n")


def of_a_worktree(path: Path) -> None:
    folder(path)
    (path.parent / ".git").write_text(f"gitdir: {path}\n")


def within_a_repository(path: Path) -> None:
    repository(path.parent)
    (path / "key").write_text(BEFORE)


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
    Target(".codex", folder),
    Target(".claude", folder),
    Target("CLAUDE.md", file),
    Target("AGENTS.md", file),
    Target("CLAUDE.local.md", link_to_a_file),
    Target(".venv", folder),
    Target(".git", repository),
    Target(".git/hooks", within_a_repository),
    Target("repositories", of_a_worktree, kept_by=".git"),
    Target("repositories", of_a_worktree_by_a_link, kept_by=".git"),
    Target("rules", behind_a_link, kept_by=".cursor"),
)


def target_named(name: str) -> Target:
    return next(target for target in TARGETS if target.name == name)


@dataclass(frozen=True)
class Kind:
    """How commands run: what they are to the sandbox, and how many are there."""

    name: str
    session: bool = False
    terminal: bool = False
    speaks: bool = False
    cells: int = 1
    sandboxes: int = 1  # each as another server has it
    early: bool = False  # the name is replaced while the command begins


KINDS = (
    Kind("one command"),
    Kind("one command that prints", speaks=True),
    Kind("a session", session=True),
    Kind("a session at a terminal", session=True, terminal=True, speaks=True),
    Kind("several cells", cells=3),
    Kind("two servers", sandboxes=2),
    Kind("one that is beginning", early=True),
)
PLACES = ("plain", "plain", "behind a link", "with a root inside", "as the root inside", "in /tmp", "of another user")


@dataclass(frozen=True)
class Layout:
    """`targets` are all kept at once; `ways` are done to the first, one after the other."""

    targets: tuple[Target, ...]
    ways: tuple[Way, ...]
    kind: Kind
    place: str = "plain"

    def __str__(self) -> str:
        names = [f"{'masked ' if each.masked else ''}{each.name} ({each.lay.__name__})" for each in self.targets]
        return f"{', '.join(way.__name__ for way in self.ways)} on {', '.join(names)}; {self.kind.name}, {self.place}"

    @property
    def changes_nothing(self) -> bool:
        """Whether the same thing stands at the name as before, without a moment in which it does not."""
        return all(way in STILL for way in self.ways)


STILL = frozenset(way for way in (*CHANGING, *MORE_CHANGING) if not way.__name__.startswith("rename_the_root"))


def ignore(stream: OutputStream, chunk: bytes) -> None:
    """What it prints is nobody's."""


class Scene:
    """A root with the targets in it, and hostile commands that work on those."""

    def __init__(self, top: Path, layout: Layout, sandboxes: list[Sandbox]) -> None:
        self._layout, self._kind = layout, layout.kind
        self.aside = top / "aside"
        self._top = top
        top.chmod(0o755)
        self.aside.mkdir()
        self.root = self._laid_root()
        for target in layout.targets:
            target.lay(self.root / target.name)
        self.path = self.root / layout.targets[0].name
        if layout.place == "of another user":
            for each in (self.root, *self.root.rglob("*")):
                os.chown(each, USER, USER, follow_symlinks=False)
        self._sandboxes = sandboxes[: self._kind.sandboxes]
        self._beats: list[Path] = []
        self._running: list[asyncio.Task[CommandResult]] = []
        self.covered = self.identities()

    def _laid_root(self) -> Path:
        root = self._top / "root"
        root.mkdir()
        if self._layout.place == "behind a link":
            (self._top / "link").symlink_to(root)
        if self._layout.place in ("with a root inside", "as the root inside"):
            (root / "inside").mkdir()
        return root / "inside" if self._layout.place == "as the root inside" else root

    def identities(self) -> list[tuple[int, int] | None]:
        return [_identity(self.root / target.name) for target in self._layout.targets]

    def _containment(self) -> Containment:
        targets, place = self._layout.targets, self._layout.place
        spelled = self._top / "link" if place == "behind a link" else self.root
        inner = [str(self.root / target.name) for target in targets if target.root]
        more = {"with a root inside": [str(self.root / "inside")], "as the root inside": [str(self.root.parent)]}.get(place, [])
        return Containment(
            "workspace-write",
            (str(spelled), *inner, *more),
            workspace=str(spelled),
            masked=tuple(str(spelled / target.name) for target in targets if target.masked),
            protected=tuple(target.kept_by or target.name for target in targets if not target.masked),
        )

    async def begin(self) -> None:
        for sandbox in self._sandboxes:
            for _ in range(self._kind.cells):
                beat = self.root / f"beat{len(self._beats)}"
                self._beats.append(beat)
                self._running.append(asyncio.ensure_future(sandbox.run(self._command(beat), ignore)))
        if self._kind.early:
            await asyncio.sleep(0)
            return
        self._beats = [Path(f"/proc/self/fd/{await self._opened(beat)}") for beat in self._beats]
        self.covered = self.identities()

    def _command(self, beat: Path) -> Command:
        names = [f"{'masked:' if target.masked else ''}{target.name}" for target in self._layout.targets]
        words = (beat.name, "speaks" if self._kind.speaks else "silent", *names)
        control = Control(terminal=self._kind.terminal) if self._kind.session else None
        argv = (PYTHON, "-I", "-S", "-c", ATTACK, *words)
        return Command(argv, str(self.root), ENV, None, self._containment(), control=control)

    async def _opened(self, beat: Path) -> int:
        """The root may be moved away later."""
        await until(lambda: (beat.exists() and beat.stat().st_size > 0) or self._any_over())
        assert not self._any_over(), self._running
        return os.open(beat, os.O_PATH)

    def _any_over(self) -> bool:
        return any(running.done() for running in self._running)

    def work(self) -> None:
        """Do to the name what the layout says. What is half done counts too: the command may have been quicker, or is ended."""
        for way in self._layout.ways:
            other = self.root / self._layout.targets[-1].name if way in SWAPPING else self.aside
            with suppress(OSError, subprocess.CalledProcessError):
                way(self.path, other)

    async def settle(self) -> list[CommandResult | None]:
        """Wait until each has ended or has gone on for a while; None for those that go on."""
        if self._kind.early:
            await until(lambda: all(running.done() or self._beat_of(at) for at, running in enumerate(self._running)))
            found = [self._beat_of(at) for at in range(len(self._beats))]
            self._beats = [Path(f"/proc/self/fd/{os.open(each, os.O_PATH)}") if each else self.root / "none" for each in found]
        counts = [_size(beat) for beat in self._beats]

        def settled() -> bool:
            return all(
                running.done() or _size(beat) > count + BEATS
                for running, beat, count in zip(self._running, self._beats, counts, strict=True)
            )

        await until(settled)
        return [running.result() if running.done() else None for running in self._running]

    def _beat_of(self, at: int) -> Path | None:
        return next((root / f"beat{at}" for root in self._roots() if (root / f"beat{at}").exists()), None)

    def _roots(self) -> tuple[Path, ...]:
        """Where the root may be by now."""
        return self.root, self.aside / "root", self.aside / "above", self.aside / "inside"

    def harmed(self) -> list[str]:
        """What the command has done to the names, or has read there."""
        found: list[str] = []
        for root in self._roots():
            for target in self._layout.targets:
                if not target.root:
                    found += _harm(root / target.name)
            if (root / "loot").exists():
                found.append(f"{(root / 'loot').read_text()} was read")
        return found

    def allowed(self, result: CommandResult) -> bool:
        """Whether it says that it was ended, or not begun, for one of our names or for what lies on the way to one."""
        if self._kind.early and (result.setup_error or result.spawn_error) is not None:
            return True
        return result.exposed is not None and (Path(result.exposed) == self.root or self.root in Path(result.exposed).parents)

    async def end(self) -> list[CommandResult]:
        for root in (*self._roots(), self.aside / "above" / "inside"):
            if root.is_dir():
                (root / "stop").touch()
        for target in self._layout.targets:
            _unmount(self.root / target.name)
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


def _unmount(path: Path) -> None:
    if path.is_mount():
        subprocess.run(["umount", str(path)], check=True)


def _size(beat: Path) -> int:
    try:
        return os.stat(beat).st_size
    except FileNotFoundError:
        return 0


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        entry = os.lstat(path)
    except OSError:
        return None
    return entry.st_dev, entry.st_ino


def _harm(path: Path) -> list[str]:
    found = [
        f"{each} was written" for each in (path, path / "key") if each.is_file() and HOSTILE in each.read_text(errors="replace")
    ]
    if (path / HOSTILE).exists() or (path.is_symlink() and str(path.readlink()) == HOSTILE):
        found.append(f"{path} was replaced")
    return found


async def hold_or_end(layout: Layout, sandboxes: list[Sandbox]) -> None:
    base = "/tmp" if layout.place == "in /tmp" else "/var/tmp"  # of the first, commands see only the roots that are in it
    with tempfile.TemporaryDirectory(dir=base, prefix="replacing-", ignore_cleanup_errors=True) as made:
        await _hold_or_end(Path(made).resolve(), layout, sandboxes)


async def _hold_or_end(top: Path, layout: Layout, sandboxes: list[Sandbox]) -> None:
    scene = Scene(top, layout, sandboxes)
    what = str(layout)
    try:
        await scene.begin()
        assert layout.kind.early or scene.harmed() == [], what
        scene.work()
        moved = not scene.root.exists() or any(way.__name__.startswith("rename_the_root") for way in layout.ways)
        mounted = any(way.__name__.startswith("mount_over") for way in layout.ways)  # which only hides it from us
        replaced = scene.identities() != scene.covered and not moved and not mounted and not layout.kind.early
        results = await scene.settle()
        for result in results:
            assert result is None or scene.allowed(result), f"{what}: {result}"
            assert result is None or not layout.changes_nothing or mounted, f"{what}: it was ended for nothing: {result}"
            assert result is not None or not replaced, f"{what}: it goes on"
        if None in results:
            assert scene.harmed() == [], f"{what}: {scene.harmed()}"
        ended = scene.harmed()
    finally:
        results = await scene.end()
    if all(result.exposed for result in results):
        assert scene.harmed() == ended, what  # nobody is left who could


async def play(layouts: list[Layout], rung: RungName | None = None) -> None:
    sandboxes = [Sandbox(rung=rung), Sandbox(rung=rung)]
    try:
        for layout in layouts:
            await hold_or_end(layout, sandboxes)
    finally:
        for sandbox in sandboxes:
            await sandbox.close()


def drawn(chance: random.Random, way: Way | None = None) -> Layout:
    """Any layout, or any with this way."""
    targets = _together(chance)
    if way is None:
        ways = (*REPLACING, *MORE_REPLACING, *(SWAPPING * 2 if len(targets) > 1 else ()), *CHANGING, *MORE_CHANGING)
        above = ABOVE if targets and targets[0].name.startswith("deep/") else ()
        chosen = tuple([chance.choice((*ways, *above)) for _ in range(chance.choice((1, 1, 1, 2)))])
    else:
        chosen = (way,)
    may_be_made = any(target.name in INSTRUCTIONS for target in targets)  # and then are not kept, where they are missing
    kinds = [kind for kind in KINDS if not (kind.early and may_be_made)]
    places = [place for place in PLACES if place != "of another user" or os.geteuid() == 0]
    return Layout(targets, chosen, chance.choice(kinds), chance.choice(places))


def _together(chance: random.Random) -> tuple[Target, ...]:
    """One to four that do not stand in each other's way."""
    found: list[Target] = []
    for target in chance.sample(TARGETS, chance.choice((1, 1, 2, 3, 4))):
        taken = {*(each.name.split("/")[0] for each in found), *(each.kept_by for each in found)} - {"deep"}
        if not {target.name.split("/")[0], target.kept_by} & taken:
            found.append(target)
    return tuple(found)
