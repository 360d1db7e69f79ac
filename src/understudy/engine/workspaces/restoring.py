"""A workspace that is gone, made again: cloned from its source, with what its newest snapshot holds laid over it.

A folder appears at the workspace's place only when all of it is there. What was made is noted beside it until the conversation has
it in its log, so that a crash in between loses no word about it.
"""

import asyncio
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from understudy.config.store import WorkspaceSettings
from understudy.engine.workspaces.cloning import check_size, clone, make_folder, reach_of, remove
from understudy.engine.workspaces.git import Git, without_secrets
from understudy.engine.workspaces.snapshots import AS_IT_IS, REFS
from understudy.errors import WorkspaceFailed
from understudy.protocol.records import Workspace

logger = logging.getLogger(__name__)

SECONDS = 60.0
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
        """The newest snapshot, also one that the log does not know of. Raises `WorkspaceFailed` where nobody can say."""
        target = self._settings.snapshots
        if target is None:
            return None
        wanted = f"{REFS}/{conversation_id}/*", *(() if known is None else (known.ref,))  # of a fork: its source's
        found = [each for each in await self._list(target, *wanted) if each.turn.isdigit()]
        return max(found, key=lambda each: int(each.turn), default=None)

    async def erase(self, conversation_id: str) -> None:
        """All snapshots of a conversation that is deleted."""
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
        """What is not in it. Raises `WorkspaceFailed`, with nothing made."""
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
            await asyncio.to_thread(_empty, making)
            await Git(making, self._env, owner).run("init", "-q", "--template=", ".")
        if kept is not None:
            await self._lay_over(making, kept, owner)
        return tuple(lost)

    async def _lay_over(self, making: str, kept: Kept, owner: tuple[int, int] | None) -> None:
        """The snapshot's files, byte for byte; its commit and branch checked out; the user's index as after a `git reset`."""
        target = self._settings.snapshots
        assert target is not None
        git, seconds = Git(making, self._env, owner, self._settings.most_mb), self._settings.seconds
        ours = Git(making, self._env, most_mb=self._settings.most_mb)  # what the operator's repository is reached with
        flags = ("-q", "--no-tags", "--no-write-fetch-head")
        where, reach = {"GIT_DIR": os.path.join(making, ".git")}, reach_of(target)
        await ours.run("fetch", *flags, "--", target, kept.ref, variables=where, reach=reach, seconds=seconds)
        if owner is not None:
            await asyncio.to_thread(_give, os.path.join(making, ".git"), owner)
        await check_size(git, kept.commit, self._settings.most_mb)
        said = (await git.run("cat-file", "commit", kept.commit)).decode(errors="replace")
        await self._stand_at(git, said)
        await self._write_out(git, making, kept.commit, seconds)
        await git.run("read-tree", "HEAD" if _HEAD.search(said) else "--empty")
        await git.run("update-index", "-q", "--refresh", allowed=(0, 1))
        links = (await git.run("ls-files", "-s", "-z")).split(b"\0")
        for row in links:
            if row.startswith(b"160000"):  # a submodule is an empty folder, as after a clone
                os.makedirs(os.path.join(os.fsencode(making), row.split(b"\t", 1)[1]), exist_ok=True)

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
        attributes = await asyncio.to_thread(_without_attributes, making)
        index = {"GIT_INDEX_FILE": os.path.join(making, ".git", "understudy-index")}
        exact = ("-c", "core.protectNTFS=false", "-c", "core.protectHFS=false")
        await asyncio.to_thread(_empty, making, ".git")
        await git.run(*exact, "read-tree", commit, variables=index)
        await git.run(*exact, "checkout-index", "-a", "-f", "-q", variables=index, seconds=seconds)
        for path in (attributes, index["GIT_INDEX_FILE"]):
            os.unlink(path)


def _empty(folder: str, *but: str) -> None:
    for entry in os.scandir(folder):
        if entry.name in but:
            continue
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def _without_attributes(making: str) -> Path:
    """While files are written out."""
    attributes = Path(making, ".git", "info", "attributes")
    attributes.parent.mkdir(exist_ok=True)
    attributes.write_text(AS_IT_IS, encoding="ascii")
    return attributes


def _give(folder: str, owner: tuple[int, int]) -> None:
    for where, _, files in os.walk(folder):
        for path in (where, *(os.path.join(where, name) for name in files)):
            os.chown(path, *owner, follow_symlinks=False)
