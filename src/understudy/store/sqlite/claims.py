"""Claims on conversations: each is a locked byte of a file that all processes share."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from understudy.store.locks import ByteLocks
from understudy.store.log import NOWHERE, CanBeLost, Holder
from understudy.store.place import FolderTime


class SqliteClaim(CanBeLost):
    def __init__(self, claims: "Claims", number: int) -> None:
        self._claims = claims
        self._number = number
        self.position = NOWHERE
        self.empty_as_of: int | None = None  # the log's mark of when the inbox was empty; while the mark stays, the inbox is

    def release(self) -> None:
        self._claims.release(self._number, self)


class Claims:
    """`on_change` is called when names in the folder have changed."""

    def __init__(self, folder: Path, on_change: Callable[[], None]) -> None:
        self._path = folder / "locks"
        self._locks = ByteLocks(self._path)
        self._held: dict[int, SqliteClaim] = {}
        self._on_change = on_change
        self._folder = FolderTime(folder)
        self._settled: tuple[int, int, int] | None = None  # the folder's time when the file was last seen in it

    def take(self, number: int) -> SqliteClaim | Holder:
        self.look()
        if number in self._held:
            return Holder(os.getpid())
        if not self._locks.try_lock(number):
            return Holder()
        claim = self._held[number] = SqliteClaim(self, number)
        return claim

    def held(self, number: int) -> SqliteClaim | None:
        """Our own claim."""
        return self._held.get(number)

    def release(self, number: int, claim: SqliteClaim) -> None:
        if self._held.get(number) is claim:
            del self._held[number]
            self._locks.unlock(number)

    def is_held_elsewhere(self, number: int) -> bool:
        self.look()
        return self._locks.locked_elsewhere(number)

    def find_process(self, number: int) -> int | None:
        """The process that has the claim. Slow."""
        return self._locks.holder(number)

    def look(self) -> None:
        """Check that the file is still the one that others use. If it was deleted, our claims are renewed in a new one, or lost."""
        folder = self._folder.now()
        if folder is not None and folder == self._settled:
            return
        self._on_change()
        if not self._locks.is_there:
            with suppress(OSError):
                self._move_to(ByteLocks(self._path))
        self._settled = folder

    def _move_to(self, locks: ByteLocks) -> None:
        former, self._locks = self._locks, locks
        lost = [number for number in self._held if not locks.try_lock(number)]
        former.close()
        for number in lost:
            self._held.pop(number).lose()

    def close(self) -> None:
        self._locks.close()
