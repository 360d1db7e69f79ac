"""Placeholders outside a cell: bubblewrap mounts something empty on each, so that a missing name cannot be made."""

import os

from . import kernel
from .placeholder import hold, remove_each

_ESTALE = 116


class Covered:
    """The placeholders of one command. `owner`: to whom they belong if we are root."""

    def __init__(self, paths: "list[bytes]", owner: "tuple[int, int] | None") -> None:
        """Raises OSError if a name is no longer missing."""
        self.shown: dict[bytes, tuple[int, int]] = {}  # device and inode of each placeholder, by path
        self._held: list[int] = []
        self._owner = owner
        try:
            for path in paths:
                self._hold(path)
        except BaseException:
            self.remove()
            raise

    @property
    def words(self) -> "list[bytes]":
        """For bubblewrap."""
        return [word for path in self.shown for word in (b"--tmpfs", path, b"--remount-ro", path)]

    def _hold(self, path: bytes) -> None:
        try:
            folder = kernel.open_plain(os.path.dirname(path))
        except OSError:
            return  # a root that is missing, or that the command cannot reach either
        try:
            held = hold(os.path.basename(path), folder)
        except OSError:  # a file, another user's folder or a read-only one: the command cannot make the name there either
            if os.path.lexists(path):
                raise
            return
        finally:
            os.close(folder)
        if held is None:
            raise OSError(_ESTALE, "another program made it just now", path)
        self._held.append(held)
        entry = os.fstat(held)
        if self._owner is not None and entry.st_uid == os.geteuid():
            os.fchown(held, *self._owner)
        self.shown[path] = (entry.st_dev, entry.st_ino)

    def remove(self) -> None:
        """Once the command is over. May be called again."""
        for descriptor in self._held:
            os.close(descriptor)
        self._held.clear()
        remove_each(list(self.shown))
        self.shown.clear()
