"""Empty folders in place of missing protected names, so that a mount can cover them.

A mount has to cover something. A placeholder is recognized by its mode, held by a shared lock as long as a command needs it, and
removed by any process that finds nobody holding it. The kernel drops the locks of a killed process, so several servers can share a
placeholder, and the next command removes what a crash has left.
"""

import fcntl
import os
import time
from collections.abc import Callable

from understudy.places.placeholders import AS_FOLDER, MODE, TIME, is_marked
from understudy.places.walking import open_plain

_OWNERS = 0o300  # may write and pass
_LOOKS, _LOOKS_AGAIN = 100, 0.005  # seconds
_EAGAIN = 11


def hold(name: bytes, folder: int | None = None) -> int | None:
    """Create or share the placeholder of that name in the open folder (not needed for a path).

    Returns the descriptor that holds it, or None if something real is there.
    """
    for _ in range(100):
        try:
            _with_leave(folder, lambda: os.mkdir(name, MODE, dir_fd=folder))
            created = True
        except FileExistsError:
            created = False
        try:
            descriptor = os.open(name, AS_FOLDER, dir_fd=folder)
        except FileNotFoundError:
            continue  # removed in between
        except OSError:
            return None
        if not _lock(descriptor, fcntl.LOCK_SH):
            os.close(descriptor)
            return None  # we never hold a placeholder exclusively for so long
        entry = os.fstat(descriptor)
        if not _is_at(entry, name, folder):
            os.close(descriptor)  # removed while we waited for the lock
        elif is_marked(entry) and (created or not os.listdir(descriptor)):
            return descriptor
        elif created:
            os.utime(descriptor, (TIME, TIME))
            return descriptor
        else:
            os.close(descriptor)
            return None
    raise OSError(11, f"cannot hold {name.decode(errors='backslashreplace')}")


def _with_leave(folder: int | None, act: Callable[[], None]) -> None:
    """Change something in a folder that its owner has made read-only. A command of the same owner could do that, too."""
    try:
        act()
    except PermissionError:
        if folder is None:
            raise
        opened = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            if not _lock(opened, fcntl.LOCK_EX):  # another process may have changed the mode for a moment
                raise OSError(_EAGAIN, "a writable folder is kept locked by another program")
            entry = os.fstat(opened)
            if entry.st_uid != os.geteuid() or entry.st_mode & _OWNERS == _OWNERS:
                raise
            os.fchmod(opened, entry.st_mode & 0o7777 | _OWNERS)
            try:
                act()
            finally:
                os.fchmod(opened, entry.st_mode & 0o7777)
        finally:
            os.close(opened)


def _lock(descriptor: int, kind: int) -> bool:
    """Wait for a lock, but not for ever: any program may lock a folder that it can read."""
    for _ in range(_LOOKS):
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(_LOOKS_AGAIN)
    return False


def _is_at(entry: os.stat_result, name: bytes, folder: int | None) -> bool:
    try:
        return os.path.samestat(entry, os.stat(name, dir_fd=folder, follow_symlinks=False))
    except OSError:
        return False


def remove_all(roots: "list[bytes]", names: "list[bytes]") -> None:
    """Remove unused placeholders that commands with these roots and protected names may have left."""
    for name in names:
        for root in roots:
            path = root.rstrip(b"/")
            for part in os.path.relpath(name, root).split(b"/") if name.startswith(b"/") else name.split(b"/"):
                if part == b"..":
                    break
                path += b"/" + part
                remove(path)


def remove_each(paths: "list[bytes]", opening: "Callable[[bytes | str], int]" = open_plain) -> None:
    """Remove these, opening each folder only once. `opening`: a function like `open_plain`."""
    names: dict[bytes, list[bytes]] = {}
    for path in paths:
        names.setdefault(os.path.dirname(path), []).append(os.path.basename(path))
    for parent, inside in names.items():
        try:
            folder = opening(parent)
        except OSError:
            continue
        for name in inside:
            _remove_in(folder, name)
        os.close(folder)


def remove(path: bytes) -> None:
    """Remove the placeholder at `path`, if it is one, is empty and nobody holds it."""
    try:
        if is_marked(os.lstat(path)):
            remove_each([path])
    except OSError:
        pass


def _remove_in(folder: int, name: bytes) -> None:
    try:
        descriptor = os.open(name, AS_FOLDER, dir_fd=folder)
    except OSError:
        return
    try:
        entry = os.fstat(descriptor)
        if not is_marked(entry):
            return
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(entry, name, folder):
            _with_leave(folder, lambda: os.rmdir(name, dir_fd=folder))
    except OSError:
        pass
    finally:
        os.close(descriptor)
