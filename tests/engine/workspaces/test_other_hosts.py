"""A workspace that was made again on another host meanwhile is not taken for the one that still stands here."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.e2e.workspaces.repositories import git, project, store
from understudy.engine.log.fold import State
from understudy.engine.workspaces.snapshots import Snapshots, ref_of
from understudy.engine.workspaces.workspaces import Workspaces
from understudy.errors import UnknownConversation, WorkspaceFailed
from understudy.protocol.ids import ConversationId, new_uuid
from understudy.protocol.records import Entry, Overrides, Workspace, WorkspaceMoved, WorkspaceSaved


async def nobody(_: ConversationId) -> object:
    raise AssertionError


async def unheard_of(_: ConversationId) -> object:
    raise UnknownConversation("none")


async def found(_: ConversationId) -> object:
    return object()


async def nothing(_: int) -> Sequence[Entry]:
    return ()


class Hosts:
    """One folder of workspaces, looked at as by servers of two hosts."""

    def __init__(self, folder: Path) -> None:
        self.source, self.kept, self.name = project(folder / "source"), store(folder / "kept.git"), ConversationId(new_uuid())
        self.home = folder / "home"
        self.home.mkdir()
        (self.home / "config.toml").write_text(f'[understudy.cluster]\nsnapshots = "{self.kept}"\n')
        self.state = State()

    def of(self, host: str, *, has_hosts: bool = True) -> Workspaces:
        return Workspaces(self.home, os.environ, host, nobody, has_hosts=has_hosts)  # pyright: ignore[reportArgumentType]

    async def begin(self, host: str) -> Path:
        chosen = Overrides(workspace=Workspace("git", url=str(self.source)))
        self.state.overrides = await self.of(host).begin(self.name, chosen)
        return Path(self.state.overrides.cwd or "")

    async def save(self, workspaces: Workspaces, turn: str) -> None:
        path, own = str(self.home / "workspaces" / self.name), str(self.home / f"own-{turn}.git")
        snapshots = Snapshots(path, own, workspaces.settings, os.environ)
        taken = await snapshots.take(self.name, turn, str(self.source))
        ref = ref_of(self.name, turn)
        await snapshots.push(taken.commit, ref)
        self.state.saved = WorkspaceSaved(turn, ref, taken.commit)

    async def ready(self, workspaces: Workspaces) -> None:
        await workspaces.make_ready(self.name, self.state, nothing)
        if (moved := workspaces.moved(self.name)) is not None:
            self.state.moved = moved
            workspaces.noted(self.name)


async def test_what_stood_here_before_the_conversation_was_elsewhere_is_put_aside(tmp_path: Path) -> None:
    hosts = Hosts(tmp_path)
    clone = await hosts.begin("a")
    await hosts.ready(hosts.of("a"))
    assert hosts.state.moved is None
    (clone / "stale").write_text("from before")
    old = clone.rename(tmp_path / "stale")
    await hosts.ready(hosts.of("b"))  # with what was kept: nothing
    assert hosts.state.moved == WorkspaceMoved(str(clone), "b", lost=hosts.state.moved.lost if hosts.state.moved else ())
    (clone / "new").write_text("from b")
    await hosts.save(hosts.of("b"), "1")
    clone.rename(tmp_path / "of-b")
    old.rename(clone)
    await hosts.ready(hosts.of("a"))
    assert (clone / "new").read_text() == "from b"
    assert not (clone / "stale").exists()
    assert (clone.with_name(f"{clone.name}.old") / "stale").exists()
    assert hosts.state.moved is not None
    assert (hosts.state.moved.host, hosts.state.moved.turn) == ("a", "1")
    (clone / "more").write_text("kept")
    await hosts.ready(hosts.of("a"))
    assert (clone / "more").exists()
    assert git(clone, "rev-parse", "HEAD") == git(hosts.source, "rev-parse", "HEAD")


async def test_what_a_process_was_making_that_died_is_made_anew_and_what_is_there_is_left(tmp_path: Path) -> None:
    hosts = Hosts(tmp_path)
    clone = await hosts.begin("a")
    (clone / "half").write_text("nothing says that it is a conversation's")
    making = clone.with_name(f"{clone.name}.making")
    making.mkdir()
    (making / "half").write_text("")
    unknown = Workspaces(hosts.home, os.environ, "a", unheard_of)  # pyright: ignore[reportArgumentType]
    await unknown.begin(hosts.name, Overrides(workspace=Workspace("git", url=str(hosts.source))))
    assert sorted(each.name for each in clone.iterdir()) == [".git", ".gitignore", "README.md"]
    assert not making.exists()
    known = Workspaces(hosts.home, os.environ, "a", found)  # pyright: ignore[reportArgumentType]
    with pytest.raises(WorkspaceFailed, match="has its workspace already"):
        await known.begin(hosts.name, Overrides(workspace=Workspace("git", url=str(hosts.source))))
    assert (clone / "README.md").exists()


async def test_on_one_machine_a_new_name_of_it_means_nothing(tmp_path: Path) -> None:
    hosts = Hosts(tmp_path)
    clone = await hosts.begin("laptop")
    (clone / "mine").write_text("mine")
    await hosts.ready(hosts.of("laptop-of-dhcp", has_hosts=False))
    assert (clone / "mine").exists()
    assert hosts.state.moved is None
