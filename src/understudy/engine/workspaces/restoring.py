"""Makes a workspace again that is gone: clones it from its source, then adds the content of its newest snapshot.

The workspace's folder appears only once it is complete. A note beside it says what was made until the conversation's log says so,
so that a crash in between loses no information.
"""

import asyncio
import logging
import os
import re
import shlex
import tempfile
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from understudy.config.store import WorkspaceSettings
from understudy.engine.workspaces.cloning import check_size, clone, make_folder, reach_of, remove
from understudy.engine.workspaces.git import Git, carry, without_secrets
from understudy.engine.workspaces.snapshots import AS_IT_IS, REFS
from understudy.errors import WorkspaceFailed
from understudy.protocol.records import Workspace

logger = logging.getLogger(__name__)

SECONDS = 60.0
MOST_SUBMODULES = 1000
EMPTY = "find . -mindepth 1 -maxdepth 1 ! -name .git -exec rm -rf {} +"
_LISTED = re.compile(rb"([0-9a-f]{40,64})\t(\S+)")
_HEAD = re.compile(r"^Head: ([0-9a-f]{40})$", re.MULTILINE)
_BRANCH = re.compile(r"^Branch: ([\w./+-]{1,200})$", re.MULTILINE)


class Kept(NamedTuple):
    """A snapshot in the operator's repository."""

    ref: str
    commit: str
    turn: str


class Restored(msgspec.Struct, frozen=True):
    """What was made, until it is in the log."""

    path: str
    host: str
    ref: str = ""
    commit: str = ""
    turn: str = ""
    lost: tuple[str, ...] = ()


