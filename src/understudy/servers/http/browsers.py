"""Browsers that have logged in: their cookie, and which of their requests are accepted. A stranger's page can make a browser send
us requests with its cookie. So requests that change something must come from our own page, and requests of other pages are refused.

A browser's cookie is sealed, so that it survives a restart. It stands for one token and ends with it.
"""

import secrets
import time
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from understudy.config.serve import ServeSettings
from understudy.servers.http.answers import Refusal
from understudy.servers.http.asked import Asked
from understudy.servers.http.principals import Principal, Principals
from understudy.servers.sealing import EndedIds, IdSeal

LIFETIME_SECONDS = 30 * 24 * 3600
LONGEST = 1000  # characters of a cookie that are read
_encode = msgspec.msgpack.Encoder().encode


class Login(msgspec.Struct, frozen=True, array_like=True):
    nonce: bytes
    principal: str
    token: bytes  # digest of the hash of its token
    created: int
    end: int = 0  # end of the token; 0: the token does not say

    @property
    def name(self) -> str:
        return self.nonce.hex()


_decode = msgspec.msgpack.Decoder(Login).decode


class Logins:
    def __init__(self, state_dir: Path, principals: Principals) -> None:
        self._seal = IdSeal(state_dir, b"page cookie")
        self.ended = EndedIds(state_dir / "ended_logins", LIFETIME_SECONDS)
        self._principals = principals

    def make(self, principal: Principal, end: float | None) -> str:
        """`end`: of the token that they logged in with; the cookie does not outlive it."""
        login = Login(secrets.token_bytes(12), principal.name, digest_of(principal), int(time.time()), int(end or 0))
        return self._seal.close(_encode(login))

    def read(self, cookie: str) -> tuple[Login, Principal] | None:
        """The login and its present owner; None for a cookie that is not ours, has ended, or stands for an invalid token."""
        body = None if len(cookie) > LONGEST else self._seal.open(cookie)
        try:
            login = None if body is None else _decode(body)
        except msgspec.MsgspecError:
            login = None
        if login is None or login.name in self.ended or not -60 <= time.time() - login.created < LIFETIME_SECONDS:
            return None
        if login.end and login.end <= time.time():
            return None
        principal = self._principals.current(login.principal)
        if principal is None or not principal.token_hash or digest_of(principal) != login.token:
            return None
        return login, principal

    def end(self, login: Login) -> None:
        """Valid from now on, even after a restart."""
        self.ended.add(login.name, login.created)

    def reload(self) -> None:
        """Read what another server of this home has ended; to be called about every second."""
        self.ended.reload()


def digest_of(principal: Principal) -> bytes:
    return sha256(principal.token_hash.encode()).digest()[:16]


_READING = ("GET", "HEAD")
_OURS = (None, "same-origin", "none")  # `Sec-Fetch-Site` for our own page, and for an address that a person typed


class Visitor(msgspec.Struct, frozen=True):
    """Whom a request speaks for. `login`: set if they came with a browser's cookie, not with their own token."""

    principal: Principal
    login: Login | None = None


class Browsers:
    def __init__(self, settings: ServeSettings, principals: Principals) -> None:
        self.logins = Logins(settings.state_dir, principals)
        self._secure = settings.tls_cert is not None or (settings.public_url or "").startswith("https:")
        self._public = _origin_of(settings.public_url) if settings.public_url else None
        self._port = settings.port

    def note_port(self, port: int) -> None:
        self._port = port

    @property
    def _name(self) -> str:
        """Browsers do not separate cookies by port, so the port is in the name."""
        return f"{'__Host-' if self._secure else ''}understudy-{self._port}"

    # -- cookies

    def cookie_for(self, principal: Principal, end: float | None = None) -> bytes:
        seconds = LIFETIME_SECONDS if end is None else min(LIFETIME_SECONDS, max(1, int(end - time.time())))
        return self._cookie(self.logins.make(principal, end), seconds)

    def no_cookie(self) -> bytes:
        return self._cookie("", 0)

    def _cookie(self, value: str, seconds: int) -> bytes:
        secure = "; Secure" if self._secure else ""
        return f"{self._name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}".encode()

    def find(self, asked: Asked) -> Visitor | None:
        """The visitor by cookie; None without a valid cookie. Raises `Refusal` for a request from another page."""
        for pair in (asked.header(b"cookie") or "").split(";"):
            name, _, value = pair.strip().partition("=")
            if name == self._name and (found := self.logins.read(value)) is not None:
                self.check_page(asked)
                return Visitor(found[1], found[0])
        return None

    # -- origin of a request

    def check_page(self, asked: Asked) -> None:
        """Raises `Refusal` for a request from a page of another origin, including another port of this machine."""
        origin = asked.header(b"origin")
        if origin is None:
            allowed = asked.method in _READING and asked.header(b"sec-fetch-site") in _OURS
        else:
            allowed = self._is_ours(origin, asked.header(b"host") or "")
        if not allowed:
            raise Refusal(403, "only the server's own page may do this with a cookie; programs send a token")

    def check_site(self, asked: Asked) -> None:
        """If no token is needed: raises `Refusal` for a request from another site's page that does not name its origin."""
        if asked.header(b"sec-fetch-site") not in _OURS:
            self.check_page(asked)

    def _is_ours(self, origin: str, host: str) -> bool:
        origin = origin.lower()
        return origin == self._public or origin in (f"http://{host.lower()}", f"https://{host.lower()}")


def _origin_of(url: str) -> str:
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}[parts.scheme]
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else (parts.hostname or "")
    return f"{parts.scheme}://{host}" + ("" if parts.port in (None, default) else f":{parts.port}")
