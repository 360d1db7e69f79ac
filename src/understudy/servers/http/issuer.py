"""Tokens signed by an issuer (JWT): whose they are, what they allow, and how clients learn where to get one.

The caller's name is the subject, their rights are scopes. Tokens are only for this server: their audience is its address.

Before an MCP request is served, missing scopes are reported, so that a client can ask its issuer for more. This concerns scopes
only: the handler decides whether the caller may touch the conversation in question.
"""

import logging
import time
import warnings
from base64 import urlsafe_b64decode
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, cast

import msgspec
from joserfc import jwt
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import GuestProtocol, Key

from understudy.config.serve import IssuedChoices
from understudy.config.tokens import DEFAULT_RIGHTS, RIGHTS
from understudy.net import HttpClient
from understudy.protocol.callers import LOCAL_NAME, Caller, Limits, Right
from understudy.protocol.jsonrpc import Request
from understudy.servers.http.answers import Refusal, Send, encode, send_answer
from understudy.servers.http.issuer_keys import IssuerKeys
from understudy.servers.http.principals import DOOR, Principal
from understudy.servers.mcp.tool_table import Offer

_METHODS: dict[str, tuple[Right, ...]] = {
    "tasks/get": ("read",),
    "tasks/update": ("approve", "read"),
    "tasks/cancel": ("run", "read"),
}


class _ToolCall(msgspec.Struct):
    name: str
    arguments: dict[str, Any] | None = None


def lacking_rights(caller: Caller, request: Request, offer: Offer) -> list[Right]:
    """Rights that the request needs and that the caller has on no conversation at all."""
    return [right for right in _needed(request, offer) if right not in caller.rights and right not in caller.others]


def _needed(request: Request, offer: Offer) -> tuple[Right, ...]:
    if request.method != "tools/call":
        return _METHODS.get(request.method, ())
    try:
        called = msgspec.json.decode(request.params or b"{}", type=_ToolCall)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ()  # the handler reports the error
    tool = offer.tools.get(called.name)
    if tool is None:
        return ()
    return (*tool.needs, *(right for name, right in tool.needs_with.items() if name in (called.arguments or {})))


logger = logging.getLogger(__name__)

# All of these are checked with a public key. With a shared key, whoever can check a token could also make one; `none` has no
# signature.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
# issuers still use the older name of Ed25519, and callers must not be able to write into our log
warnings.filterwarnings("ignore", message="EdDSA", category=SecurityWarning)
MOST_CHARACTERS = 16 * 1024
MOST_REMEMBERED = 1000
LEEWAY_SECONDS = 30
OWN = "understudy:"
OTHERS = "understudy:others:"
SCOPES = tuple(f"{OWN}{right}" for right in DEFAULT_RIGHTS)  # requested if nothing says more
ALL_SCOPES = (*(f"{OWN}{right}" for right in RIGHTS), *(f"{OTHERS}{right}" for right in RIGHTS))
METADATA = "/.well-known/oauth-protected-resource"
_KINDS = frozenset({"", "jwt", "at+jwt", "application/at+jwt"})


class InvalidToken(Exception):
    """The reason is only for the log, so that an attacker learns nothing."""


class _Known(msgspec.Struct, frozen=True):
    principal: Principal
    expires: float


class _Header(msgspec.Struct):
    kid: str | None = None


