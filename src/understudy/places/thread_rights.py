"""The rights of one thread to files: put away for a moment, and taken back.

The kernel has them for each thread, and Python knows only those of the whole process. Capabilities that are put away stay
permitted, so taking them back cannot be refused; a process in which it is refused all the same is ended. These calls keep the
interpreter's lock, so that no other thread wakes for them.
"""

import ctypes
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager

_SETGROUPS = {"x86_64": 116, "aarch64": 159}  # called by its number: the C library's own would change every thread
_VERSION = 0x20080522

_Words = ctypes.c_uint32 * 6  # effective, permitted and inheritable, then the upper halves of them
_Capabilities = ctypes.Array[ctypes.c_uint32]

_libc = ctypes.PyDLL(None)
_header = (ctypes.c_uint32 * 2)(_VERSION, 0)
_nobody = ctypes.c_uint32(-1)


@contextmanager
def borrowed(uid: int, gid: int, *, keep_groups: bool) -> Generator[None]:
    """This thread has access to files as that user, and no capability. Raises PermissionError where that cannot be had."""
    own, user = _capabilities(), (os.geteuid(), os.getegid())
    same = user == (uid, gid)
    groups = None if keep_groups else os.getgroups()
    if groups is not None and not _set_groups(()):
        raise _refused()
    try:
        if not (same or _be(uid, gid)) or not _set_capabilities(_without_effect(own)):
            raise _refused()
        yield
    finally:  # the user first: the kernel changes capabilities along with it
        if not ((same or _be(*user)) and _set_capabilities(own) and (groups is None or _set_groups(groups))):
            os.abort()


def _refused() -> PermissionError:
    return PermissionError(1, "the server cannot take on the rights of the workspace's owner here, so it does nothing")


def _capabilities() -> _Capabilities:
    words = _Words()
    if _libc.capget(ctypes.byref(_header), ctypes.byref(words)) != 0:
        raise _refused()
    return words


def _without_effect(own: _Capabilities) -> _Capabilities:
    return _Words(0, own[1], own[2], 0, own[4], own[5])


def _set_capabilities(words: _Capabilities) -> bool:
    return _libc.capset(ctypes.byref(_header), ctypes.byref(words)) == 0


def _be(uid: int, gid: int) -> bool:
    """These calls say who it was before, and tell no failure: so ask again."""
    _libc.setfsgid(ctypes.c_uint32(gid))
    _libc.setfsuid(ctypes.c_uint32(uid))
    return (_libc.setfsuid(_nobody) & 0xFFFFFFFF, _libc.setfsgid(_nobody) & 0xFFFFFFFF) == (uid, gid)


def _set_groups(groups: Sequence[int]) -> bool:
    number = _SETGROUPS.get(os.uname().machine)
    return number is not None and _libc.syscall(number, len(groups), (ctypes.c_uint32 * len(groups))(*groups)) == 0
