"""Reading a file that a key names. A caller can give such a key, and a pipe or a device would hold up everybody.

Where a model will be given its content, it is judged like everything that is read for one: such a file may lie in a repository.
"""

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from understudy.places.masks import Masks
from understudy.places.reading import NotForModels, ReadLimits, Unreadable, open_for_model


def read_named_file(path: Path, most: int, masked: Iterable[str] | None = None) -> bytes:
    """Raises OSError, also for what is no regular file or has more than so many bytes, and for what no model may be given:
    `masked` paths, where it is for a model.
    """
    descriptor = (
        os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC) if masked is None else _judged(path, masked)
    )
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


def _judged(path: Path, masked: Iterable[str]) -> int:
    try:
        return open_for_model(str(path), ReadLimits(Masks(masked), Unreadable()))
    except NotForModels as error:
        raise OSError(errno.EACCES, str(error)) from None
