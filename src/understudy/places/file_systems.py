"""Which file systems answer from this machine, as far as the kernel's table of mounts tells.

Others may let whoever reads wait for a network, and do not tell of changes that are made elsewhere. Lean: the sandbox's helper
process loads this too.
"""

import os
import select

_TABLE = b"/proc/self/mountinfo"
_BLOCK = 1 << 16
# What is not named here counts as remote: that costs time, and nothing else.
_LOCAL = frozenset(b"bcachefs btrfs ext2 ext3 ext4 f2fs overlay ramfs rootfs squashfs tmpfs xfs zfs".split())


class FileSystems:
    """The table, read again when it has changed. Where there is none, everything counts as remote."""

    def __init__(self) -> None:
        try:
            self.table = os.open(_TABLE, os.O_RDONLY | os.O_CLOEXEC)  # `POLLPRI` there: something was mounted or unmounted
        except OSError:
            self.table = -1
        self._poll = select.poll()
        if self.table >= 0:
            self._poll.register(self.table, select.POLLPRI)
        self._kinds: dict[bytes, bytes] | None = None

    def have_changed(self) -> bool:
        """Whether anything was mounted or unmounted since somebody was told so, here or by waiting for `table`."""
        changed = bool(self.table >= 0 and self._poll.poll(0))
        if changed:
            self.forget()
        return changed

    def forget(self) -> None:
        """They have changed, as somebody was told who waited for `table`."""
        self._kinds = None

    def is_local(self, path: bytes) -> bool:
        """Of what stands at a real, absolute path."""
        kinds = self._current()
        while path not in kinds:
            if path in (b"/", b""):
                return False
            path = os.path.dirname(path)
        return kinds[path] in _LOCAL

    def is_local_all_along(self, path: bytes) -> bool:
        """Also of everything on the way to it."""
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
        """The kind of file system by the path where it is mounted; of several on one path, that of the uppermost."""
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
    """Blanks, line ends and backslashes are written in octal there."""
    first, *others = path.split(b"\\")
    return first + b"".join([bytes((int(other[:3], 8),)) + other[3:] for other in others])
