"""From the header of a request to the caller it speaks for. Tokens are read again when their file changes."""

import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from hmac import compare_digest
from typing import Protocol, get_args

import msgspec

from understudy.config.serve import ServeSettings
from understudy.config.tokens import NamedToken, first_token, hash_of, read_tokens, tokens_file
from understudy.errors import ConfigError
from understudy.protocol.callers import LOCAL, Caller, Limits, PersonBudget, by_door
from understudy.protocol.choices import SandboxMode
from understudy.servers.http.answers import Refusal, Send
from understudy.servers.process.request_scope import note_caller

logger = logging.getLogger(__name__)

MOST_FOUND = 1000
DOOR = "mcp-http"  # the other doors of a server name their own
_AT_DOOR = by_door(LOCAL, DOOR)
_AT_OPEN_DOOR = msgspec.structs.replace(_AT_DOOR, limits=Limits(None, frozenset(get_args(SandboxMode)), open_door=True))


class Principal(msgspec.Struct, frozen=True):
    """A caller, and the token that they came with."""

    caller: Caller
    token_hash: str = ""  # hash of their token: an earlier owner of the same name had another token
    issued: bool = False  # an issuer signed their token, and may sign one with more scopes

    @property
    def name(self) -> str:
        return self.caller.name

    def has_all_of(self, other: "Principal") -> bool:
        """Whether this principal may do everything that the other one may."""
        mine, theirs = self.caller, other.caller
        return self is other or (mine.rights >= theirs.rights and mine.others >= theirs.others and mine.limits == theirs.limits)


class SignedTokens(Protocol):
    """The meaning of tokens that an issuer has signed."""

    address: str  # our address, which the tokens are for

    def looks_like_one(self, token: str) -> bool: ...

    async def learn(self, token: str) -> None:
        """Fetch the issuer's keys that the token needs, so that `find` knows it."""
        ...

    def find(self, token: str, taken: frozenset[str]) -> Principal | None:
        """None if the token is invalid. `taken`: names that the issuer may not use."""
        ...

    def end_of(self, token: str) -> float | None: ...

    def current(self, name: str) -> Principal | None: ...

    def expired(self) -> frozenset[str]: ...

    def forget_expired(self) -> None: ...

    def challenge(self, error: str = "") -> bytes: ...

    def challenge_for(self, caller: Caller, *needed: str) -> bytes: ...

    def serves(self, path: str) -> bool: ...

    async def show_metadata(self, method: str, send: Send) -> None: ...


def _principal_of(token: NamedToken) -> Principal:
    limits = Limits(token.roots, frozenset(token.sandbox), token.budgets)
    return Principal(Caller(token.name, frozenset(token.rights), frozenset(token.others), DOOR, limits), token.hash)


