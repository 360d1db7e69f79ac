"""Checks that the files which a process has open are still the store: deleted or replaced files can be written to for ever.

Each commit is checked before it is made and before it is reported. A store that was gone stays unusable: SQLite would write its
knowledge of the old files over what others have written since, even while closing them.
"""

import os
import struct
import time
from collections.abc import Callable
from pathlib import Path

from understudy.errors import StoreError, StoreGone
from understudy.store.sqlite.wal import SharedMemory

_PAGES_IN_HEADER = struct.Struct(">I"), 28  # of the database: how many pages it has
_FRAMES_IN_INDEX = struct.Struct("=HI"), 14  # of the shared memory: the size of a page, and frames in the write-ahead log
_WAL_HEADER, _FRAME_HEADER = 32, 24
AWAY_SECONDS = 10.0  # how long the whole folder may be away before those who wait for changes by others are told that it is gone
_GROWING_SECONDS = 0.2  # within this time another process writes the pages that the header already counts


class StillThere:
    """Compares names and sizes: a truncated file still has its name."""

    def __init__(self, path: Path, target: Path | None = None, on_gone: Callable[[], None] = lambda: None) -> None:
        """`target`: the file that `path` leads to, if it is a link; the other files are beside that. `on_gone` is called once."""
        self._on_gone = on_gone
        self._folder = str(path.parent)
        beside = target or path
        self._database, self._wal, self._shm = self._names = (str(path), f"{beside}-wal", f"{beside}-shm")
        self._known: dict[str, tuple[int, int]] = {}
        self._sizes = dict.fromkeys(self._names, 0)
        self._away_since: float | None = None
        self._opened: dict[str, int] = {}  # never closed: that would free SQLite's locks on the same file
        self.memory = SharedMemory(Path(self._shm))
        self.gone: StoreGone | None = None  # final once set
        self.find_gone()

    def find_gone(self) -> StoreError | None:
        """Why the files must not be used any more, if so. Three system calls if all is well."""
        if self.gone is not None:
            return self.gone
        known = self._known
        for name in self._names:
            try:
                found = os.stat(name)
            except OSError:
                if name in known:
                    return self._lost(name, "was deleted or replaced")
                continue  # not made yet
            place = (found.st_dev, found.st_ino)
            if name not in known:
                known[name] = place
            elif known[name] != place:
                return self._lost(name, "was deleted or replaced")
            if found.st_size < self._sizes[name] and self._was_cut(name):
                return self._lost(name, "was cut short")
            self._sizes[name] = found.st_size
        self._away_since = None
        return None

    def check_readable(self) -> None:
        """Raises `StoreError` if the shared memory was truncated, because then SQLite's access to it would kill this process."""
        if self.gone is None:
            try:
                if os.stat(self._shm).st_size >= self._sizes[self._shm]:
                    return
            except OSError:
                return  # reading open files does no harm
            self.find_gone()
        if self.gone is not None:
            raise self.gone

    def note_cut(self) -> None:
        """Note that the write-ahead log lacks frames, although it is long enough."""
        self._lost(self._wal, "was cut short")

    def _lost(self, name: str, what: str) -> StoreError:
        told = (
            f"conversation store: {name} {what} while this server had it open, so that nothing is kept any more; restart the server"
        )
        if _place(self._folder) is None:  # the whole folder was moved, and may come back unchanged
            self._away_since = self._away_since or time.monotonic()
            if time.monotonic() - self._away_since < AWAY_SECONDS:
                return StoreError(told)
        self.gone = StoreGone(told)
        self._on_gone()
        return self.gone

    def _was_cut(self, name: str) -> bool:
        """Not where SQLite itself made it shorter: the database after a deletion, or the log for a program that asked for that."""
        give_up = time.monotonic() + _GROWING_SECONDS
        while True:
            try:
                size = os.stat(name).st_size  # once more: another thread may have seen it grow since
                if size >= self._sizes[name] or size >= self._needed(name):
                    return False
            except (OSError, struct.error):
                return True
            if name != self._database or time.monotonic() > give_up:
                return True
            time.sleep(0.01)

    def _needed(self, name: str) -> int:
        """The least size that the file must have, according to SQLite's own notes."""
        if name == self._shm:
            return self._sizes[name]  # never shortened while in use
        if name == self._database:
            head, at = _PAGES_IN_HEADER
            (pages,) = head.unpack(self._read(name, head.size, at))
            (page,) = struct.unpack(">H", self._read(name, 2, 16))
            return pages * (65536 if page == 1 else page)
        head, at = _FRAMES_IN_INDEX
        page, frames = head.unpack_from(self.memory.read(at + head.size), at)
        return _WAL_HEADER + frames * (_FRAME_HEADER + page) if frames else 0

    def _read(self, name: str, size: int, at: int) -> bytes:
        if name not in self._opened:
            self._opened[name] = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        return os.pread(self._opened[name], size, at)


def _place(name: str) -> tuple[int, int] | None:
    try:
        found = os.stat(name)
    except OSError:
        return None
    return found.st_dev, found.st_ino
