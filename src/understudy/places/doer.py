"""Whose rights our process has in what it does for a model: those of whoever a command of that conversation would be.

A server of root runs contained commands as the workspace's owner, or, where that is root too, as root without a single power.
What it opens, makes, renames and deletes itself for a model is done by threads that have given up everything else, for good: there
is no way back that could be forgotten, and nothing else ever runs on them. They keep the server's own user in all but access to
files (the kernel's `fsuid`), so that nobody who has the doer's rights may reach into our memory. A server without powers has
nothing to give up, and pays nothing.
"""

import os
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

T = TypeVar("T")

MOST_THREADS = 64  # never reached: whoever asks waits, and is one of the few threads of the server
_SETGROUPS = {"x86_64": 116, "aarch64": 159}  # called by its number: the C library's own would change every thread
_STATUS = "/proc/self/status"
_REFUSED = "the server cannot take on the rights of the workspace's owner here, so it does nothing"

_this_thread = threading.local()


class Doer(NamedTuple):
    """A user, by number; `with_groups`: has the server's own groups too."""

    uid: int
    gid: int
    with_groups: bool = False

    def act(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises, with these rights.

        Raises PermissionError where they cannot be taken on: then nothing is done. Nothing may be imported in there, since our own
        code may be out of the doer's reach.
        """
        if getattr(_this_thread, "doer", None) == self:
            return work()
        return _threads_of(self).submit(_act, self, work).result()


def owner_of(workspace: str) -> tuple[int, int] | None:
    """Whose rights a command takes when the server is root: those of the workspace's owner, unless that is root too."""
    if os.geteuid() != 0:
        return None
    try:
        entry = os.stat(workspace)
    except OSError:
        return None  # the command itself will find no such folder
    if entry.st_uid == 0:
        return None
    import pwd  # few servers are root

    try:
        return entry.st_uid, pwd.getpwuid(entry.st_uid).pw_gid
    except KeyError:
        return entry.st_uid, entry.st_gid


def doer_in(workspace: str) -> Doer | None:
    """Who a contained command in the workspace would be; None: whoever we are."""
    if not has_powers():
        return None
    owner = owner_of(workspace)
    return Doer(os.geteuid(), os.getegid(), with_groups=True) if owner is None else Doer(*owner)


@cache
def has_powers() -> bool:
    """Whether we may do more than our user: as root, or by capabilities that a command does not keep."""
    if sys.platform != "linux":
        return False  # nobody else's rights are taken on there, by commands neither
    if os.geteuid() == 0:
        return True
    try:
        with open(_STATUS, encoding="ascii", errors="replace") as file:
            lines = dict(line.split(":", 1) for line in file if ":" in line)
        return int(lines["CapEff"], 16) != 0
    except (OSError, KeyError, ValueError):
        return False


@cache
def _threads_of(doer: Doer) -> "ThreadPoolExecutor":
    from concurrent.futures import ThreadPoolExecutor  # few servers are root

    _forbid_imports()
    return ThreadPoolExecutor(MOST_THREADS, thread_name_prefix=f"doer-{doer.uid}")


def _act(doer: Doer, work: Callable[[], T]) -> T:
    if getattr(_this_thread, "doer", None) is None:
        _become(doer)
        _this_thread.doer = doer
    return work()


def _become(doer: Doer) -> None:
    """This thread alone, for good. Raises PermissionError."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    number = _SETGROUPS.get(os.uname().machine)
    if not doer.with_groups and (number is None or libc.syscall(number, 0, None) != 0):
        raise PermissionError(1, _REFUSED)
    # These say who it was before, and tell no failure: so ask again.
    libc.setfsgid(ctypes.c_uint32(doer.gid))
    libc.setfsuid(ctypes.c_uint32(doer.uid))
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    given_up = libc.capset(ctypes.byref(header), ctypes.byref(none)) == 0
    nobody = ctypes.c_uint32(-1)
    now = libc.setfsuid(nobody) & 0xFFFFFFFF, libc.setfsgid(nobody) & 0xFFFFFFFF
    if not given_up or now != (doer.uid, doer.gid):
        raise PermissionError(1, _REFUSED)


class _NoImports:
    """The import system would remember for all threads what one of ours could not find."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> None:
        if getattr(_this_thread, "doer", None) is not None:
            raise ImportError(f"{fullname} is to be imported before the rights of a doer are taken on", name=fullname)


@cache
def _forbid_imports() -> None:
    import ctypes  # the first thing that such a thread needs
    import hashlib

    del ctypes, hashlib
    sys.meta_path.insert(0, _NoImports())
