"""Whose rights a contained command has: never those of the machine's root.

A plain user's commands run as that user. Root in another user's workspace becomes that user. Root in a workspace of root keeps
access to its files, but is "nobody" in a user namespace of its own, without power over anything else.
"""

import os

from . import kernel

NOBODY = 65534


def write_maps(process: bytes, uid: "tuple[int, int]", gid: "tuple[int, int]", *, privileged: bool) -> None:
    """Write the id maps of `process` (a pid or "self"); each pair is (inside, outside)."""
    folder = b"/proc/" + process
    if not privileged:  # the kernel's condition for a map without privilege
        _write(folder + b"/setgroups", b"deny")
    _write(folder + b"/uid_map", b"%d %d 1" % uid)
    _write(folder + b"/gid_map", b"%d %d 1" % gid)


def become(uid: int, gid: int) -> None:
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _write(path: bytes, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, content)
    finally:
        os.close(descriptor)


def prefer_for_oom() -> None:
    """If memory runs out, let the kernel kill a command before the server."""
    try:
        _write(b"/proc/self/oom_score_adj", b"500")
    except OSError:
        pass


def hide_memory(hidden: bool) -> None:
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0 if hidden else 1)
