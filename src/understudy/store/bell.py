"""Whether another process has written, without asking the database: a small file that all who have the store open share.

Each process has a cell in it, and changes that before and after every commit. Looking costs one call into the system, so it can
be done for every turn: its two looks take 2 µs, where asking the database takes 8. A conversation changes hands only by its
claim, and a cell changes before what is written under one: whoever takes a claim and finds the other cells as they were when it
held the claim last has missed nothing.

The file is read and written, not mapped: a mapping that somebody else cuts short would end the process.
"""

import itertools
import os
import time
from pathlib import Path

from understudy.store.locks import HAS_OWNERS, ByteLocks

CELL = 8
CELLS = 128
SHARED = CELLS - 1  # for those who find no cell free: they cannot tell their own changes from others'
MARK = CELL * CELLS  # where a random number stands, made anew by whoever finds the file cut short: what was in it is lost to all
SIZE = MARK + CELL
_NO_MARK = bytes(CELL)

_never_the_same = itertools.count()


class Bell:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._locks: ByteLocks | None = None
        self._former: list[ByteLocks] = []  # of files that are gone
        self._cell = SHARED
        self._open()

    def ring(self) -> None:
        """Something is written, or about to be."""
        locks = self._locks or self._open()
        if locks is not None:
            try:
                os.pwrite(locks.fd, time.monotonic_ns().to_bytes(CELL, "little"), self._cell * CELL)
            except OSError:
                self.close()  # a full disk, say: everything is taken for changed until it can be opened again

    def heard(self) -> bytes:
        """The same as before only if nobody else has rung meanwhile."""
        if self._locks is None or self._cell == SHARED:
            return _different()
        try:
            cells = os.pread(self._locks.fd, SIZE, 0)
            if len(cells) < SIZE or cells[MARK:] == _NO_MARK:
                _mark(self._locks.fd)
                return _different()
        except OSError:
            return _different()
        at = self._cell * CELL
        return cells[:at] + cells[at + CELL :]

    def close(self) -> None:
        for locks in (self._locks, *self._former):
            if locks is not None:
                locks.close()
        self._locks, self._cell = None, SHARED
        self._former.clear()

    def look_again(self) -> None:
        """Names in the folder have changed. Where this file was deleted or replaced, the next ring opens what others use."""
        if self._locks is not None and not self._locks.is_there:
            self._former.append(self._locks)  # not closed: the writer's thread may be about to write to it
            self._locks, self._cell = None, SHARED

    def _open(self) -> ByteLocks | None:
        """Where that is not possible, on a full disk say, everything is taken for changed, and the next ring tries again."""
        locks: ByteLocks | None = None
        try:
            locks = ByteLocks(self._path)
            if os.fstat(locks.fd).st_size < SIZE:
                _mark(locks.fd)
        except OSError:
            if locks is not None:
                locks.close()
            return None
        self._locks = locks
        free = range(SHARED) if HAS_OWNERS else ()
        self._cell = next((cell for cell in free if locks.try_lock(cell)), SHARED)
        return locks


def _mark(fd: int) -> None:
    os.pwrite(fd, os.urandom(CELL - 1) + b"\1", MARK)


def _different() -> bytes:
    return str(next(_never_the_same)).encode()
