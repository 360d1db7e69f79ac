"""The lock of a host, in its state folder: whoever takes it knows that the earlier process of this host has ended.

The kernel frees it with its process. The file has an id by which the database knows the folder, so that it notices when two
machines have the same host name by mistake.
"""

import fcntl
import os
from pathlib import Path
from uuid import UUID, uuid4

NAME = "host.lock"


class HostLock:
    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self) -> UUID | None:
        """The id of the folder; None while another process has it."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return None
        written = os.pread(self._descriptor, 64, 0)
        try:
            return UUID(written.decode("ascii"))
        except ValueError:
            made = uuid4()
            os.pwrite(self._descriptor, str(made).encode(), 0)
            os.ftruncate(self._descriptor, len(str(made)))
            os.fsync(self._descriptor)
            return made

    def close(self) -> None:
        os.close(self._descriptor)
