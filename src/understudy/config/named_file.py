"""Reading a file that a key names. A caller can give such a key, and a pipe or a device would hold up everybody."""

import errno
import os
from pathlib import Path
from stat import S_ISDIR, S_ISREG


def read_named_file(path: Path, most: int) -> bytes:
    """Raises OSError, also for what is no regular file or has more than so many bytes."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(most + 1)
    finally:
        os.close(descriptor)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most >> 20} MB")
    return data
