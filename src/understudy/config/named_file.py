"""Reads a file that a key names. A caller can choose the name, and a pipe or a device would block everybody.

If a model will get the content, the file is checked like all that is read for one, because it may be in a repository.
"""

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from understudy.places.masks import Masks
from understudy.places.reading import NotForModels, ReadLimits, Unreadable, open_for_model


def read_named_file(path: Path, most: int, masked: Iterable[str] | None = None) -> bytes:
    """Raises OSError, also if it is not a regular file, is longer than `most` bytes, or must not be given to a model: with
    `masked`, it is read for a model.
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
