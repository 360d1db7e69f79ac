"""The cookie of a browser that has logged in: sealed, so that it survives a restart; it stands for one token and ends with it."""

import secrets
import time
from hashlib import sha256
from pathlib import Path

import msgspec

from understudy.servers.ended_ids import EndedIds
from understudy.servers.http.principals import Principal, Principals
from understudy.servers.sealing import IdSeal

LIFETIME_SECONDS = 30 * 24 * 3600
LONGEST = 1000  # characters of a cookie that are looked at
_encode = msgspec.msgpack.Encoder().encode


class Login(msgspec.Struct, frozen=True, array_like=True):
    nonce: bytes
    principal: str
    token: bytes  # digest of the hash of the token that it stands for
    created: int
    end: int = 0  # of the token itself, where it says so; 0: it does not

    @property
    def name(self) -> str:
        return self.nonce.hex()


_decode = msgspec.msgpack.Decoder(Login).decode


class Logins:
    def __init__(self, state_dir: Path, principals: Principals) -> None:
        self._seal = IdSeal(state_dir, b"page cookie")
        self._ended = EndedIds(state_dir / "ended_logins", LIFETIME_SECONDS)
        self._principals = principals

    def make(self, principal: Principal, end: float | None) -> str:
        """`end`: of the token that they came with, which a cookie does not outlive."""
        login = Login(secrets.token_bytes(12), principal.name, _digest(principal), int(time.time()), int(end or 0))
        return self._seal.close(_encode(login))

    def read(self, cookie: str) -> tuple[Login, Principal] | None:
        """Whose it is now; None for what is not ours, is over, or stands for a token that is not valid any more."""
        body = None if len(cookie) > LONGEST else self._seal.open(cookie)
        try:
            login = None if body is None else _decode(body)
        except msgspec.MsgspecError:
            login = None
        if login is None or login.name in self._ended or not -60 <= time.time() - login.created < LIFETIME_SECONDS:
            return None
        if login.end and login.end <= time.time():
            return None
        principal = self._principals.current(login.principal)
        if principal is None or not principal.token_hash or _digest(principal) != login.token:
            return None
        return login, principal

    def end(self, login: Login) -> None:
        """From now on, also after a restart."""
        self._ended.add(login.name, login.created)

    def reload(self) -> None:
        """Know of what another server of this home has ended; to be called every second or so."""
        self._ended.reload()


def _digest(principal: Principal) -> bytes:
    return sha256(principal.token_hash.encode()).digest()[:16]
