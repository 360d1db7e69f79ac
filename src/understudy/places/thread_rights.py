"""Changes one thread's rights to files for a moment.

The kernel keeps rights for each thread, but Python can change only those of the whole process. Dropped capabilities stay
permitted, so getting them back cannot fail; if it does, the process ends itself. These calls keep the interpreter's lock, so that
no other thread wakes because of them.
"""

import ctypes
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager

_SETGROUPS = {"x86_64": 116, "aarch64": 159}  # called by number, because the C library's function would change every thread
_VERSION = 0x20080522

_Words = ctypes.c_uint32 * 6  # effective, permitted and inheritable, then the upper halves of each
_Capabilities = ctypes.Array[ctypes.c_uint32]

_libc = ctypes.PyDLL(None)
_header = (ctypes.c_uint32 * 2)(_VERSION, 0)
_nobody = ctypes.c_uint32(-1)


@contextmanager
def borrowed(uid: int, gid: int, *, keep_groups: bool) -> Generator[None]:
    """This thread gets that user's access to files, and no capability. Raises PermissionError if that fails."""
    own, user = _capabilities(), (os.geteuid(), os.getegid())
    same = user == (uid, gid)
    groups = None if keep_groups else os.getgroups()
    if groups is not None and not _set_groups(()):
        raise _refused()
    try:
        if not (same or _be(uid, gid)) or not _set_capabilities(_without_effect(own)):
            raise _refused()
        yield
    finally:  # the user first, because the kernel changes capabilities with it
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
    """These calls return the previous user and report no failure, so ask once more."""
    _libc.setfsgid(ctypes.c_uint32(gid))
    _libc.setfsuid(ctypes.c_uint32(uid))
    return (_libc.setfsuid(_nobody) & 0xFFFFFFFF, _libc.setfsgid(_nobody) & 0xFFFFFFFF) == (uid, gid)


def _set_groups(groups: Sequence[int]) -> bool:
    number = _SETGROUPS.get(os.uname().machine)
    return number is not None and _libc.syscall(number, len(groups), (ctypes.c_uint32 * len(groups))(*groups)) == 0
