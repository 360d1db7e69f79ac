"""Sees when somebody outside takes away what protects or hides a name in a writable root.

A mount lies on what stands at a name, not on the name. When that is replaced or removed from outside the cell, the kernel drops the
mount; when it is renamed, the mount goes along. Either way the name is free for the command, so its watcher ends it.
"""

import os

from understudy.places.file_systems import unescaped
from understudy.places.placeholders import is_marked, is_placeholder
from understudy.places.walking import ANYTHING

from . import kernel
from .orders import CHANGED, READABLE, Orders

_INTERVAL = 0.25  # seconds; for what the kernel does not tell
_IDLE = 3600.0
_CLOSED = (-1, -1)  # where we may not look: the command may have seen to that
_EVENTS = 1 << 14  # bytes of them that are read at once: they only say that it is time to look

# What was mounted on a name in a root: its path, the open folder that it is in, its name there, and what is seen there since, by
# device and inode.
Kept = tuple[bytes, int, bytes, "tuple[int, int]"]


class Hints:
    """Descriptors by which the kernel tells that something may have happened."""

    def __init__(self) -> None:
        self._told_by: dict[int, int] = {}
        self._complete = True

    def open(self, path: bytes) -> int:
        """A file of /proc that tells of changes; -1 where it cannot be opened."""
        try:
            opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._complete = False
            return -1
        self._told_by[opened] = CHANGED
        return opened

    def watch(self, folders: "list[bytes]", events: int) -> None:
        """There may be too many watchers on the machine, and a folder may be closed to us."""
        try:
            watcher = kernel.folder_watcher()
        except OSError:
            self._complete = False
            return
        self._told_by[watcher] = READABLE
        for folder in folders:
            try:
                kernel.watch_folder(watcher, folder, events)
            except OSError:
                self._complete = False

    @property
    def complete(self) -> bool:
        return self._complete

    def wake(self, orders: Orders) -> None:
        for descriptor, event in self._told_by.items():
            orders.also(descriptor, event)

    def rest(self, orders: Orders) -> None:
        """Until `wake`, what happens in folders wakes nobody; it is not lost. A dropped mount still does."""
        for descriptor, event in self._told_by.items():
            if event == READABLE:
                orders.without(descriptor)

    def given(self, ready: "list[int]") -> bool:
        """Whether there was one among what is ready; it is taken."""
        told = [descriptor for descriptor in ready if descriptor in self._told_by]
        for descriptor in told:
            if self._told_by[descriptor] == READABLE:
                _drain(descriptor)
        return bool(told)


def _drain(descriptor: int) -> None:
    try:
        os.read(descriptor, _EVENTS)
    except BlockingIOError:
        pass


class NameWatch:
    """From outside: whether the same things stand at these paths as in the beginning. A placeholder is nothing."""

    def __init__(self, paths: "list[bytes]") -> None:
        self.hints = Hints()
        self.interval = _INTERVAL if paths else _IDLE  # always: a folder further up may be moved too
        if paths:  # before the first look, so that nothing happens between the two
            events = kernel.IN_MOVED_FROM | kernel.IN_MOVED_TO | kernel.IN_CREATE | kernel.IN_DELETE
            self.hints.watch(sorted({os.path.dirname(path) for path in paths}), events)
        self._before = {path: _identity(path) for path in paths}
        self._held = [each for each in map(_hold, paths) if each is not None]

    def exposed(self) -> "bytes | None":
        """A path at which something else stands now."""
        return next((path for path, before in self._before.items() if _identity(path) != before), None)


def _hold(path: bytes) -> "int | None":
    """An inode that somebody has open is not given to another file, which would then look like it."""
    try:
        return os.open(path, ANYTHING)
    except OSError:
        return None


def _identity(path: bytes) -> "tuple[int, int] | None":
    try:
        entry = os.lstat(path)
    except PermissionError:
        return _CLOSED
    except OSError:
        return None
    return None if is_marked(entry) and is_placeholder(path) else (entry.st_dev, entry.st_ino)


class MountWatch:
    """In a cell: whether everything is still there that was mounted on names in the roots. Nothing more can be mounted there.

    The kernel tells of a mount that it drops by the table of mounts, and of a name that is moved away by its folder. We do not
    ask for anything else that happens in those folders, so a command that works there seldom wakes us. A mount goes along with
    what it lies on, so there may be another one of ours now, which keeps the command from less.
    """

    def __init__(self, mounted: "list[Kept]") -> None:
        self._mounted = mounted
        self._numbers: dict[bytes, int] = {}  # of the mounts, from the first look on
        self._table = -1
        self.hints = Hints()
        if mounted:
            self._table = self.hints.open(b"/proc/self/mountinfo")
            folders = dict.fromkeys(folder for _, folder, _, _ in mounted)
            self.hints.watch([b"/proc/self/fd/%d" % folder for folder in folders], kernel.IN_MOVED_FROM)
        self.interval = _IDLE if self.hints.complete else _INTERVAL

    def exposed(self) -> "bytes | None":
        """A path on which there is not what was mounted there. At first that is told by what is seen there, then by its number."""
        points: dict[bytes, set[int]] | None = None
        for path, folder, name, shown in self._mounted:
            try:
                number, *identity = kernel.mount_on(folder, name)
                if path not in self._numbers and tuple(identity) == shown:
                    self._numbers[path] = number
                if number and number == self._numbers.get(path):
                    continue
            except PermissionError:  # the command may have closed the folder, and can open it again when it likes
                if points is None:
                    points = self._mount_points()
                there = points.get(path, set())
                if there and self._numbers.setdefault(path, max(there)) in there:
                    continue
            return path
        return None

    def _mount_points(self) -> "dict[bytes, set[int]]":
        """By the table of mounts, which nobody can close. Where there is no such table, everything counts as exposed."""
        if self._table < 0:
            return {}
        table = b""
        while block := os.pread(self._table, _EVENTS, len(table)):
            table += block
        found: dict[bytes, set[int]] = {}
        for line in table.splitlines():
            number, _, _, _, point, _ = line.split(b" ", 5)
            found.setdefault(unescaped(point), set()).add(int(number))
        return found
