"""What is given to clients to keep, and to bring back unchanged: sealed with a key of this home, which outlives the process."""

import os
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
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
    """`purpose` keeps what was sealed for one thing from being taken for another. `seal_bytes`: how long the seal is."""

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
        """None for what was not sealed by us. There is one spelling of each."""
        try:
            raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            return None
        body = self.open_bytes(raw)
        return body if urlsafe_b64encode(raw).decode().rstrip("=") == text else None

    def open_bytes(self, raw: bytes) -> bytes | None:
        """None for what was not sealed by us."""
        body, seal = raw[: -self._seal_bytes], raw[-self._seal_bytes :]
        return body if compare_digest(seal, self._digest(body)) else None

    def _digest(self, body: bytes) -> bytes:
        return hmac_digest(self._key, self._purpose + b"\0" + body, sha256)[: self._seal_bytes]


def _read_key(path: Path) -> bytes:
    """The key of this home, made where there is none. Raises `ConfigError`."""
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
    if len(key) < _KEY_BYTES:  # with a key that can be guessed anyone could seal
        raise ConfigError(f"{path} does not hold a key of {_KEY_BYTES} bytes: remove the file, and a new one is made")
    return key
