"""Ids of sessions that say themselves whose they are and what was negotiated, sealed with a key that outlives the process.

No official client recovers from a session that its server has forgotten, so a restart must not forget any. What was ended stays
ended: the ids are kept in a file for as long as they would be valid.
"""

import logging
import os
import secrets
import time
from pathlib import Path

import msgspec

from understudy.servers.mcp.handshake import Handshake
from understudy.servers.sealing import Seal

logger = logging.getLogger(__name__)

LIFETIME_SECONDS = 30 * 24 * 3600
LONGEST_NAME = 100
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
        self._seal = Seal(state_dir, b"mcp session")
        self._ended_path = state_dir / "ended_sessions"
        self._stamp: object = None
        self._ended: dict[str, int] = {}
        self.reload()

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
        return self._seal.close(_encode(sealed))

    def read(self, session_id: str) -> SealedSession | None:
        """None for what is not ours, is over, or is too old."""
        body = self._seal.open(session_id)
        try:
            session = None if body is None else _decode(body)
        except msgspec.MsgspecError:
            session = None
        if session is None:
            return None
        over = session.nonce.hex() in self._ended or not 0 <= time.time() - session.created + 60 < LIFETIME_SECONDS
        return None if over else session

    def end(self, session: SealedSession) -> None:
        """From now on, also after a restart."""
        self._ended[session.nonce.hex()] = session.created
        line = f"{session.nonce.hex()} {session.created}\n".encode()
        try:
            descriptor = os.open(self._ended_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.write(descriptor, line)
            finally:
                os.close(descriptor)
        except OSError as error:  # it is over here, at least
            logger.error("%s cannot be written, so a session that was ended comes back by a restart: %s", self._ended_path, error)

    def reload(self) -> None:
        """Know of what another server of this home has ended; to be called every second or so."""
        stamp = self._look()
        if stamp != self._stamp:
            self._ended |= self._read_ended()
            self._stamp = stamp

    def _look(self) -> object:
        try:
            status = os.stat(self._ended_path)
        except FileNotFoundError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

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
