"""Bytes of a file that one process at a time can hold: claims on conversations are such, by their number.

The kernel drops the lock when the process dies, however it dies. The descriptor is not inheritable, so no child
keeps a conversation locked.
"""

import fcntl
import os
import struct
from pathlib import Path

_FLOCK = "hhqqi4x"  # struct flock on 64-bit Linux: type, whence, start, length, pid
# locks that belong to an open file rather than to a process as a whole
HAS_OWNERS = hasattr(fcntl, "F_OFD_SETLK") and struct.calcsize(_FLOCK) == 32


class ByteLocks:
    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def try_lock(self, number: int) -> bool:
        try:
            if HAS_OWNERS:
                fcntl.fcntl(self.fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0))
            else:
                fcntl.lockf(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def unlock(self, number: int) -> None:
        if self.fd < 0:
            return  # closing has freed them all
        if HAS_OWNERS:
            fcntl.fcntl(self.fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_UNLCK, os.SEEK_SET, number, 1, 0))
        else:
            fcntl.lockf(self.fd, fcntl.LOCK_UN, 1, number)

    def locked_elsewhere(self, number: int) -> bool:
        """True when another process (or another store in this one) holds it. Does not disturb a lock of our own."""
        command = fcntl.F_OFD_GETLK if HAS_OWNERS else fcntl.F_GETLK
        answer = fcntl.fcntl(self.fd, command, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0))
        return struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK

    def close(self) -> None:
        os.close(self.fd)
        self.fd = -1
