"""Locks on folders, so that nobody replaces what a judged command depends on while it runs outside the sandbox.

Checking again just before the start is not enough: a command of another conversation that may write in the same project can
replace a script right after the check, or write to it while a shell still reads it. So whoever may change files for a model (a
contained command in its writable roots, a patch in the folders of its files) takes a shared lock on those folders, and a command
that leaves the sandbox takes an exclusive one on every folder in which something it depends on could be replaced. Where the two
meet, one waits for the other, for a while, and is refused after that.

The locks are on files of our state folder: they are dropped with the process, and all servers of one home see them.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

from understudy.errors import ToolError
from understudy.tools.acts.dependencies import Identity

_RETRY_SECONDS = 0.02


class FoldersBusy(ToolError):
    """Another command has locked what this one needs."""


@asynccontextmanager
async def locked(state: str, folders: Iterable[Identity], *, alone: bool, seconds: float, otherwise: str) -> AsyncGenerator[None]:
    """Raises `FoldersBusy` with the text of `otherwise` where they cannot be had in time. Without `state` nothing is locked."""
    wanted = sorted(set(folders)) if state else []
    deadline = asyncio.get_running_loop().time() + seconds
    while (locks := _take(state, wanted, alone)) is None:
        if asyncio.get_running_loop().time() > deadline:
            raise FoldersBusy(otherwise)
        await asyncio.sleep(_RETRY_SECONDS)
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
