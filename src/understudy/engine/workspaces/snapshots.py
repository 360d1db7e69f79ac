"""Saves a workspace's content after a turn as a commit in a repository of our own, and pushes it to the operator's.

The workspace's own repository is left alone: its index, branches and stash do not change, and its settings are not read. The
snapshot has its own index and folder in the state folder. It borrows the workspace's objects, so that commits made there are saved
too. Git lists what has changed and writes what we hand it; `staging` reads the files.
"""

import asyncio
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from understudy.config.store import WorkspaceSettings
from understudy.engine.workspaces.cloning import reach_of
from understudy.engine.workspaces.git import Git, carry, is_folder, without_secrets
from understudy.engine.workspaces.staging import stage
from understudy.errors import WorkspaceFailed
from understudy.places.doer import owner_of

REFS = "refs/understudy"
PUSH_SECONDS = 60.0
MOST_NESTED = 50  # repositories in a workspace
MOST_LEFT_OUT = 20
# overrides the repository's rules for line ends and filters
AS_IT_IS = "* -text -eol -ident -filter -working-tree-encoding -crlf\n"
NOBODY = "0" * 40
_ID = re.compile(r"[0-9a-f]{40}")
_SETTINGS = (
    "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tprotectNTFS = false\n\tprotectHFS = false\n\tautocrlf = false\n"
)
_NAMED = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Understudy"), ("EMAIL", "understudy@localhost"))
}


class Snapshot(NamedTuple):
    commit: str
    left_out: tuple[str, ...] = ()


def ref_of(conversation_id: str, turn: str) -> str:
    return f"{REFS}/{conversation_id}/{turn}"


