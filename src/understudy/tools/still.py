"""Holds still what a judged command stands on, while it runs outside the sandbox.

To look again just before the start is not enough: a command of another conversation, which may write in the same project, can
exchange a script in the moment after the look, or write to it while a shell still reads it. So whoever may change files for a
model (a contained command in its writable roots, a patch in the folders of its files) holds those folders together with others
of its kind, and a command that leaves the sandbox holds alone every folder in which its ground could be exchanged. Only where
the two meet does one wait for the other, for a while, and is refused after that.

The holds are locks on files of our state folder: they are dropped with the process, and all servers of one home see them.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

from understudy.errors import ToolError
from understudy.tools.ground import Identity

_LOOKS_AGAIN = 0.02  # seconds


class StandsInTheWay(ToolError):
    """Another command holds what this one needs."""


@asynccontextmanager
async def held(state: str, folders: Iterable[Identity], *, alone: bool, seconds: float, otherwise: str) -> AsyncGenerator[None]:
    """Raises `StandsInTheWay` with the words of `otherwise` where they cannot be had in time. No `state`: nothing is held."""
    wanted = sorted(set(folders)) if state else []
    deadline = asyncio.get_running_loop().time() + seconds
    while (locks := _take(state, wanted, alone)) is None:
        if asyncio.get_running_loop().time() > deadline:
            raise StandsInTheWay(otherwise)
        await asyncio.sleep(_LOOKS_AGAIN)
    try:
        yield
    finally:
        for lock in locks:
            os.close(lock)


def _take(state: str, folders: list[Identity], alone: bool) -> list[int] | None:
    """All of them or none."""
    locks: list[int] = []
    try:
        for device, inode in folders:
            locks.append(_open(os.path.join(state, "held"), f"{device}-{inode}"))
            fcntl.flock(locks[-1], (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError as error:
        for taken in locks:
            os.close(taken)
        if isinstance(error, BlockingIOError):
            return None
        if alone:
            raise ToolError(f"cannot keep what the command depends on from changing: {error.strerror}: {error.filename}") from None
        return []  # a full disk is no reason to run nothing in the sandbox
    return locks


def _open(folder: str, name: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(os.path.join(folder, name), flags, 0o600)
    except FileNotFoundError:
        os.makedirs(folder, 0o700, exist_ok=True)
        return os.open(os.path.join(folder, name), flags, 0o600)
