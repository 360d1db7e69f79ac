"""Which of the sealed things that clients hold were ended before their time: kept in a file for as long as they would be valid."""

import logging
import os
import time
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)


class EndedIds:
    """Names in hexadecimal digits, each with the second in which it was made."""

    def __init__(self, path: Path, lifetime_seconds: float) -> None:
        self._path = path
        self._lifetime = lifetime_seconds
        self._stamp: object = None
        self._ended: dict[str, int] = {}
        self.reload()

    def __contains__(self, name: str) -> bool:
        return name in self._ended

    def add(self, name: str, created: int) -> None:
        """From now on, also after a restart."""
        self._ended[name] = created
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.write(descriptor, f"{name} {created}\n".encode())
            finally:
                os.close(descriptor)
        except OSError as error:  # it is over here, at least
            logger.error("%s cannot be written, so what was ended comes back by a restart: %s", self._path, error)

    def reload(self) -> None:
        """Know of what another server of this home has ended; to be called every second or so."""
        stamp = self._look()
        if stamp != self._stamp:
            self._ended |= self._read()
            self._stamp = stamp

    def _look(self) -> object:
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _read(self) -> dict[str, int]:
        """Also takes out what would not be valid any more."""
        try:
            lines = self._path.read_text(encoding="ascii", errors="replace").splitlines()
        except FileNotFoundError:
            return {}
        found: dict[str, int] = {}
        for line in lines:
            name, _, created = line.partition(" ")
            if created.isdecimal() and time.time() - int(created) < self._lifetime:
                found[name] = int(created)
        if len(found) < len(lines) // 2:
            try:
                self._write_anew(found)
            except OSError as error:  # it is only longer than it need be
                logger.info("%s was not written anew: %s", self._path, error)
        return found

    def _write_anew(self, names: dict[str, int]) -> None:
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            beside.write_text("".join(f"{name} {created}\n" for name, created in names.items()), encoding="ascii")
            os.replace(beside, self._path)
        except OSError:
            with suppress(OSError):
                beside.unlink()
            raise
