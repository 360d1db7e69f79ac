"""Data that clients keep and send back unchanged: sealed with a key of this home. Ids that were ended early are remembered."""

import logging
import os
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from hmac import compare_digest
from hmac import digest as hmac_digest
from pathlib import Path

from understudy.config.tokens import read_private
from understudy.errors import ConfigError

_SEAL_BYTES = 16
_KEY_BYTES = 32


class IdSeal:
    """`purpose` prevents that data sealed for one use is accepted for another. `seal_bytes`: length of the seal."""

    def __init__(self, state_dir: Path, purpose: bytes, seal_bytes: int = _SEAL_BYTES) -> None:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._key = _read_key(state_dir / "serve.key")
        self._purpose = purpose
        self._seal_bytes = seal_bytes

    def close(self, body: bytes) -> str:
        return urlsafe_b64encode(self.close_bytes(body)).decode().rstrip("=")

    def close_bytes(self, body: bytes) -> bytes:
        return body + self._digest(body)

    def open(self, text: str) -> bytes | None:
        """None for text that we did not seal. Each has only one spelling."""
        try:
            raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            return None
        body = self.open_bytes(raw)
        return body if urlsafe_b64encode(raw).decode().rstrip("=") == text else None

    def open_bytes(self, raw: bytes) -> bytes | None:
        """None for data that we did not seal."""
        body, seal = raw[: -self._seal_bytes], raw[-self._seal_bytes :]
        return body if compare_digest(seal, self._digest(body)) else None

    def _digest(self, body: bytes) -> bytes:
        return hmac_digest(self._key, self._purpose + b"\0" + body, sha256)[: self._seal_bytes]


def _read_key(path: Path) -> bytes:
    """This home's key, made if there is none. Raises `ConfigError`."""
    if not os.path.lexists(path):
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(beside, path)  # another server may have been first
        os.unlink(beside)
    key = read_private(path)
    if len(key) < _KEY_BYTES:  # with a guessable key anyone could seal
        raise ConfigError(f"{path} does not hold a key of {_KEY_BYTES} bytes: remove the file, and a new one is made")
    return key


logger = logging.getLogger(__name__)


class EndedIds:
    """Ended names in hexadecimal digits, each with the second in which it was made."""

    def __init__(self, path: Path, lifetime_seconds: float) -> None:
        self._path = path
        self._lifetime = lifetime_seconds
        self._stamp: object = None
        self._ended: dict[str, int] = {}
        self.when_added: Callable[[str, int], None] | None = None  # tells servers with other folders
        self.reload()

    def __contains__(self, name: str) -> bool:
        return name in self._ended

    def add(self, name: str, created: int) -> None:
        """Ended from now on, even after a restart."""
        self._ended[name] = created
        if self.when_added is not None:
            self.when_added(name, created)
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.write(descriptor, f"{name} {created}\n".encode())
            finally:
                os.close(descriptor)
        except OSError as error:  # at least it has ended in this process
            logger.error("%s cannot be written, so what was ended comes back by a restart: %s", self._path, error)

    def learn(self, name: str, created: int) -> None:
        """A server with another folder has ended it."""
        self._ended[name] = created

    def reload(self) -> None:
        """Read what another server of this home has ended; to be called about every second."""
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
        """Also removes names that have expired anyway."""
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
            except OSError as error:  # the file is just longer than needed
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
