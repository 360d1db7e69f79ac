"""Links that log a browser in: each works once, for a few minutes, at any server of this home.

A link's code is sealed with the home's key, so `understudy open` can make one without asking the server. Using a link creates a
file that only one process can create, so it works once even with several servers or after a restart.
"""

import os
import secrets
import time
from base64 import b32decode, b32encode
from binascii import Error
from pathlib import Path

import msgspec

from understudy.servers.sealing import IdSeal

LIFETIME_SECONDS = 10 * 60
_PURPOSE = b"page link"
_encode = msgspec.msgpack.Encoder().encode


class _Code(msgspec.Struct, frozen=True, array_like=True):
    nonce: bytes
    created: int


_decode = msgspec.msgpack.Decoder(_Code).decode


class Links:
    def __init__(self, state_dir: Path) -> None:
        self._seal = IdSeal(state_dir, _PURPOSE)
        self._used = state_dir / "used_links"

    def make(self) -> str:
        """A code of capital letters and digits, so that it can be read aloud or copied by hand."""
        sealed = self._seal.close_bytes(_encode(_Code(secrets.token_bytes(12), int(time.time()))))
        return b32encode(sealed).decode().rstrip("=")

    def use(self, code: str) -> str | None:
        """The code's name if it is valid, which it is only once. Raises `OSError` if the use cannot be written down; the code then
        stays unused.
        """
        body = None if len(code) > 200 else self._open(code)
        if body is None:
            return None
        try:
            found = _decode(body)
        except msgspec.MsgspecError:
            return None
        if not -60 <= time.time() - found.created < LIFETIME_SECONDS:
            return None
        self._used.mkdir(mode=0o700, exist_ok=True)
        self._forget_old()
        try:
            os.close(os.open(self._used / found.nonce.hex(), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return None
        return found.nonce.hex()

    def _open(self, code: str) -> bytes | None:
        try:
            sealed = b32decode(code + "=" * (-len(code) % 8))
        except (Error, ValueError):
            return None
        return self._seal.open_bytes(sealed)

    def _forget_old(self) -> None:
        """Forget links that are no longer valid anyway."""
        for entry in os.scandir(self._used):
            try:
                if time.time() - entry.stat().st_mtime > 2 * LIFETIME_SECONDS:
                    os.unlink(entry.path)
            except OSError:  # another server has already removed it
                continue