class Snapshots:
    """Snapshots of one conversation's workspace."""

    def __init__(self, workspace: str, folder: str, settings: WorkspaceSettings, env: Mapping[str, str]) -> None:
        """`folder`: ours, for the snapshot's repository."""
        self._workspace = workspace
        self._folder = folder
        self._settings = settings
        self._git = Git(workspace, env)
        self._owner = owner_of(workspace)
        self._index = os.path.join(folder, "understudy-index")
        self._variables = {"GIT_DIR": folder, "GIT_WORK_TREE": workspace, "GIT_INDEX_FILE": self._index}

    async def take(self, conversation_id: str, turn: str, source: str, before: str = "") -> Snapshot:
        """`before`: the newest known snapshot, which becomes the parent. Raises `WorkspaceFailed`."""
        try:
            return await self._take(conversation_id, turn, source, before)
        except WorkspaceFailed:
            if not is_folder(self._workspace):
                raise
            shutil.rmtree(self._folder, ignore_errors=True)  # a crash may have left it incomplete
            return await self._take(conversation_id, turn, source, before)

    async def _take(self, conversation_id: str, turn: str, source: str, before: str) -> Snapshot:
        head, branch = _head_of(self._workspace)
        if not is_folder(os.path.join(self._folder, "objects")):
            await asyncio.to_thread(self._make)
        if self._owner is None:
            self._borrow()
        elif head and not await self._has(head):
            await self._carry(head)
        if head and not await self._has(head):
            head = ""
        if head and not _is_plain_file(self._index):
            await self._begin_at(head)
        left_out = await self._take_in()
        tree = (await self._run("write-tree")).decode().strip()
        last = await self._last(before)
        if last and await self._is_the_same(last, tree, head):
            return Snapshot(last, left_out)
        parents = [each for each in dict.fromkeys((last, head)) if each]
        message = f"After turn {turn} of {conversation_id}\n\nHead: {head}\nBranch: {branch}\nSource: {without_secrets(source)}\n"
        flags = [flag for parent in parents for flag in ("-p", parent)]
        made = await self._run("commit-tree", tree, *flags, "-F", "-", given=message.encode(), more=_NAMED)
        commit = made.decode().strip()
        await self._run("update-ref", f"{REFS}/last", commit)
        return Snapshot(commit, left_out)

    async def push(self, commit: str, ref: str) -> None:
        """Raises `WorkspaceFailed`."""
        target = self._settings.snapshots
        assert target is not None
        flags = ("-q", "--no-verify", "--no-follow-tags", "--no-recurse-submodules", "--no-signed")
        git = Git(self._folder, self._git.env)
        where = {"GIT_DIR": self._folder}
        try:
            await git.run(
                "push", *flags, "--", target, f"+{commit}:{ref}", variables=where, reach=reach_of(target), seconds=PUSH_SECONDS
            )
        except WorkspaceFailed as error:
            raise WorkspaceFailed(f"{without_secrets(target)} did not take it: {error}") from None

    # -- the repository

    def _make(self) -> None:
        for name in ("objects/info", "objects/pack", "refs/heads", "info"):
            os.makedirs(os.path.join(self._folder, name), mode=0o700, exist_ok=True)
        for name, text in (("HEAD", "ref: refs/heads/none\n"), ("config", _SETTINGS), ("info/attributes", AS_IT_IS)):
            with open(os.path.join(self._folder, name), "w", encoding="ascii") as file:
                file.write(text)

    def _borrow(self) -> None:
        """Use the workspace's objects, unless they lead to other repositories' objects."""
        objects = os.path.join(self._workspace, ".git", "objects")
        named = os.path.join(self._folder, "objects", "info", "alternates")
        if _is_plain_folder(objects) and not os.path.lexists(os.path.join(objects, "info", "alternates")) and "\n" not in objects:
            with open(named, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(f"{objects}\n")
        elif os.path.exists(named):
            os.unlink(named)

    async def _carry(self, head: str) -> None:
        """Copy the commits if the workspace is not ours: its objects may be links to files that only we may read."""
        theirs = Git(self._workspace, self._git.env, self._owner)
        with suppress(WorkspaceFailed), tempfile.TemporaryFile(dir=self._folder) as pack:
            await carry(theirs, self._git, f"{head}\n".encode(), pack.fileno(), {"GIT_DIR": self._folder}, PUSH_SECONDS)

    async def _begin_at(self, head: str) -> None:
        await self._run("read-tree", head)
        rows = (await self._run("ls-files", "-s", "-z")).split(b"\0")
        await self._put([b"0 " + NOBODY.encode() + b"\t" + row.split(b"\t", 1)[1] for row in rows if row.startswith(b"160000")])

    async def _last(self, before: str) -> str:
        for name in (f"{REFS}/last", before):
            if name and (found := await self._run("rev-parse", "--verify", "-q", f"{name}^{{commit}}", allowed=(0, 1, 128))):
                return found.decode().strip()
        return ""

    async def _has(self, commit: str) -> bool:
        kind = await self._run("cat-file", "-t", commit, allowed=(0, 1, 128))
        return kind.strip() == b"commit"

    async def _is_the_same(self, last: str, tree: str, head: str) -> bool:
        text = (await self._run("cat-file", "commit", last)).decode(errors="replace")
        return text.startswith(f"tree {tree}\n") and f"\nHead: {head}\n" in text

    # -- what has changed

    async def _take_in(self) -> tuple[str, ...]:
        """Update our index to the workspace's content. Returns what could not be saved, in words for people."""
        changed, gone = await self._changes()
        os.makedirs(os.path.join(self._folder, "staged"), mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=os.path.join(self._folder, "staged")) as folder:
            staged, left = await asyncio.to_thread(stage, self._workspace, sorted(changed), folder, self._settings.most_mb)
            copies = [each.copy for each in staged if each.copy]
            listed = "".join(f"{copy}\n" for copy in copies).encode()
            ids = (await self._run("hash-object", "-w", "--no-filters", "--stdin-paths", given=listed)).decode().split()
        if len(ids) != len(copies):
            raise WorkspaceFailed("git did not say under which ids it keeps the files")
        named = dict(zip(copies, ids, strict=True))
        rows = [f"{each.mode} {named[each.copy]}\t".encode() + each.path for each in staged if each.copy]
        removed = {each.path for each in staged if not each.copy} | gone | {each.path for each in left}
        await self._put([*(b"0 " + NOBODY.encode() + b"\t" + path for path in sorted(removed)), *rows])
        told = [each.describe() for each in left]
        more = [f"and {len(told) - MOST_LEFT_OUT} more"] if len(told) > MOST_LEFT_OUT else []
        return (*told[:MOST_LEFT_OUT], *more)

    async def _changes(self) -> tuple[set[bytes], set[bytes]]:
        """Files that differ from our index, and files to drop because git ignores them now."""
        await self._run("update-index", "-q", "--refresh", allowed=(0, 1))
        ignoring = ("--exclude-standard", *self._own_exclude())
        changed = await self._list("-m", "-d")
        others = await self._list("-o", *ignoring)
        tracked, ours = await self._tracked_by_user(), await self._list("-c")
        also, kept = await self._also()
        ignored = await self._list("-c", "-i", *ignoring)
        nested = sorted(path for path in others if path.endswith(b"/"))
        for path in nested[:MOST_NESTED]:
            others |= await self._within(path)
        others -= set(nested)
        return changed | others | also | (tracked - ours), ignored - tracked - kept

    def _own_exclude(self) -> tuple[str, ...]:
        path = os.path.join(self._workspace, ".git", "info", "exclude")
        return ("-X", path) if _is_plain_file(path) else ()

    async def _tracked_by_user(self) -> set[bytes]:
        """What the user's own index has, which may include files that git would ignore; without submodules."""
        index = os.path.join(self._workspace, ".git", "index")
        if not _is_plain_file(index):
            return set()
        try:
            rows = await self._run("ls-files", "-s", "-z", more={"GIT_INDEX_FILE": index})
        except WorkspaceFailed:
            return set()  # it is being written, or is not an index
        return {row.split(b"\t", 1)[1] for row in rows.split(b"\0") if row and not row.startswith(b"160000")}

    async def _also(self) -> tuple[set[bytes], set[bytes]]:
        """Files that are saved although git ignores them: new ones, and those that our index has."""
        names = [f":(literal){name.rstrip('/')}" for name in self._settings.also]
        if not names:
            return set(), set()
        return {path for path in await self._list("-o", "--", *names) if not path.endswith(b"/")}, await self._list(
            "-c", "--", *names
        )

    async def _within(self, path: bytes) -> set[bytes]:
        """The files of a nested repository; its history is not saved."""
        where = os.path.join(self._workspace, os.fsdecode(path.rstrip(b"/")))
        if not _is_plain_folder(where):
            return set()
        none = os.path.join(self._folder, "no-index")
        more = {"GIT_WORK_TREE": where, "GIT_INDEX_FILE": none}
        rows = await Git(where, self._git.env).run(
            "ls-files", "-z", "-o", "--exclude-standard", variables={**self._variables, **more}
        )
        return {path + row for row in rows.split(b"\0") if row and not row.endswith(b"/")}

    async def _list(self, *arguments: str) -> set[bytes]:
        return {path for path in (await self._run("ls-files", "-z", *arguments)).split(b"\0") if path}

    async def _put(self, rows: list[bytes]) -> None:
        if rows:
            await self._run("update-index", "--add", "--replace", "-z", "--index-info", given=b"\0".join(rows) + b"\0")

    async def _run(
        self, *arguments: str, given: bytes | None = None, more: Mapping[str, str] | None = None, allowed: tuple[int, ...] = (0,)
    ) -> bytes:
        return await self._git.run(*arguments, given=given, variables={**self._variables, **(more or {})}, allowed=allowed)


def _head_of(workspace: str) -> tuple[str, str]:
    """The workspace's checked-out commit and its branch. Git is not asked, because the repository's settings are not ours."""
    folder = os.path.join(workspace, ".git")
    head = _small_text(os.path.join(folder, "HEAD")).strip()
    if _ID.fullmatch(head):
        return head, ""
    name = head.removeprefix("ref: ")
    if not re.fullmatch(r"refs/heads/[\w./+-]{1,200}", name) or ".." in name:
        return "", ""
    found = _small_text(os.path.join(folder, name)).strip()
    if not found:
        rows = _small_text(os.path.join(folder, "packed-refs"), 1 << 22).splitlines()
        found = next((row[:40] for row in rows if row[41:] == name), "")
    return (found if _ID.fullmatch(found) else ""), name.removeprefix("refs/heads/")


def _small_text(path: str, most: int = 4096) -> str:
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(opened, "rb") as file:
            return file.read(most).decode(errors="replace") if stat.S_ISREG(os.fstat(opened).st_mode) else ""
    except OSError:
        return ""


def _is_plain_file(path: str) -> bool:
    return not os.path.islink(path) and os.path.isfile(path)


def _is_plain_folder(path: str) -> bool:
    return os.path.isdir(path) and os.path.realpath(path) == path
