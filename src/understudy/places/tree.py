"""Walks the files below a folder for a model: in order, without following links, and without masked or ignored files.

Every folder is opened from the one above it and checked once open, so that replacing something meanwhile cannot mislead the walk.
Imports little: a separate process searches files with it.
"""

import os
import stat
from collections.abc import Callable, Generator, Iterator

from understudy.places.ignoring import FILES, MOST_BYTES, Ignoring
from understudy.places.masks import Identity
from understudy.places.placeholders import begins_repository, is_placeholder
from understudy.places.reading import READ, JudgedWalk, NotForModels, ReadLimits, open_for_model
from understudy.places.walking import ANYTHING

MOST_DEPTH = 200
MOST_ENTRIES = 500_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Found:
    """A file or folder below the start. `folder` stays open while the caller looks at it."""

    __slots__ = ("depth", "folder", "is_folder", "is_link", "name", "path")

    def __init__(self, path: str, name: str, folder: int, depth: int, *, is_folder: bool, is_link: bool) -> None:
        self.path = path  # relative to the start
        self.name = name
        self.folder = folder
        self.depth = depth
        self.is_folder = is_folder
        self.is_link = is_link


class Tree:
    def __init__(
        self,
        limits: ReadLimits,
        *,
        with_hidden: bool = False,
        depth: int = MOST_DEPTH,
        may_read: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """`may_read`: whether policy lets the absolute path be read."""
        self._limits = limits
        self._masked = frozenset(limits.masks.paths)
        self._identities = limits.masks.identities()
        self._inodes = frozenset(inode for _, inode in self._identities)
        self._inner: tuple[frozenset[Identity] | None] | None = None
        self._with_hidden = with_hidden
        self._depth = min(depth, MOST_DEPTH)
        self._may_read = may_read
        self.entries = 0
        self.cut = False  # there was more than we looked at
        self.unread = 0  # folders that could not be opened

    def walk(self, path: str, base: str = "/", opened_base: int | None = None) -> Generator[Found]:
        """All below the folder; the folder of each entry is open until the next one is asked for.

        `base` and `opened_base`: as for `open_for_model`.

        Raises `NotForModels`, or OSError, if the folder cannot be read.
        """
        with JudgedWalk(self._limits, base, opened_base) as way:
            way.go(path)
            way.judge_place("it")
            if not stat.S_ISDIR(os.fstat(way.reached).st_mode):
                raise NotADirectoryError(20, os.strerror(20))
            opened = os.open(".", _FOLDER, dir_fd=way.reached)
            prefix = (base + way.path).rstrip("/") if base != "/" else way.path.rstrip("/")
        above = self._rules_above(prefix or "/") if base == "/" else None
        waiting: list[tuple[int, Iterator[Found]]] = [(opened, self._look(opened, "", prefix, 0, above))]
        rules: list[Ignoring | None] = [self._entered]
        try:
            while waiting:
                folder, found = waiting[-1]
                entry = next(found, None)
                if entry is None:
                    os.close(folder)
                    waiting.pop()
                    rules.pop()
                    continue
                yield entry
                if entry.is_folder and entry.depth < self._depth:
                    below = self._enter(entry, prefix)
                    if below >= 0:
                        waiting.append((below, self._look(below, entry.path, prefix, entry.depth, rules[-1])))
                        rules.append(self._entered)
        finally:
            for folder, _ in waiting:
                os.close(folder)

    _entered: Ignoring | None = None  # the rules of the latest folder

    def _enter(self, entry: Found, prefix: str) -> int:
        """Open the folder to list it; -1 if it is not for the model, or gone."""
        try:
            below = os.open(entry.name, _FOLDER, dir_fd=entry.folder)
        except OSError:
            self.unread += 1
            return -1
        status = os.fstat(below)
        is_masked = (status.st_dev, status.st_ino) in self._identities
        if is_masked or self._limits.unreadable.covers(f"{prefix}/{entry.path}", status.st_dev):
            os.close(below)
            return -1
        return below

    def _look(self, folder: int, path: str, prefix: str, depth: int, above: Ignoring | None) -> Iterator[Found]:
        """Its entries in order, without ignored ones. Sets `_entered`."""
        with os.scandir(folder) as listed:
            entries: list[os.DirEntry[str]] = []
            for entry in listed:
                self.entries += 1
                if self.entries > MOST_ENTRIES:
                    self.cut = True
                    break
                if not _stands_in(entry, folder):
                    entries.append(entry)
        entries.sort(key=lambda entry: os.fsencode(entry.name))
        names = frozenset([entry.name for entry in entries])
        rules = above
        if ".git" in names or not names.isdisjoint(FILES):
            rules = Ignoring(path, above, names, lambda name: _read_small(folder, name))
        self._entered = rules
        return self._kept(entries, folder, f"{path}/" if path else "", prefix, depth + 1, rules)

    def _kept(
        self, entries: "list[os.DirEntry[str]]", folder: int, before: str, prefix: str, depth: int, rules: Ignoring | None
    ) -> Iterator[Found]:
        for entry in entries:
            name = entry.name
            if name[0] == "." and (not self._with_hidden or name == ".git"):
                continue
            path = before + name
            is_folder = entry.is_dir(follow_symlinks=False)
            if rules is not None and rules.leaves_out(path, name, is_folder):
                continue
            whole = f"{prefix}/{path}"
            if whole in self._masked or (entry.inode() in self._inodes and self._is_masked(folder, name)):
                continue
            if not self._may_read(whole):
                continue
            yield Found(path, name, folder, depth, is_folder=is_folder, is_link=entry.is_symlink())

    def _is_masked(self, folder: int, name: str) -> bool:
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return True
        return (status.st_dev, status.st_ino) in self._identities

    def open_file(self, found: Found) -> int:
        """Open a regular file of the walk; -1 if it is not one, is not for the model, or is gone."""
        if found.is_folder or found.is_link:
            return -1
        try:
            descriptor = os.open(found.name, ANYTHING, dir_fd=found.folder)
        except OSError:
            return -1
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return -1  # not even opened, because opening a device can have effects
        finally:
            os.close(descriptor)
        try:
            descriptor = os.open(found.name, READ, dir_fd=found.folder)
        except OSError:
            return -1
        status = os.fstat(descriptor)
        identity = (status.st_dev, status.st_ino)
        if not stat.S_ISREG(status.st_mode) or identity in self._identities or self._has_masked_name(status):
            os.close(descriptor)
            return -1
        return descriptor

    def _has_masked_name(self, status: os.stat_result) -> bool:
        """Whether a file with several names has one in a masked folder. These folders are read once for all files of a walk."""
        if status.st_nlink < 2:
            return False
        if self._inner is None:
            self._inner = (self._limits.masks.inner_identities(),)
        inner = self._inner[0]
        return inner is None or (status.st_dev, status.st_ino) in inner

    def may_show(self, descriptor: int) -> bool:
        """Checked again before any of a file is shown: it may have been masked or linked meanwhile."""
        status = os.fstat(descriptor)
        masks = self._limits.masks
        return (status.st_dev, status.st_ino) not in masks.identities() and not masks.may_hold(status)

    def _rules_above(self, start: str) -> Ignoring | None:
        """The rules of the folders between the repository's top and the start."""
        folders: list[str] = []
        folder: str = start
        while folder != "/":
            folder = os.path.dirname(folder)
            folders.append(folder)
            if begins_repository(folder):
                break
        else:
            return None
        rules: Ignoring | None = None
        for each in reversed(folders):
            names = frozenset(name for name in FILES if os.path.lexists(os.path.join(each, name)))
            names |= {".git"} if begins_repository(each) else frozenset()
            offset = os.path.relpath(start, each)
            rules = Ignoring("", rules, names, _reader(each, self._limits), below=f"{offset}/")
        return rules


def _stands_in(entry: "os.DirEntry[str]", folder: int) -> bool:
    """Whether it is a placeholder of the sandbox for a missing protected name, all of which begin with a dot."""
    return entry.name[0] == "." and entry.is_dir(follow_symlinks=False) and is_placeholder(entry.name, folder)


def _reader(folder: str, limits: ReadLimits) -> Callable[[str], bytes | None]:
    def read(name: str) -> bytes | None:
        try:
            with open(open_for_model(os.path.join(folder, name), limits), "rb") as file:
                return file.read(MOST_BYTES)
        except (OSError, NotForModels):
            return None

    return read


def _read_small(folder: int, name: str) -> bytes | None:
    """Read a file of rules in an open folder. It is never shown, so it is not checked; a link is not followed, as in git."""
    current = os.dup(folder)
    try:
        *folders, last = name.split("/")
        for each in folders:
            below = os.open(each, _FOLDER, dir_fd=current)
            os.close(current)
            current = below
        descriptor = os.open(last, READ, dir_fd=current)
        with open(descriptor, "rb") as file:
            return file.read(MOST_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    except OSError:
        return None
    finally:
        os.close(current)
