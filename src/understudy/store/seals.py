"""Seals of heads: with which record a conversation ended, in a form that only who has the key of the state folder can make.

A seal is the digest of the last record, its number (64 bits, little-endian), and the HMAC-SHA256 of a fixed word, the id of the
conversation and both of them. Without a key it is only the digest, which is the seal of nothing.
"""

import logging
import os
import struct
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

logger = logging.getLogger(__name__)

KEY_FILE = "audit.key"
KEY_SIZE = 32

_WORD = b"understudy head\0"
_number = struct.Struct("<q")
_HMAC_SIZE = 32
_END = _number.size + _HMAC_SIZE  # of a seal, behind the digest


class Seals:
    """Used by several threads. Without a key that can be read or made, nothing is sealed and no seal is good."""

    def __init__(self, state_dir: Path, key: Path | None = None) -> None:
        """`key`: where servers with folders of their own have one for all."""
        self._path = key or state_dir / KEY_FILE
        self._sign: Callable[[bytes], bytes] | None = None
        self.problem = ""  # why there is no key

    @property
    def path(self) -> Path:
        """Of the key."""
        return self._path

    @property
    def is_there(self) -> bool:
        return self._path.exists()

    def prepare(self) -> None:
        """Make the key, where there is none yet."""
        if self._sign is None:
            self._find_key(may_make=True)

    def make(self, conversation_id: str, last_seq: int, digest: bytes) -> bytes:
        sign = self._sign or self._find_key(may_make=True)
        if sign is None:
            return digest
        head = digest + _number.pack(last_seq)
        return head + sign(conversation_id.encode() + head)

    def holds(self, conversation_id: str, last_seq: int, digest: bytes, seal: bytes) -> bool:
        """Whether it is the seal of exactly this end."""
        return self.open(conversation_id, seal) == (last_seq, digest)

    def open(self, conversation_id: str, seal: bytes) -> tuple[int, bytes] | None:
        """The number and the digest that were sealed. None for what was not sealed with this key, for this conversation."""
        sign = self._sign or self._find_key(may_make=False)
        if sign is None or not isinstance(seal, bytes) or len(seal) <= _END:  # pyright: ignore[reportUnnecessaryIsInstance]  # damaged
            return None
        head, given = seal[:-_HMAC_SIZE], seal[-_HMAC_SIZE:]
        if given != sign(conversation_id.encode() + head):  # nobody can guess by its time: what is compared comes from our own file
            return None
        return _number.unpack(seal[-_END:-_HMAC_SIZE])[0], seal[:-_END]

    def _find_key(self, *, may_make: bool) -> Callable[[bytes], bytes] | None:
        if self.problem:  # told once
            return None
        try:
            key = self._path.read_bytes()
        except FileNotFoundError:
            if not may_make:
                return None
            try:
                key = _make_key(self._path, KEY_SIZE)
            except OSError as error:
                return self._do_without(f"cannot be made: {error.strerror}")
        except OSError as error:
            return self._do_without(f"cannot be read: {error.strerror}")
        if len(key) != KEY_SIZE:
            return self._do_without(
                f"does not hold {KEY_SIZE} bytes; put it back from a backup, or delete it to have a new one made"
            )
        self._sign = _signer(key)
        return self._sign

    def _do_without(self, why: str) -> None:
        self.problem = f"{self._path} {why}"
        logger.warning("conversations are not sealed: %s", self.problem)


def _signer(key: bytes) -> Callable[[bytes], bytes]:
    """HMAC-SHA256 of the fixed word and more. `hmac.digest` reads the key anew each time and takes more than twice as long."""
    padded = key.ljust(sha256().block_size, b"\0")
    inner = sha256(bytes(byte ^ 0x36 for byte in padded) + _WORD)
    outer = sha256(bytes(byte ^ 0x5C for byte in padded))

    def sign(said: bytes) -> bytes:
        within, around = inner.copy(), outer.copy()
        within.update(said)
        around.update(within.digest())
        return around.digest()

    return sign


def _make_key(path: Path, size: int) -> bytes:
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
