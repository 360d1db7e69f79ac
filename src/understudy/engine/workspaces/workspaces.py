"""The workspaces of one engine: begun with a conversation, saved after each turn, and made again if they are gone."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from understudy.config.home import state_dir
from understudy.config.store import WorkspaceSettings, read_store_choice, read_workspaces
from understudy.engine.log.fold import State
from understudy.engine.workspaces.cloning import (
    check_folder,
    check_source,
    clone,
    is_allowed,
    make_folder,
    remove,
    remove_leftovers,
)
from understudy.engine.workspaces.git import is_folder
from understudy.engine.workspaces.restoring import Kept as KeptSnapshot
from understudy.engine.workspaces.restoring import Restored, Restoring
from understudy.engine.workspaces.saving import Find, Kept, Saving
from understudy.errors import BadRequest, ConversationBusy, NotAllowed, UnknownConversation, WorkspaceAway, WorkspaceFailed
from understudy.places.resolving import is_within
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Entry, Overrides, PatchStarted, Record, Workspace, WorkspaceMoved, WorkspaceSaveStarted

ALWAYS_LOST = "files that git ignores, stashes, and branches that were neither pushed nor checked out"
MOST_FILES = 20
LEFTOVER_SECONDS = 3600.0
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Restored).decode

T = TypeVar("T")

ReadLog = Callable[[int], Awaitable[Sequence[Entry]]]


class Claimed(Kept, Protocol):
    @property
    def id(self) -> ConversationId: ...


class Workspaces:
    def __init__(self, home: Path, env: Mapping[str, str], host: str, find: Find, *, has_hosts: bool = False) -> None:
        """`has_hosts`: the log says on which of several hosts a workspace is. Raises `ConfigError`."""
        self.settings: WorkspaceSettings = read_workspaces(home, env)
        self.host = host or read_store_choice(home, env).host_name or os.uname().nodename
        self._has_hosts = has_hosts
        self._find = find
        self._root = os.path.realpath(self.settings.folder)
        self._notes = state_dir(home) / "snapshots"
        self._env = env
        self._saving = Saving(state_dir(home), self.settings, env, find)
        self._restoring = Restoring(self.settings, env)

    # -- beginning

    def check(self, chosen: Overrides, *, limited: bool, kept: bool) -> None:
        """Check before anything is made. `limited`: the caller has limits. Raises `BadRequest` or `NotAllowed`."""
        workspace = chosen.workspace
        assert workspace is not None
        if workspace.kind != "git":
            if workspace.url or workspace.commit or workspace.setup:
                raise BadRequest(f"a workspace of kind `{workspace.kind}` has a `path`, and no `url`, `commit` or `setup`")
            if not (workspace.path or chosen.cwd) or (workspace.path and chosen.cwd not in (None, workspace.path)):
                raise BadRequest("give the folder once: as `path` of the workspace, or as `cwd`")
            return
        if workspace.path:
            raise BadRequest("a workspace of kind `git` has no `path`: its folder is made for it")
        if chosen.cwd and (os.path.isabs(chosen.cwd) or ".." in chosen.cwd.split("/")):
            raise BadRequest("with a workspace of kind `git`, `cwd` is a folder in it: give a relative path")
        check_source(workspace.url, workspace.commit)
        if not kept:
            raise BadRequest('a conversation that is not kept (`history.persistence = "none"`) can have no workspace of kind `git`')
        urls = self.settings.urls
        if (limited or urls is not None) and not is_allowed(workspace.url, urls or ()):
            why = "is not among those that `workspace_urls` of [understudy.cluster] allows"
            raise NotAllowed(f"the repository {workspace.url} {why}; ask whoever runs the server to add it there")

    def path_of(self, conversation_id: ConversationId) -> str:
        """The path of a clone, the same on every host."""
        return os.path.join(self._root, conversation_id)

    async def create_in(
        self,
        conversation_id: ConversationId,
        chosen: Overrides,
        asks: tuple[bool, bool],
        create: Callable[[Overrides], Awaitable[T]],
    ) -> T:
        """`asks`: `limited` and `kept` for `check`. Returns what `create` returns; if it fails, nothing of the workspace
        is left.
        """
        limited, kept = asks
        self.check(chosen, limited=limited, kept=kept)
        made = await self.begin(conversation_id, chosen)
        try:
            return await create(made)
        except BaseException:
            if made.workspace is not None and made.workspace.kind == "git":
                await self.discard(conversation_id)
            raise

    async def begin(self, conversation_id: ConversationId, chosen: Overrides) -> Overrides:
        """The choices with a workspace that exists. If it raises `WorkspaceFailed`, nothing was made."""
        workspace = chosen.workspace
        assert workspace is not None
        if workspace.kind != "git":
            path = workspace.path or chosen.cwd or ""
            made = msgspec.structs.replace(workspace, path=path, host=self.host)
            return msgspec.structs.replace(chosen, cwd=path, workspace=made)
        path = self.path_of(conversation_id)
        making = f"{path}.making"
        try:
            self._notes.mkdir(mode=0o700, parents=True, exist_ok=True)
            await asyncio.to_thread(remove_leftovers, self._root, LEFTOVER_SECONDS + self.settings.seconds)
            await self._clear(conversation_id)
            owner = make_folder(making, self._root)
            commit = await clone(workspace.url, workspace.commit, making, self.settings, self._env, owner)
            check_folder(making, chosen.cwd or "")
            os.rename(making, path)
        except OSError as error:
            await asyncio.to_thread(remove, making)
            raise WorkspaceFailed(f"no workspace can be made in {self._root}: {error.strerror}") from None
        except BaseException:
            await asyncio.to_thread(remove, making)
            raise
        made = msgspec.structs.replace(workspace, path=path, commit=commit, host=self.host)
        return msgspec.structs.replace(chosen, cwd=str(Path(path, chosen.cwd or "")), workspace=made)

    async def _clear(self, conversation_id: ConversationId) -> None:
        """Remove what a dead worker was making, since a front end asks again. Raises `WorkspaceFailed` if it is in use."""
        path = self.path_of(conversation_id)
        await asyncio.to_thread(remove, f"{path}.making")
        if is_folder(path):
            with suppress(UnknownConversation):
                await self._find(conversation_id)
                raise WorkspaceFailed(f"conversation {conversation_id} has its workspace already")
            await asyncio.to_thread(_put_aside, path)

    async def discard(self, conversation_id: ConversationId, *, kept_too: bool = False) -> None:
        """Remove the workspace and what was saved here, because no conversation came of it or it is deleted. `kept_too`: remove
        snapshots everywhere.
        """
        await self._saving.end(conversation_id)
        folder = self._saving.folder_of(conversation_id)
        if kept_too and self.settings.snapshots is not None and is_folder(folder):
            self._saving.run(self._restoring.erase(conversation_id))
        for path in (self.path_of(conversation_id), f"{self.path_of(conversation_id)}.old", folder):
            await asyncio.to_thread(remove, path)
        for name in ("moved", "lock"):
            (self._notes / f"{conversation_id}.{name}").unlink(missing_ok=True)

    # -- making it again

    async def make_ready(self, conversation_id: ConversationId, state: State, read: ReadLog) -> None:
        """Make the workspace available before work begins in it. Raises `WorkspaceAway` if that fails."""
        workspace = state.overrides.workspace
        if workspace is None or (is_folder(workspace.path) and not self._is_outdated(conversation_id, state)):
            return
        if workspace.kind != "git":
            raise WorkspaceAway(_gone(workspace, self.host))
        try:
            async with self._saving.locked(conversation_id):
                if self._is_outdated(conversation_id, state):
                    await asyncio.to_thread(_put_aside, workspace.path)
                if not is_folder(workspace.path):
                    await self._make_again(conversation_id, workspace, state, read)
        except WorkspaceFailed as error:
            raise WorkspaceAway(
                f"the workspace {workspace.path} is gone, and cannot be made again at present: {error}. "
                "The conversation can be read; it goes on once that can be reached"
            ) from None

    async def make_ready_here(self, conversation: Claimed, read: ReadLog) -> None:
        """Like `make_ready`, if the conversation belongs to this host; other hosts leave it to that one."""
        conversation_id, workspace = conversation.id, conversation.state.overrides.workspace
        if workspace is None or (is_folder(workspace.path) and not self._is_outdated(conversation_id, conversation.state)):
            return

        async def make() -> None:
            with suppress(ConversationBusy):
                await conversation.take_claim()
                await self.make_ready(conversation_id, conversation.state, read)

        await conversation.alone(make())

    def _is_outdated(self, conversation_id: ConversationId, state: State) -> bool:
        """The folder here predates the conversation's move to another host, from which it now comes back."""
        workspace = state.overrides.workspace
        if not self._has_hosts or workspace is None or workspace.kind != "git" or not is_folder(workspace.path):
            return False
        host = workspace.host if state.moved is None else state.moved.host
        return bool(host) and host != self.host and self.moved(conversation_id) is None

    async def _make_again(self, conversation_id: ConversationId, workspace: Workspace, state: State, read: ReadLog) -> None:
        saved = state.saved
        known = None if saved is None else KeptSnapshot(saved.ref, saved.commit, saved.turn)
        kept = await self._restoring.newest(conversation_id, known)
        await asyncio.to_thread(remove, self._saving.folder_of(conversation_id))  # the gone workspace's repository of snapshots
        lost = list(await self._restoring.make(msgspec.structs.replace(workspace, path=self._place(workspace)), kept))
        if is_within(cwd := state.overrides.cwd or "", workspace.path):
            try:
                check_folder(workspace.path, cwd)  # the source may have changed
            except WorkspaceFailed:
                await asyncio.to_thread(remove, workspace.path)
                raise
        lost += await _changes_after(kept, state, read)
        if saved is not None and kept is not None and saved.turn == kept.turn:
            lost += saved.left_out
        names = () if kept is None else kept
        note = Restored(workspace.path, self.host, *names, lost=(*lost, self._always_lost))
        path = self._note(conversation_id)
        path.with_suffix(".new").write_bytes(_encode(note))
        path.with_suffix(".new").replace(path)

    def _place(self, workspace: Workspace) -> str:
        """The original path. On another host the folder of workspaces must have the same path, since the log names it."""
        if os.path.dirname(workspace.path) != self._root:
            raise WorkspaceFailed(f"it was made in {os.path.dirname(workspace.path)}, and workspaces are made in {self._root} here")
        return workspace.path

    @property
    def _always_lost(self) -> str:
        also = f" (but for {', '.join(self.settings.also)})" if self.settings.also else ""
        return ALWAYS_LOST.replace("ignores", f"ignores{also}")

    def _note(self, conversation_id: ConversationId) -> Path:
        return self._notes / f"{conversation_id}.moved"

    def is_there(self, workspace: Workspace) -> bool:
        """As far as is known here: a workspace on another host is assumed to exist."""
        return (bool(workspace.host) and workspace.host != self.host) or is_folder(workspace.path)

    def moved(self, conversation_id: ConversationId) -> WorkspaceMoved | None:
        """What the log does not say yet."""
        try:
            note = _decode(self._note(conversation_id).read_bytes())
        except (OSError, msgspec.DecodeError):
            return None
        return WorkspaceMoved(note.path, note.host, note.ref, note.commit, note.turn, note.lost)

    def noted(self, conversation_id: ConversationId) -> None:
        """The log says it now."""
        self._note(conversation_id).unlink(missing_ok=True)

    # -- after a turn

    def at_end(self, state: State, turn: str) -> tuple[Record, ...]:
        """The records before the end of a turn, if its workspace will be saved."""
        workspace = state.overrides.workspace
        if workspace is None or workspace.kind != "git" or self.settings.snapshots is None:
            return ()
        return (WorkspaceSaveStarted(turn),)

    def save(self, conversation_id: ConversationId, turn: str) -> None:
        self._saving.save(conversation_id, turn)

    async def settle(self) -> None:
        await self._saving.settle()

    async def close(self) -> None:
        await self._saving.close()


