"""Locks on single bytes of a file, each held by one process at a time.

The kernel drops a lock when its process dies, however it dies. Children do not inherit the descriptor, so none of them
keeps a conversation locked.
"""

import fcntl
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# Whether locks can belong to an open file rather than to the whole process.
HAS_OWNERS = hasattr(fcntl, "F_OFD_SETLK") and sys.platform == "linux" and sys.maxsize > 2**32


class Flock:
    """`struct flock`: on 64-bit Linux type, whence, start, length, pid; on macOS and the BSDs start, length, pid, type, whence."""

    def __init__(self, platform: str) -> None:
        self._type_first = platform == "linux"
        self._struct = struct.Struct("hhqqi4x" if self._type_first else "qqihh")

    def pack(self, kind: int, number: int) -> bytes:
        place = (kind, os.SEEK_SET, number, 1, 0) if self._type_first else (number, 1, 0, kind, os.SEEK_SET)
        return self._struct.pack(*place)

    def kind(self, answer: bytes) -> int:
        return int(self._struct.unpack(answer)[0 if self._type_first else 3])


_FLOCK = Flock(sys.platform)


def lock_shared(fd: int, number: int) -> None:
    """Take a shared lock. Raises OSError. Does nothing where locks belong to processes."""
    if HAS_OWNERS:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_RDLCK, number))


def is_locked(fd: int, number: int) -> bool:
    """Whether anyone else's open file has a lock of any kind on this byte. Only where locks belong to open files."""
    return _FLOCK.kind(fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _FLOCK.pack(fcntl.F_WRLCK, number))) != fcntl.F_UNLCK


def _others() -> Iterator[Path]:
    with suppress(OSError):
        for process in Path("/proc").iterdir():
            if process.name.isdecimal() and int(process.name) != os.getpid():
                yield process


def _has_lock(fdinfo: str, place: str, number: int) -> bool:
    """Look for a lock in lines like `lock:\t1: OFDLCK ADVISORY  WRITE -1 fd:00:1234 7 7`: kind, owner, file, first and last
    byte."""
    for line in fdinfo.splitlines():
        fields = line.split()
        if line.startswith("lock:") and len(fields) >= 9 and fields[6] == place and fields[7] == str(number):
            return True
    return False


class ByteLocks:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @property
    def is_there(self) -> bool:
        """False if the file was deleted or replaced: processes that open it now do not see our locks."""
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self.fd))
        except OSError:
            return False

    def try_lock(self, number: int) -> bool:
        try:
            if HAS_OWNERS:
                fcntl.fcntl(self.fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, number))
            else:
                fcntl.lockf(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def unlock(self, number: int) -> None:
        if self.fd < 0:
            return  # closing the file has freed all locks
        if HAS_OWNERS:
            fcntl.fcntl(self.fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, number))
        else:
            fcntl.lockf(self.fd, fcntl.LOCK_UN, 1, number)

    def locked_elsewhere(self, number: int) -> bool:
        """Whether another process (or another store in this one) holds the lock. Our own lock does not count and is not
        disturbed."""
        command = fcntl.F_OFD_GETLK if HAS_OWNERS else fcntl.F_GETLK
        answer = fcntl.fcntl(self.fd, command, _FLOCK.pack(fcntl.F_WRLCK, number))
        return _FLOCK.kind(answer) != fcntl.F_UNLCK

    def holder(self, number: int) -> int | None:
        """The process that holds the lock, if `/proc` shows it: it lists the locks of each file that our user's processes have
        open."""
        mine = os.fstat(self.fd)
        place = f"{os.major(mine.st_dev):02x}:{os.minor(mine.st_dev):02x}:{mine.st_ino}"
        for process in _others():
            with suppress(OSError):
                for file in (process / "fdinfo").iterdir():
                    if _has_lock(file.read_text(), place, number):
                        return int(process.name)
        return None

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