class Restoring:
    def __init__(self, settings: WorkspaceSettings, env: Mapping[str, str]) -> None:
        self._settings = settings
        self._env = env

    async def newest(self, conversation_id: str, known: Kept | None) -> Kept | None:
        """The newest snapshot, even if the log does not know it. Raises `WorkspaceFailed` if that cannot be found out."""
        target = self._settings.snapshots
        if target is None:
            return None
        wanted = f"{REFS}/{conversation_id}/*", *(() if known is None else (known.ref,))  # a fork's known snapshot is its source's
        found = [each for each in await self._list(target, *wanted) if each.turn.isdigit()]
        return max(found, key=lambda each: int(each.turn), default=None)

    async def erase(self, conversation_id: str) -> None:
        """Remove all snapshots of a deleted conversation."""
        target = self._settings.snapshots
        assert target is not None
        try:
            refs = [each.ref for each in await self._list(target, f"{REFS}/{conversation_id}/*")]
            if refs:
                flags = ("-q", "--no-verify", "--delete")
                with tempfile.TemporaryDirectory() as folder:
                    git = Git(folder, self._env)
                    await git.run("init", "-q", "--bare", "--template=", ".")
                    await git.run("push", *flags, "--", target, *refs, reach=reach_of(target), seconds=SECONDS)
        except WorkspaceFailed as error:
            logger.warning("the snapshots of %s are still in %s: %s", conversation_id, without_secrets(target), error)

    async def _list(self, target: str, *patterns: str) -> list[Kept]:
        out = await Git("/", self._env).run(
            "ls-remote", "-q", "--refs", "--", target, *patterns, reach=reach_of(target), seconds=SECONDS
        )
        return [Kept(name.decode(), commit.decode(), name.decode().rpartition("/")[2]) for commit, name in _LISTED.findall(out)]

    async def make(self, workspace: Workspace, kept: Kept | None) -> tuple[str, ...]:
        """Make the workspace; returns what it lacks. If it raises `WorkspaceFailed`, nothing was made."""
        root = os.path.dirname(workspace.path)
        making = f"{workspace.path}.making"
        await asyncio.to_thread(remove, making)
        owner = make_folder(making, root)
        try:
            lost = await self._fill(making, workspace, kept, owner)
            os.rename(making, workspace.path)
        except OSError as error:
            await asyncio.to_thread(remove, making)
            raise WorkspaceFailed(f"the workspace cannot be put in its place: {error.strerror}") from None
        except BaseException:
            await asyncio.to_thread(remove, making)
            raise
        return lost

    async def _fill(self, making: str, workspace: Workspace, kept: Kept | None, owner: tuple[int, int] | None) -> tuple[str, ...]:
        lost: list[str] = []
        try:
            await clone(workspace.url, workspace.commit, making, self._settings, self._env, owner)
        except WorkspaceFailed as error:
            if kept is None:
                raise
            lost.append(f"the other branches of {without_secrets(workspace.url)}, which could not be reached ({error})")
            git = Git(making, self._env, owner)
            await git.run_shell(f"{EMPTY}; rm -rf .git")
            await git.run("init", "-q", "--template=", ".")
        if kept is not None:
            await self._lay_over(making, kept, owner)
        return tuple(lost)

    async def _lay_over(self, making: str, kept: Kept, owner: tuple[int, int] | None) -> None:
        """Add the snapshot's files, byte for byte, and check out its commit and branch. The user's index is as after `git
        reset`.
        """
        git, seconds = Git(making, self._env, owner, self._settings.most_mb), self._settings.seconds
        await self._bring(git, making, kept, owner)
        await check_size(git, kept.commit, self._settings)
        said = (await git.run("cat-file", "commit", kept.commit)).decode(errors="replace")
        await self._stand_at(git, said)
        await self._write_out(git, making, kept.commit, seconds)
        await git.run("read-tree", "HEAD" if _HEAD.search(said) else "--empty")
        await git.run("update-index", "-q", "--refresh", allowed=(0, 1))
        rows = (await git.run("ls-files", "-s", "-z")).split(b"\0")
        links = [os.fsdecode(row.split(b"\t", 1)[1]) for row in rows if row.startswith(b"160000")]
        if links := [link for link in links[:MOST_SUBMODULES] if _has_room(making, link)]:
            await git.run_shell(f"mkdir -p -- {shlex.join(f'./{link}' for link in links)}")

    async def _bring(self, git: Git, making: str, kept: Kept, owner: tuple[int, int] | None) -> None:
        """Fetch the snapshot's objects. The operator's repository is reached with the server's rights; in the owner's folder
        everything is done with the owner's.
        """
        target = self._settings.snapshots
        assert target is not None
        flags = ("-q", "--no-tags", "--no-write-fetch-head", "--", target, kept.ref)
        reach, seconds, most = reach_of(target), self._settings.seconds, self._settings.most_mb
        if owner is None:
            where = {"GIT_DIR": os.path.join(making, ".git")}
            await git.run("fetch", *flags, variables=where, reach=reach, seconds=seconds)
            return
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as pack:
            ours = Git(folder, self._env, most_mb=most)
            await ours.run("init", "-q", "--bare", "--template=", ".")
            await ours.run("fetch", *flags, reach=reach, seconds=seconds)
            await carry(ours, git, f"{kept.commit}\n".encode(), pack.fileno(), {}, seconds)

    async def _stand_at(self, git: Git, said: str) -> None:
        head, branch = _HEAD.search(said), _BRANCH.search(said)
        if head is None:
            return
        if branch is not None and ".." not in branch[1]:
            await git.run("update-ref", f"refs/heads/{branch[1]}", head[1])
            await git.run("symbolic-ref", "HEAD", f"refs/heads/{branch[1]}")
        else:
            await git.run("update-ref", "--no-deref", "HEAD", head[1])

    async def _write_out(self, git: Git, making: str, commit: str, seconds: float) -> None:
        index = {"GIT_INDEX_FILE": os.path.join(making, ".git", "understudy-index")}
        exact = ("-c", "core.protectNTFS=false", "-c", "core.protectHFS=false")
        attributes = ".git/info/attributes"
        await git.run_shell(f"mkdir -p .git/info; printf %s {shlex.quote(AS_IT_IS)} > {attributes}")
        await git.run_shell(EMPTY)
        await git.run(*exact, "read-tree", commit, variables=index)
        await git.run(*exact, "checkout-index", "-a", "-f", "-q", variables=index, seconds=seconds)
        await git.run_shell(f"rm -f {attributes} .git/understudy-index")


def _has_room(making: str, link: str) -> bool:
    """Whether a submodule's empty folder fits there, as after a clone: the snapshot may have a file or a link to elsewhere in that
    place.
    """
    path = making
    for part in link.split("/"):
        path = os.path.join(path, part)
        if os.path.lexists(path) and (os.path.islink(path) or not os.path.isdir(path)):
            return False
    return True
