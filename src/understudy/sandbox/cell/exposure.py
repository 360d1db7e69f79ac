"""Notices when another program removes what protects or hides a name in a writable root.

A mount covers the file behind a name, not the name. When programs outside replace or remove that file, the kernel drops the mount;
when they rename it, the mount moves along. Either way the command could use the name, so its watcher ends it.
"""

import os
import select

from understudy.places.file_systems import unescaped
from understudy.places.placeholders import is_marked, is_placeholder
from understudy.places.walking import ANYTHING

from . import kernel
from .orders import CHANGED, READABLE, Orders

_INTERVAL = 0.25  # seconds; for changes that the kernel does not report
_IDLE = 3600.0
_CLOSED = (-1, -1)  # stands for a place where we may not look: the command may have closed it
_EVENTS = 1 << 14  # bytes to read at once: events only say that it is time to look

# A mount on a name in a root: its path, the open folder with the name, the name, and the device and inode seen there since.
Kept = tuple[bytes, int, bytes, "tuple[int, int]"]


class Hints:
    """Descriptors by which the kernel signals that something may have happened."""

    def __init__(self) -> None:
        self._told_by: dict[int, int] = {}
        self._complete = True

    def open(self, path: bytes) -> int:
        """Open a file of /proc that signals changes; -1 if that fails."""
        try:
            opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._complete = False
            return -1
        self._told_by[opened] = CHANGED
        return opened

    def watch(self, folders: "list[bytes]", events: int) -> None:
        """May fail: there may be too many watchers on the machine, or a folder may be closed to us."""
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
        """Until `wake`, events in folders are kept but wake nobody. A dropped mount still does."""
        for descriptor, event in self._told_by.items():
            if event == READABLE:
                orders.without(descriptor)

    def pending(self) -> bool:
        """Whether one of these is ready now, or some cannot be had."""
        poll = select.poll()
        for descriptor, event in self._told_by.items():
            poll.register(descriptor, event)
        return not self._complete or (bool(self._told_by) and bool(poll.poll(0)))

    def given(self, ready: "list[int]") -> bool:
        """Whether one of these is ready; takes its events."""
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
    """For use outside a cell: whether these paths still lead to the same files as in the beginning. A placeholder counts as
    nothing, unless it is one of `covered`, which have to stay: device and inode, by path.
    """

    def __init__(self, paths: "list[bytes]", covered: "dict[bytes, tuple[int, int]] | None" = None) -> None:
        self._covered = dict(covered or {})
        self.hints = Hints()
        self.interval = _INTERVAL if paths else _IDLE  # always, because a folder further up may be moved, too
        if paths:  # watch before the first look, so that nothing falls between the two
            events = kernel.IN_MOVED_FROM | kernel.IN_MOVED_TO | kernel.IN_CREATE | kernel.IN_DELETE
            self.hints.watch(sorted({os.path.dirname(path) for path in paths}), events)
        self._before = {path: _identity(path) for path in paths if path not in self._covered}
        self._held = [each for each in map(_hold, paths) if each is not None]

    def exposed(self) -> "bytes | None":
        """A path that now leads to something else."""
        for path, before in self._before.items():
            if _identity(path) != before:
                return path
        return next((path for path, held in self._covered.items() if not _is_at(path, held)), None)


def _hold(path: bytes) -> "int | None":
    """Keep the file open, so that no other file can get the same inode and look like it."""
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


def _is_at(path: bytes, identity: "tuple[int, int]") -> bool:
    try:
        entry = os.lstat(path)
    except PermissionError:
        return True  # the command may have closed the folder, but the mount is still there
    except OSError:
        return False
    return (entry.st_dev, entry.st_ino) == identity


class MountWatch:
    """For use inside a cell: whether every mount on a name in the roots is still in place. Nothing new can be mounted there.

    The kernel signals a dropped mount by the table of mounts, and a name that was moved away by its folder. Other events in those
    folders are not watched, so a command that works there seldom wakes us. Since a mount moves along with what it covers, another
    of our mounts may be on the name now, which would protect less.
    """

    def __init__(self, mounted: "list[Kept]") -> None:
        self._mounted = mounted
        self._numbers: dict[bytes, int] = {}  # the id of each mount, from the first look on
        self._table = -1
        self.hints = Hints()
        if mounted:
            self._table = self.hints.open(b"/proc/self/mountinfo")
            folders = dict.fromkeys(folder for _, folder, _, _ in mounted)
            self.hints.watch([b"/proc/self/fd/%d" % folder for folder in folders], kernel.IN_MOVED_FROM)
        self.interval = _IDLE if self.hints.complete else _INTERVAL

    def exposed(self) -> "bytes | None":
        """A path without its mount. The first look compares device and inode, later ones the id of the mount."""
        points: dict[bytes, set[int]] | None = None
        for path, folder, name, shown in self._mounted:
            try:
                number, *identity = kernel.mount_on(folder, name)
                if path not in self._numbers and tuple(identity) == shown:
                    self._numbers[path] = number
                if number and number == self._numbers.get(path):
                    continue
            except PermissionError:  # the command may have closed the folder, and can open it again at any time
                if points is None:
                    points = self._mount_points()
                there = points.get(path, set())
                if there and self._numbers.setdefault(path, max(there)) in there:
                    continue
            return path
        return None

    def _mount_points(self) -> "dict[bytes, set[int]]":
        """Read the table of mounts, which the command cannot close. Without a table, everything counts as exposed."""
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
