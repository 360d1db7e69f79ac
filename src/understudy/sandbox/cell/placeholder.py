"""Empty folders that stand where a protected name is missing, so that a mount can cover it.

A mount needs something to stand on. The folder is known by its mode, held by a shared lock for as long as a command
needs it, and removed by whoever finds nobody holding it. The kernel drops the locks of a killed process, so several
servers can share one, and what a crash left goes away with the next command there.
"""

import fcntl
import os

_MODE = 0o1700  # given by mkdir itself, so there is no moment without it; nobody sets the sticky bit on a private folder
_INHERITED = 0o2000  # the parent folder may hand down its group bit
_TIME = 1_000_000_007  # for file systems that keep no modes: the folder is said to be of 2001
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def hold(path: bytes) -> int | None:
    """Create or join the placeholder at `path`. Returns the descriptor that holds it, None if something real is there."""
    for _ in range(100):
        try:
            os.mkdir(path, _MODE)
            created = True
        except FileExistsError:
            created = False
        try:
            descriptor = os.open(path, _FLAGS)
        except FileNotFoundError:
            continue  # removed in between
        except OSError:
            return None
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        entry = os.fstat(descriptor)
        if not _is_at(entry, path):
            os.close(descriptor)  # removed while we waited for the lock
        elif _is_marked(entry) and (created or not os.listdir(path)):
            return descriptor
        elif created:
            os.utime(path, (_TIME, _TIME))
            return descriptor
        else:
            os.close(descriptor)
            return None
    raise OSError(11, f"cannot hold {path.decode(errors='backslashreplace')}")


def is_placeholder(path: bytes) -> bool:
    try:
        return _is_marked(os.lstat(path)) and not os.listdir(path)
    except OSError:
        return False


def _is_marked(entry: os.stat_result) -> bool:
    mode = entry.st_mode & ~_INHERITED
    return mode == 0o040000 | _MODE or (mode & 0o170000 == 0o040000 and entry.st_mtime_ns == _TIME * 1_000_000_000)


def _is_at(entry: os.stat_result, path: bytes) -> bool:
    try:
        return os.path.samestat(entry, os.lstat(path))
    except OSError:
        return False


def remove_all(roots: "list[bytes]", names: "list[bytes]") -> None:
    """Remove what commands with these roots and protected names may have left, as far as nobody uses it."""
    for name in names:
        for root in roots:
            path = root.rstrip(b"/")
            for part in os.path.relpath(name, root).split(b"/") if name.startswith(b"/") else name.split(b"/"):
                if part == b"..":
                    break
                path += b"/" + part
                remove(path)


def remove_each(paths: "list[bytes]") -> None:
    for path in paths:
        remove(path)


def remove(path: bytes) -> None:
    """Remove the placeholder at `path`, if it is one, is empty and nobody holds it."""
    try:
        if not _is_marked(os.lstat(path)):
            return
        descriptor = os.open(path, _FLAGS)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(os.fstat(descriptor), path):
            os.rmdir(path)
    except OSError:
        pass
    finally:
        os.close(descriptor)