class Principals:
    """Everybody who has a token. If the file becomes unreadable, only the local user remains."""

    def __init__(self, settings: ServeSettings) -> None:
        """Makes the first token if there is none. Raises `ConfigError`."""
        self._open = settings.no_auth
        self._first_path = settings.token_file
        self._named_path = tokens_file(settings.state_dir)
        self._stamps: tuple[object, object] = None, None
        self._first_hash = ""
        self._expired: frozenset[str] = frozenset()
        self._named: tuple[NamedToken, ...] = ()
        self._found: dict[str, Principal] = {}  # by the whole header, until the files change; only tokens that do not expire
        self.when_changed: Callable[[], None] | None = None
        self.issuer: SignedTokens | None = None  # the issuer whose signed tokens are also accepted
        if not self._open:
            self._stamps = self._look()
            self._first_hash = hash_of(first_token(self._first_path))
            self._named = read_tokens(self._named_path)
            self._expired = self._expired_now()

    @property
    def _local(self) -> Principal:
        return Principal(_AT_OPEN_DOOR if self._open else _AT_DOOR, self._first_hash)

    @property
    def are_open(self) -> bool:
        """Whether no token is needed."""
        return self._open

    def budgets_of(self, name: str) -> tuple[PersonBudget, ...]:
        """The budgets of the present owner of a token of this name."""
        return next((named.budgets for named in self._named if named.name == name), ())

    async def learn(self, authorization: str | None) -> None:
        """Called before `find`: fetch what is needed to know whose token it is."""
        token = _token_in(authorization)
        if self.issuer is not None and self.issuer.looks_like_one(token):
            await self.issuer.learn(token)

    def find(self, authorization: str | None) -> Principal | None:
        """Whose token it is; None if nobody's. It takes the same time whether the token is nearly right or not.

        Raises `Refusal` for a valid token without any rights.
        """
        if self._open:
            return self._local
        if authorization is not None and (known := self._found.get(authorization)) is not None:
            note_caller(known.caller.name)
            return known
        token = _token_in(authorization)
        if self.issuer is not None and self.issuer.looks_like_one(token):
            if (signed := self.issuer.find(token, frozenset(named.name for named in self._named))) is not None:
                note_caller(signed.name)
            return signed
        if not token or len(token) > 512:
            return None
        hashed = hash_of(token)
        found = self._local if compare_digest(hashed, self._first_hash) else None
        expires = False
        for named in self._named:
            if compare_digest(hashed, named.hash):
                found = _principal_of(named)
                expires = named.expires is not None
                if named.has_expired(datetime.now(UTC)):
                    found = None
        if found is not None:
            note_caller(found.name)
            if authorization is not None and not expires and len(self._found) < MOST_FOUND:
                self._found[authorization] = found
        return found

    def knows(self, authorization: str | None) -> bool:
        """Whether `find` would find somebody without asking an issuer."""
        try:
            found = self.find(authorization)
        except Refusal:
            return False
        return found is not None and not found.issued

    def end_of(self, authorization: str) -> float | None:
        """When a signed token expires. None for our own tokens, whose end is looked up each time."""
        return None if self.issuer is None else self.issuer.end_of(_token_in(authorization))

    def current(self, name: str) -> Principal | None:
        """The principal's present state; None if their token is gone."""
        if name == LOCAL.name:
            return self._local
        named = next((token for token in self._named if token.name == name), None)
        if named is None and self.issuer is not None:
            return self.issuer.current(name)
        return None if named is None or named.has_expired(datetime.now(UTC)) else _principal_of(named)

    def is_gone(self, name: str) -> bool:
        """Whether nobody of that name has a valid token. Never true for an issuer's names, whose tokens are renewed again and
        again.
        """
        return self.issuer is None and self.current(name) is None

    def reload(self) -> None:
        """Check whether a file has changed or a token has expired; to be called about every second."""
        if self._open:
            return
        stamps = self._look()
        expired = self._expired_now()
        if stamps == self._stamps and expired == self._expired:
            return
        self._stamps, self._expired = stamps, expired
        self._found.clear()
        try:
            self._first_hash = hash_of(first_token(self._first_path))
        except (ConfigError, OSError) as error:
            logger.error("the first token is not accepted any more: %s", error)
            self._first_hash = ""
        try:
            self._named = read_tokens(self._named_path)
        except ConfigError as error:
            logger.error("no named token is accepted any more: %s", error)
            self._named = ()
        if self.when_changed is not None:
            self.when_changed()
        if self.issuer is not None:
            self.issuer.forget_expired()

    def challenge(self, authorization: str | None) -> bytes:
        """Tells a request without a valid token how to get one."""
        if self.issuer is None:
            return b'Bearer realm="understudy"'
        return self.issuer.challenge("invalid_token" if authorization else "")

    def _expired_now(self) -> frozenset[str]:
        now = datetime.now(UTC)
        signed = frozenset[str]() if self.issuer is None else self.issuer.expired()
        return signed | {token.name for token in self._named if token.has_expired(now)}

    def _look(self) -> tuple[object, object]:
        return _stamp(self._first_path), _stamp(self._named_path)


def _token_in(authorization: str | None) -> str:
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _stamp(path: "os.PathLike[str]") -> object:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode
