"""The key that seals are made with, made once for a state folder."""

import os
from contextlib import suppress
from pathlib import Path


def make_key(path: Path, size: int) -> bytes:
    """Of several processes that make one at once, all get the same. Raises OSError."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(os.urandom(size))
            file.flush()
            os.fsync(file.fileno())  # what is sealed with it is on disk a moment later
        with suppress(FileExistsError):
            os.link(beside, path)  # unlike a rename, this does not replace the key that another process has just made
    finally:
        os.unlink(beside)
    return path.read_bytes()
