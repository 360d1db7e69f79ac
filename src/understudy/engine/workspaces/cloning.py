"""Makes a workspace of kind `git`: says what may be cloned, and makes a clone in which nothing from the repository has run."""

import asyncio
import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence

from understudy.config.store import WorkspaceSettings
from understudy.engine.workspaces.git import ALONE, Git, Reach
from understudy.errors import BadRequest, WorkspaceFailed
from understudy.places.resolving import is_within

MOST_FILES = 1_000_000
MOST_URL = 2000
_COMMIT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]{0,199}")
_FULL_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_BY_SSH = re.compile(r"(?:[\w.-]+@)?[\w.-]+:(?![:/]{2}).+")
_SCHEMES = ("https://", "http://", "ssh://")
_NOT_THIS = "which cannot be cloned; give an address that begins with https:// or ssh://, one like git@host:path, or a path"


def check_source(url: str, commit: str) -> None:
    """Raises `BadRequest`."""
    if not url or len(url) > MOST_URL or url.startswith("-") or any(ord(letter) <= 32 or ord(letter) == 127 for letter in url):
        raise BadRequest(f"`url` of the workspace is {'empty' if not url else 'an address that no repository has'}")
    scheme, separator, rest = url.partition("://")
    if separator:
        user, at, _ = rest.partition("/")[0].rpartition("@")
        if at and (":" in user or scheme != "ssh"):
            raise BadRequest(
                "`url` of the workspace holds a user name with a password or a token, which would stand in the log: "
                "leave it out, and let ssh or a credential helper of git on the server's machine answer for it"
            )
    if not (url.startswith((*_SCHEMES, "file:///", "/")) or (_BY_SSH.fullmatch(url) and "::" not in url and not separator)):
        raise BadRequest(f"`url` of the workspace is {url[:200]!r}, {_NOT_THIS}")
    if commit and (not _COMMIT.fullmatch(commit) or ".." in commit):
        raise BadRequest(f"`commit` of the workspace is {commit[:100]!r}, which names no commit, branch or tag")


def is_path(url: str) -> bool:
    return url.startswith(("/", "file:///"))


def is_allowed(url: str, urls: Sequence[str]) -> bool:
    """Whether the URL begins like one of these. A beginning that ends in a name allows that name and everything below it."""
    if "/../" in url or url.endswith("/..") or "%" in url:
        return False
    return any(url == start or (start and url.startswith(start if start[-1] in "/:" else start + "/")) for start in urls) or any(
        url == f"{start}.git" for start in urls
    )


def reach_of(url: str) -> Reach:
    return Reach(network=True, paths=is_path(url))


async def clone(
    url: str, commit: str, target: str, settings: WorkspaceSettings, env: Mapping[str, str], owner: tuple[int, int] | None
) -> str:
    """Clone into an existing empty folder. Returns the id of the checked-out commit, or "" if the repository has none.

    Raises `WorkspaceFailed`.
    """
    git = Git(target, env, owner, settings.most_mb)
    options = ("--no-checkout", "--no-local", "--no-recurse-submodules", "--template=", "--origin=origin", "--quiet")
    await git.run("clone", *options, "--", url, ".", reach=reach_of(url), seconds=settings.seconds)
    found = await _find(git, url, commit, settings.seconds)
    if not found:
        return ""
    await check_size(git, found, settings)
    branch = await git.run("rev-parse", "--verify", "-q", f"refs/remotes/origin/{commit}", allowed=(0, 1)) if commit else b""
    if not commit:
        await git.run("reset", "-q", "--hard", found, seconds=settings.seconds)
    elif branch.strip().decode() == found:
        await git.run("checkout", "-q", "-f", "-B", commit, "--track", f"origin/{commit}", seconds=settings.seconds)
    else:
        await git.run("checkout", "-q", "-f", "--detach", found, seconds=settings.seconds)
    return found


async def _find(git: Git, url: str, commit: str, seconds: float) -> str:
    names = (f"refs/remotes/origin/{commit}", f"refs/tags/{commit}", commit) if commit else ("HEAD",)
    for name in names:
        found = await git.run("rev-parse", "--verify", "-q", "--end-of-options", f"{name}^{{commit}}", allowed=(0, 1, 128))
        if (text := found.strip().decode()) and _FULL_ID.fullmatch(text):
            return text
    if not commit:
        return ""  # a repository without a commit
    if _FULL_ID.fullmatch(commit):  # not on a branch; some servers deliver it nevertheless
        await git.run("fetch", "-q", "--no-tags", "origin", commit, reach=reach_of(url), seconds=seconds)
        return commit
    raise WorkspaceFailed(f"the repository has no commit, branch or tag `{commit}`")


async def check_size(git: Git, commit: str, settings: WorkspaceSettings) -> None:
    """Check the size before writing the files: a small repository can hold very much. Raises `WorkspaceFailed`."""
    try:
        async with asyncio.timeout(settings.seconds):
            await _count(git, commit, settings.most_mb)
    except TimeoutError:  # folders nested without a file, for which git prints nothing
        raise WorkspaceFailed(f"the files of commit {commit[:12]} could not be counted in {settings.seconds:g} s") from None


async def _count(git: Git, commit: str, most_mb: int) -> None:
    left, files, rest = most_mb << 20, 0, b""
    async with git.started("ls-tree", "-r", "-l", "-z", "--full-tree", commit, reach=ALONE) as process:
        assert process.stdout is not None
        while chunk := await process.stdout.read(1 << 18):
            *rows, rest = (rest + chunk).split(b"\0")
            files += len(rows)
            left -= sum(int(size) for row in rows if (size := row.split(b"\t")[0].split()[-1]).isdigit())
            if left < 0 or files > MOST_FILES:
                raise WorkspaceFailed(f"the files of commit {commit[:12]} take more than {most_mb} MB, or are over {MOST_FILES}")
            if len(rest) > 1 << 20:
                raise WorkspaceFailed(f"commit {commit[:12]} holds a name that is too long")


def check_folder(workspace: str, folder: str) -> None:
    """A repository's link must not lead out of it. Raises `WorkspaceFailed`."""
    if not is_within(os.path.realpath(os.path.join(workspace, folder)), os.path.realpath(workspace)):
        raise WorkspaceFailed(f"the folder {folder[:200]!r} of the repository is a link that leads out of it")


def make_folder(path: str, root: str) -> tuple[int, int] | None:
    """Make an empty folder for one workspace. Returns with whose rights to fill it: those of the folder of workspaces, if the
    server is root.
    """
    os.makedirs(root, mode=0o755, exist_ok=True)
    owner = os.stat(root)
    os.mkdir(path, 0o700)
    if os.geteuid() != 0 or owner.st_uid == 0:
        return None
    os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
    return owner.st_uid, owner.st_gid


def remove(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)


def remove_leftovers(root: str, seconds: float) -> None:
    """Remove unfinished clones of processes that have ended."""
    if not os.path.isdir(root):
        return
    for entry in os.scandir(root):
        if entry.name.endswith(".making") and time.time() - entry.stat(follow_symlinks=False).st_mtime > seconds:
            remove(entry.path)
