"""Empty folders that stand where a protected name is missing, so that a mount can cover it.

A mount needs something to stand on. The folder is known by its mode, held by a shared lock for as long as a command
needs it, and removed by whoever finds nobody holding it. The kernel drops the locks of a killed process, so several
servers can share one, and what a crash left goes away with the next command there.
"""

import fcntl
import os

_MODE = 0o1700  # given by mkdir itself, so there is no moment without it; nobody sets the sticky bit on a private folder
_TIME = 1_000_000_007  # for file systems that keep no modes: the folder is said to be of 2001


def hold(path: bytes) -> int | None:
    """Create or join the placeholder at `path`. Returns the descriptor that holds it, None if something real is there."""
    for _ in range(100):
        try:
            os.mkdir(path, _MODE)
        except FileExistsError:
            pass
        else:
            if not is_placeholder(path):
                os.utime(path, (_TIME, _TIME))
        try:
            descriptor = _open(path)
        except FileNotFoundError:
            continue  # removed in between
        except OSError:
            return None
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if not _is_at(descriptor, path):
            os.close(descriptor)  # removed while we waited for the lock
            continue
        if not is_placeholder(path):
            os.close(descriptor)
            return None
        return descriptor
    raise OSError(11, f"cannot hold {path.decode(errors='backslashreplace')}")


def is_placeholder(path: bytes) -> bool:
    try:
        entry = os.lstat(path)
        marked = entry.st_mode == 0o040000 | _MODE or entry.st_mtime_ns == _TIME * 1_000_000_000
        return marked and entry.st_mode & 0o170000 == 0o040000 and not os.listdir(path)
    except OSError:
        return False


def remove(path: bytes) -> bool:
    """Remove the placeholder at `path`; False if it is in use or none."""
    if not is_placeholder(path):
        return False
    try:
        descriptor = _open(path)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_at(descriptor, path):
            return False
        os.rmdir(path)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


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


def _open(path: bytes) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _is_at(descriptor: int, path: bytes) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False
