"""What nobody may read for a model: masked paths, and the same files under other names.

Also what is masked and protected by default. A user removes a default by its name with a leading `!`.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from understudy.places.placeholders import is_marked, is_placeholder
from understudy.places.resolving import is_within
from understudy.places.walking import ANYTHING, is_plain, real_paths

MASK = (
    "~/.ssh",
    "~/.aws",
    "~/.gnupg",
    "~/.netrc",
    "~/.git-credentials",
    "~/.config/gh",
    "~/.kube",
    "~/.docker/config.json",
)

# Protected wherever they exist. In a home folder, where shells look for them, missing ones cannot be created either.
START_UP = (".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin")

# Files with instructions for agents. Protected where they exist; creating the first one is an everyday request.
INSTRUCTIONS = ("AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md")

PROTECT = (
    ".git",
    ".codex",
    ".agents",
    ".claude",
    ".mcp.json",
    ".gitmodules",
    ".vscode",
    ".idea",
    ".envrc",
    *INSTRUCTIONS,
    *START_UP,
)


Identity = tuple[int, int]  # device and inode
_MOST_SEARCHED = 100_000  # how many entries of masked folders are searched for another name of a file


class Masks:
    """Masked paths, known by path, and by device and inode, because a masked file may have another name."""

    def __init__(self, paths: Iterable[str]) -> None:
        """Absolute paths; a link counts as well as the path that it leads to."""
        spelled = tuple(paths)
        known: dict[str, None] = {}
        for path, real in zip(spelled, real_paths(spelled), strict=True):
            known[path if is_plain(path) else os.path.normpath(path)] = None
            known[real] = None
        self.paths = tuple(known)
        self._noted: dict[str, Identity] = {}

    def covering(self, path: str) -> str | None:
        """The masked path that this absolute, normal path is or is inside."""
        return next((masked for masked in self.paths if is_within(path, masked)), None)

    def identities(self) -> set[Identity]:
        """Device and inode of what is at the masked paths now."""
        found: set[Identity] = set()
        for path in self.paths:
            try:
                status = os.stat(path)
            except PermissionError:
                if path in self._noted:
                    found.add(self._noted[path])
                continue
            except (OSError, ValueError):
                continue
            found.add((status.st_dev, status.st_ino))
        return found

    def note(self) -> set[Identity]:
        """Remember the identities for callers who may not look there themselves."""
        noted: dict[str, Identity] = {}
        for path in self.paths:
            with suppress(OSError, ValueError):
                status = os.stat(path)
                noted[path] = status.st_dev, status.st_ino
        self._noted = noted
        return set(noted.values())

    def inner_identities(self) -> frozenset[Identity] | None:
        """Those of all files in masked folders; None if there are too many."""
        found: set[Identity] = set()
        for entry in self._inner_files():
            if entry is None:
                return None
            with suppress(OSError):  # it may be gone by now
                status = entry.stat(follow_symlinks=False)
                found.add((status.st_dev, status.st_ino))
        return frozenset(found)

    def may_hold(self, status: os.stat_result) -> bool:
        """Whether a file with several names has, or may have, one in a masked folder."""
        if status.st_nlink < 2:
            return False
        for entry in self._inner_files():
            if entry is None:
                return True
            with suppress(OSError):
                if entry.inode() == status.st_ino and entry.stat(follow_symlinks=False).st_dev == status.st_dev:
                    return True
        return False

    def _inner_files(self) -> Iterator["os.DirEntry[str] | None"]:
        """Files in masked folders; ends with None if there are too many."""
        searched = 0
        waiting = list(self.paths)
        while waiting:
            try:
                with os.scandir(waiting.pop()) as entries:
                    for entry in entries:
                        searched += 1
                        if searched > _MOST_SEARCHED:
                            yield None
                            return
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                        else:
                            yield entry
            except OSError:
                continue  # a file, or missing


class MaskWatch:
    """Watches masked paths inside writable roots while a command runs; close it afterwards.

    A mount hides each of them, but the kernel drops the mount when another program replaces the file, and no kind of mount survives
    that. Then nothing that the command prints is passed on.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._before = {path: _seen(path) for path in paths}
        # The inode of an open file is not given to another file, which could then be mistaken for it.
        self._held = [held for held in map(_hold, self._before) if held is not None]

    def close(self) -> None:
        while self._held:
            os.close(self._held.pop())

    def has(self, path: str) -> bool:
        return path in self._before

    def moved(self) -> str | None:
        """A path that now leads to something else than in the beginning."""
        return next((path for path, before in self._before.items() if (now := _seen(path)) is not None and now != before), None)


def _hold(path: str) -> int | None:
    try:
        return os.open(path, ANYTHING)
    except OSError:
        return None


def _seen(path: str) -> Identity | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if is_marked(status) and is_placeholder(path):
        return None
    return status.st_dev, status.st_ino
