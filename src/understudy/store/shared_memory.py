"""Reading the memory that SQLite shares between processes, as a file.

Whoever closes such a file frees all locks that its process has on it, those of SQLite too. So a process opens it once, and closes
it when none of its stores is open any more.
"""

import os
from pathlib import Path
from typing import NamedTuple


class _Opened(NamedTuple):
    descriptor: int
    users: set["SharedMemory"]


_opened: dict[tuple[int, int], _Opened] = {}  # by device and inode


class SharedMemory:
    """Opened at once, where it is there. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._place: tuple[int, int] | None = None
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return
        self._place = (found.st_dev, found.st_ino)
        if self._place not in _opened:
            _opened[self._place] = _Opened(os.open(path, os.O_RDONLY | os.O_CLOEXEC), set())
        _opened[self._place].users.add(self)

    def read(self, size: int) -> bytes:
        """From its beginning. Less where it is shorter, or was not there."""
        opened = _opened.get(self._place) if self._place is not None else None
        return b"" if opened is None else os.pread(opened.descriptor, size, 0)

    def close(self) -> None:
        place, self._place = self._place, None
        opened = _opened.get(place) if place is not None else None
        if place is None or opened is None:
            return
        opened.users.discard(self)
        if not opened.users:
            del _opened[place]
            os.close(opened.descriptor)
