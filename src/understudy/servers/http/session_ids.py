"""Ids of sessions that say themselves whose they are and what was negotiated, sealed with a key that outlives the process.

No official client recovers from a session that its server has forgotten, so a restart must not forget any. What was ended stays
ended: the ids are kept in a file for as long as they would be valid.
"""

import os
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from hmac import compare_digest
from hmac import digest as hmac_digest
from pathlib import Path

import msgspec

from understudy.servers.mcp.handshake import Handshake

LIFETIME_SECONDS = 30 * 24 * 3600
LONGEST_NAME = 100
_SEAL_BYTES = 16
_encode = msgspec.msgpack.Encoder().encode


class SealedSession(msgspec.Struct, frozen=True, array_like=True):
    nonce: bytes
    principal: str
    version: str
    can_be_asked: bool
    name: str
    name_version: str
    extended: bool
    created: int

    def handshake(self) -> Handshake:
        return Handshake(self.version, self.can_be_asked, self.name, self.name_version, extended=self.extended)


_decode = msgspec.msgpack.Decoder(SealedSession).decode


class SessionIds:
    def __init__(self, state_dir: Path) -> None:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._key = _read_key(state_dir / "serve.key")
        self._ended_path = state_dir / "ended_sessions"
        self._ended = self._read_ended()

    def make(self, principal: str, handshake: Handshake, version: str) -> str:
        sealed = SealedSession(
            secrets.token_bytes(12),
            principal,
            version,
            handshake.can_be_asked,
            handshake.name[:LONGEST_NAME],
            handshake.name_version[:LONGEST_NAME],
            handshake.extended,
            int(time.time()),
        )
        body = _encode(sealed)
        return urlsafe_b64encode(body + self._seal(body)).decode().rstrip("=")

    def read(self, session_id: str) -> SealedSession | None:
        """None for what is not ours, is over, or is too old."""
        try:
            raw = urlsafe_b64decode(session_id + "=" * (-len(session_id) % 4))
            body, seal = raw[:-_SEAL_BYTES], raw[-_SEAL_BYTES:]
            if not compare_digest(seal, self._seal(body)):
                return None
            session = _decode(body)
        except (ValueError, msgspec.MsgspecError):
            return None
        if urlsafe_b64encode(raw).decode().rstrip("=") != session_id:
            return None  # one spelling for one session
        over = session.nonce.hex() in self._ended or not 0 <= time.time() - session.created + 60 < LIFETIME_SECONDS
        return None if over else session

    def end(self, session: SealedSession) -> None:
        """From now on, also after a restart."""
        self._ended[session.nonce.hex()] = session.created
        line = f"{session.nonce.hex()} {session.created}\n".encode()
        descriptor = os.open(self._ended_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def _seal(self, body: bytes) -> bytes:
        return hmac_digest(self._key, b"mcp session\0" + body, sha256)[:_SEAL_BYTES]

    def _read_ended(self) -> dict[str, int]:
        """Also takes out what would not be valid any more."""
        try:
            lines = self._ended_path.read_text(encoding="ascii", errors="replace").splitlines()
        except FileNotFoundError:
            return {}
        found: dict[str, int] = {}
        for line in lines:
            nonce, _, created = line.partition(" ")
            if created.isdecimal() and time.time() - int(created) < LIFETIME_SECONDS:
                found[nonce] = int(created)
        if len(found) < len(lines) // 2:
            beside = self._ended_path.with_name(f".ended_sessions.{os.getpid()}")
            beside.write_text("".join(f"{nonce} {created}\n" for nonce, created in found.items()), encoding="ascii")
            os.replace(beside, self._ended_path)
        return found


def _read_key(path: Path) -> bytes:
    """The key of this home, made where there is none."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    if not os.path.lexists(path):
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(32))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(beside, path)
        except FileExistsError:
            pass  # another server was first
        os.unlink(beside)
    return path.read_bytes()
