"""Which file systems are on this machine, according to the kernel's table of mounts.

Reading from others may mean waiting for a network, and the kernel does not report changes that other machines make. Imports
little, because the sandbox's helper also loads this.
"""

import os
import select

_TABLE = b"/proc/self/mountinfo"
_BLOCK = 1 << 16
# All others count as remote; if that is wrong, it only costs time.
_LOCAL = frozenset(b"bcachefs btrfs ext2 ext3 ext4 f2fs overlay ramfs rootfs squashfs tmpfs xfs zfs".split())


class FileSystems:
    """The table, read again whenever it has changed. If there is no table, everything counts as remote."""

    def __init__(self) -> None:
        try:
            self.table = os.open(_TABLE, os.O_RDONLY | os.O_CLOEXEC)  # signals `POLLPRI` when something was mounted or unmounted
        except OSError:
            self.table = -1
        self._poll = select.poll()
        if self.table >= 0:
            self._poll.register(self.table, select.POLLPRI)
        self._kinds: dict[bytes, bytes] | None = None

    def have_changed(self) -> bool:
        """Whether anything was mounted or unmounted since this was last reported, here or to someone who polls `table`."""
        changed = bool(self.table >= 0 and self._poll.poll(0))
        if changed:
            self.forget()
        return changed

    def forget(self) -> None:
        """Someone who polls `table` has learned that it changed."""
        self._kinds = None

    def is_local(self, path: bytes) -> bool:
        """Whether the file system of a real, absolute path is local."""
        kinds = self._current()
        while path not in kinds:
            if path in (b"/", b""):
                return False
            path = os.path.dirname(path)
        return kinds[path] in _LOCAL

    def is_local_all_along(self, path: bytes) -> bool:
        """Whether those of all folders above are, too."""
        kinds = self._current()
        while path not in (b"/", b""):
            if path in kinds and kinds[path] not in _LOCAL:
                return False
            path = os.path.dirname(path)
        return kinds.get(b"/") in _LOCAL

    def _current(self) -> "dict[bytes, bytes]":
        self.have_changed()
        if self._kinds is None:
            self._kinds = self._read()
        return self._kinds

    def _read(self) -> "dict[bytes, bytes]":
        """The kind of file system mounted at each path; if several are, the topmost."""
        if self.table < 0:
            return {}
        table = b""
        while block := os.pread(self.table, _BLOCK, len(table)):
            table += block
        kinds: dict[bytes, bytes] = {}
        for line in table.splitlines():
            place, _, source = line.partition(b" - ")
            kinds[unescaped(place.split(b" ", 5)[4])] = source.partition(b" ")[0]
        return kinds

    def close(self) -> None:
        if self.table >= 0:
            os.close(self.table)
            self.table = -1


def unescaped(path: bytes) -> bytes:
    """Decode the table's octal codes for blanks, line ends and backslashes."""
    first, *others = path.split(b"\\")
    return first + b"".join([bytes((int(other[:3], 8),)) + other[3:] for other in others])