class Issuer:
    def __init__(
        self, issuer: str, audience: str | None, http: HttpClient, choices: IssuedChoices, groups_claim: str = "groups"
    ) -> None:
        self._issuer = issuer
        self._audience = audience
        self._choices = choices
        self._groups_claim = groups_claim
        self.address = ""  # the address of this server, as clients know it
        self._keys = IssuerKeys(issuer, http, time.monotonic)
        self._keys.when_fetched = self._forget  # a key may have been withdrawn
        self._tokens: dict[str, _Known] = {}  # tokens found valid, by hash
        self._callers: dict[str, _Known] = {}  # the latest owner of a token, by name

    # -- tokens

    @staticmethod
    def looks_like_one(token: str) -> bool:
        return token.count(".") == 2 and len(token) <= MOST_CHARACTERS

    async def learn(self, token: str) -> None:
        """Called before `find`: fetch keys if that may help."""
        if self._remembered(token) is None:
            await self._keys.learn(_key_id(token))

    def find(self, token: str, taken: frozenset[str]) -> Principal | None:
        """None if the token is invalid. Raises `Refusal` if it is valid and allows nothing. `taken`: names of our own tokens."""
        if (known := self._remembered(token)) is not None and known.principal.name not in taken:
            return known.principal
        try:
            claims = self._check(token)
            name = _name_of(claims, taken)
        except (InvalidToken, JoseError, ValueError, TypeError, KeyError) as error:
            logger.info("a token of an issuer is not accepted: %s", error)
            return None
        caller = _caller_of(name, claims)
        if not (caller.rights or caller.others):
            challenge = self.challenge("insufficient_scope")
            raise Refusal(403, f"the token has none of the scopes {' '.join(SCOPES)}", headers=((b"www-authenticate", challenge),))
        # so that a cookie made for a token does not stand for one with other rights
        made_of = " ".join(["issuer:" + self._issuer, *sorted(caller.rights), "others:", *sorted(caller.others)])
        choices = self._choices.of(name, _texts(claims.get(self._groups_claim)))
        limited = msgspec.structs.replace(caller, limits=Limits(choices.roots, choices.modes))
        principal = Principal(limited, made_of, issued=True)
        known = _Known(principal, float(claims["exp"]) + LEEWAY_SECONDS)
        if len(self._tokens) >= MOST_REMEMBERED:
            self._tokens.clear()
        self._tokens[_hash(token)] = known
        self._callers[name] = known
        return principal

    def end_of(self, token: str) -> float | None:
        """When a token that was found valid expires; None for others."""
        known = self._remembered(token)
        return None if known is None else known.expires

    def current(self, name: str) -> Principal | None:
        known = self._callers.get(name)
        return None if known is None or known.expires <= time.time() else known.principal

    def expired(self) -> frozenset[str]:
        """Names of those whose last token has expired."""
        now = time.time()
        return frozenset(name for name, known in self._callers.items() if known.expires <= now)

    def forget_expired(self) -> None:
        for name in self.expired():
            del self._callers[name]

    def _remembered(self, token: str) -> _Known | None:
        known = self._tokens.get(_hash(token))
        return None if known is None or known.expires <= time.time() else known

    def _forget(self) -> None:
        self._tokens.clear()

    def _check(self, token: str) -> dict[str, Any]:
        """Raises `InvalidToken` or `JoseError`."""

        def find_key(guest: GuestProtocol) -> Key:
            key_id = guest.headers().get("kid")
            key = self._keys.find(key_id if isinstance(key_id, str) else None)
            if key is None:
                raise InvalidToken("its key is not known")
            return key

        decoded = jwt.decode(token, find_key, algorithms=ALGORITHMS)
        kind = decoded.header.get("typ", "")
        if not isinstance(kind, str) or kind.lower() not in _KINDS:
            raise InvalidToken("it is of another kind")
        claims: dict[str, Any] = decoded.claims
        if claims.get("iss") != self._issuer:
            raise InvalidToken("it is of another issuer")
        given: Any = claims.get("aud")
        audiences: list[Any] = cast(list[Any], given) if isinstance(given, list) else [given]
        if not any(isinstance(audience, str) and self._is_us(audience) for audience in audiences):
            raise InvalidToken("it is for another server")
        now = time.time()
        if not _is_time(claims.get("exp")) or claims["exp"] + LEEWAY_SECONDS <= now:
            raise InvalidToken("it has expired")
        for name in ("nbf", "iat"):
            if name in claims and (not _is_time(claims[name]) or claims[name] - LEEWAY_SECONDS > now):
                raise InvalidToken("it is not valid yet")
        return claims

    def _is_us(self, audience: str) -> bool:
        return audience == self._audience if self._audience else audience.rstrip("/") == self.address.rstrip("/")

    # -- information for clients

    def challenge(self, error: str = "", scopes: Sequence[str] = SCOPES) -> bytes:
        base = self.address.removesuffix("/mcp")
        named = [f'error="{error}"'] if error else []
        return (
            "Bearer " + ", ".join([*named, f'resource_metadata="{base}{METADATA}/mcp"', f'scope="{" ".join(scopes)}"'])
        ).encode()

    def challenge_for(self, caller: Caller, *needed: str) -> bytes:
        """For a caller whose token is valid but lacks these scopes. The scopes that it has are listed too: otherwise the next token
        would have only the new ones.
        """
        has = {OWN + right for right in caller.rights} | {OTHERS + right for right in caller.others}
        return self.challenge("insufficient_scope", [scope for scope in ALL_SCOPES if scope in has or scope in needed])

    def serves(self, path: str) -> bool:
        return path in (METADATA, f"{METADATA}/mcp")

    async def show_metadata(self, method: str, send: Send) -> None:
        """For everybody, including pages of other sites: it says only where to get a token."""
        if method not in ("GET", "HEAD", "OPTIONS"):
            raise Refusal(405, f"{method} is not for this address", headers=((b"allow", b"GET, HEAD"),))
        told = {
            "resource": self.address,
            "authorization_servers": [self._issuer],
            "scopes_supported": list(ALL_SCOPES),
            "bearer_methods_supported": ["header"],
            "resource_name": "understudy",
        }
        headers = (
            (b"access-control-allow-origin", b"*"),
            (b"access-control-allow-headers", b"*"),
            (b"cache-control", b"max-age=300"),
        )
        await send_answer(send, 200, encode(told), headers)


def _name_of(claims: dict[str, Any], taken: frozenset[str]) -> str:
    name = claims.get("sub")
    if not isinstance(name, str) or not 0 < len(name) <= 128 or not name.isascii() or not name.isprintable() or " " in name:
        raise InvalidToken("its subject is no name: up to 128 visible characters")
    if name == LOCAL_NAME or name in taken:
        raise InvalidToken("its subject has the name of somebody with a token of this server")
    return name


def _caller_of(name: str, claims: dict[str, Any]) -> Caller:
    scopes = frozenset(_texts(claims.get("scope", claims.get("scp"))))

    def rights(prefix: str) -> frozenset[Right]:
        return frozenset[Right](right for right in RIGHTS if f"{prefix}{right}" in scopes)

    return Caller(name, rights(OWN), rights(OTHERS), DOOR)


def _texts(claim: Any) -> list[str]:
    """The values of a claim that is a list, or one text with blanks."""
    listed = cast(list[Any], claim) if isinstance(claim, list) else claim.split() if isinstance(claim, str) else []
    return [each for each in listed if isinstance(each, str)]


def _key_id(token: str) -> str | None:
    head = token.partition(".")[0]
    try:
        return msgspec.json.decode(urlsafe_b64decode(head + "=" * (-len(head) % 4)), type=_Header).kid
    except (ValueError, RecursionError):
        return None


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12


def _hash(token: str) -> str:
    return sha256(token.encode()).hexdigest()
