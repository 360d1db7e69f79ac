"""Whether another process has written, without asking the database: a page of memory that all who have it open share.

Each process has a cell in it, and changes that before and after every commit. Looking costs no call into the system, so it can
be done for every turn. A conversation changes hands only by its claim, and a cell changes before what is written under one: whoever
takes a claim and finds the other cells as they were when it held the claim last has missed nothing.
"""

import itertools
import mmap
import os
import sys
import time
from pathlib import Path

from understudy.store.locks import HAS_OWNERS, ByteLocks

CELL = 8
CELLS = 128
SIZE = CELL * CELLS
SHARED = CELLS - 1  # for those who find no cell free: they cannot tell their own changes from others'

_never_the_same = itertools.count()


class Bell:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._page: mmap.mmap | None = None
        self._locks: ByteLocks | None = None
        self._cell = SHARED
        self._open()

    def ring(self) -> None:
        """Something is written, or about to be."""
        if self._page is None:
            self._open()
        if self._page is not None:
            at = self._cell * CELL
            self._page[at : at + CELL] = time.monotonic_ns().to_bytes(CELL, "little")

    def heard(self) -> bytes:
        """The same as before only if nobody else has rung meanwhile."""
        if self._page is None or self._cell == SHARED:
            return str(next(_never_the_same)).encode()
        at = self._cell * CELL
        return self._page[:at] + self._page[at + CELL :]

    def close(self) -> None:
        if self._page is not None:
            self._page.close()
            self._page = None
        if self._locks is not None:
            self._locks.close()
            self._locks = None

    def _open(self) -> None:
        """Where that is not possible, on a full disk say, everything is taken for changed, and the next ring tries again."""
        try:
            locks = self._locks = self._locks or ByteLocks(self._path)
            if os.fstat(locks.fd).st_size < SIZE:
                _lengthen(locks.fd)
            self._page = mmap.mmap(locks.fd, SIZE)
        except OSError:
            return
        free = range(SHARED) if HAS_OWNERS else ()
        self._cell = next((cell for cell in free if locks.try_lock(cell)), SHARED)


def _lengthen(fd: int) -> None:
    """Changes nothing that is there already."""
    if sys.platform == "linux":
        os.posix_fallocate(fd, 0, SIZE)  # not a hole: a page without room on the disk could not be written to
    else:
        os.ftruncate(fd, SIZE)
