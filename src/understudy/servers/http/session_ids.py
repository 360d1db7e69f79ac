"""Ids of sessions that say themselves whose they are and what was negotiated, sealed with a key that outlives the process.

No official client recovers from a session that its server has forgotten, so a restart must not forget any. What was ended stays
ended: the ids are kept in a file for as long as they would be valid.
"""

import secrets
import time
from pathlib import Path

import msgspec

from understudy.servers.ended_ids import EndedIds
from understudy.servers.mcp.handshake import Handshake
from understudy.servers.sealing import IdSeal

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
        self._seal = IdSeal(state_dir, b"mcp session")
        self._ended = EndedIds(state_dir / "ended_sessions", LIFETIME_SECONDS)

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
        return None if session is None or self.is_over(session) else session

    def is_over(self, session: SealedSession) -> bool:
        """It was ended, or is too old. One from the future is ours as well: the clock was set back."""
        return session.nonce.hex() in self._ended or time.time() - session.created >= LIFETIME_SECONDS

    def end(self, session: SealedSession) -> None:
        """From now on, also after a restart."""
        self._ended.add(session.nonce.hex(), session.created)

    def reload(self) -> None:
        """Know of what another server of this home has ended; to be called every second or so."""
        self._ended.reload()
