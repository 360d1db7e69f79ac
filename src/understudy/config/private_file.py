"""A small JSON file of ours that nobody else may write: checked when read, written as a whole, by one process at a time."""

import fcntl
import json
import os
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import msgspec

from understudy.errors import ConfigError

OTHERS_WRITE, OTHERS_READ = 0o022, 0o044


@contextmanager
def written_beside(path: Path, text: str) -> Generator[Path]:
    """A temporary file with this text, which the caller renames to `path`. Otherwise it is removed. Raises `ConfigError`."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            yield beside
        finally:
            with suppress(OSError):
                os.unlink(beside)
    except OSError as error:  # on a full disk, the system's error names no file
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None


class PrivateFile(msgspec.Struct, frozen=True):
    path: Path
    secret: bool = False  # nobody else may read it either

    def read(self) -> dict[str, Any] | None:
        """None if there is none; content that is not a JSON object counts as empty."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(f"cannot read {self.path}: {error.strerror}") from None
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise ConfigError(f"cannot read {self.path}: it is no file; move it away")
        with os.fdopen(descriptor, "rb") as file:
            if status.st_uid != os.geteuid() or status.st_mode & OTHERS_WRITE:
                raise ConfigError(f"{self.path} could have been written by others. Expected a file of your own with mode 0600")
            if self.secret and status.st_mode & OTHERS_READ:
                raise ConfigError(f"{self.path} can be read by others: chmod 600 it, and better get new keys too")
            try:
                raw = file.read()
            except OSError as error:
                raise ConfigError(f"cannot read {self.path}: {error.strerror}") from None
        try:
            value = json.loads(raw)
        except ValueError:
            return {}
        return cast(dict[str, Any], value) if isinstance(value, dict) else {}

    def write(self, content: Mapping[str, Any]) -> None:
        """All or nothing; call it while `locked`. Raises `ConfigError`."""
        with written_beside(self.path, json.dumps(content, indent=2)) as beside:
            os.replace(beside, self.path)

    @contextmanager
    def locked(self) -> Generator[None]:
        """Lets one process write at a time. The lock ends with the process."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.path.with_name(self.path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