def _put_aside(path: str) -> None:
    remove(f"{path}.old")
    os.rename(path, f"{path}.old")


def _gone(workspace: Workspace, host: str) -> str:
    if workspace.host and workspace.host != host:
        return (
            f"the workspace {workspace.path} is on host {workspace.host}, which is not this one ({host}); "
            "its conversation can be read, and goes on there"
        )
    how = "attach it again" if workspace.kind == "volume" else "put it back"
    return f"the workspace {workspace.path} is gone, and nothing was kept of it: {how}, or begin a new conversation"


async def _changes_after(kept: KeptSnapshot | None, state: State, read: ReadLog) -> list[str]:
    """What was done in turns that the snapshot does not cover."""
    last = int(kept.turn) if kept is not None and kept.turn.isdigit() else 0
    late = [turn for turn in state.turn_messages if turn.isdigit() and int(turn) > last]
    if not late:
        return []
    starts = [state.undo.patched[turn][0] for turn in late if turn in state.undo.patched]
    files: dict[str, None] = {}
    for entry in await read(min(starts) - 1) if starts else ():
        if entry.turn in late and isinstance(entry.record, PatchStarted):
            files |= dict.fromkeys(entry.record.changes)
    names = ", ".join(list(files)[:MOST_FILES]) + (f" and {len(files) - MOST_FILES} more" if len(files) > MOST_FILES else "")
    what = f", among them to {names}" if files else ""
    return [f"all changes of {'turn' if len(late) == 1 else 'turns'} {', '.join(late[-MOST_FILES:])}{what}"]
