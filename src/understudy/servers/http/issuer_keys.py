"""An issuer's public keys, fetched from where its metadata says, and cached.

They are fetched again from time to time, and when a token names an unknown key; however many such tokens come, the fetches are
rate-limited. If the issuer does not answer, known keys stay valid for a day.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key

from understudy.errors import AgentError
from understudy.net import HttpClient, HttpFailure
from understudy.net.addresses import parse_url
from understudy.servers.http.guards import is_loopback

logger = logging.getLogger(__name__)

FETCH_SECONDS = 5.0
MOST_BYTES = 256 * 1024
MOST_KEYS = 64
FRESH_SECONDS = 600.0
BETWEEN_FETCHES_SECONDS = 10.0
STALE_SECONDS = 86_400.0
KINDS = frozenset({"RSA", "EC", "OKP"})  # with a shared key (`oct`), whoever can check a token could also make one


class IssuerKeys:
    def __init__(self, issuer: str, http: HttpClient, clock: Callable[[], float]) -> None:
        self._issuer = issuer
        self._http = http
        self._clock = clock
        self._keys: dict[str | None, Key] = {}
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._fetching: asyncio.Task[None] | None = None
        self.when_fetched: Callable[[], None] = lambda: None

    def find(self, key_id: str | None) -> Key | None:
        """Without an id, only if there is exactly one key."""
        if self._fetched_at is None or self._clock() - self._fetched_at > STALE_SECONDS:
            return None
        if key_id is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(key_id)

    async def learn(self, key_id: str | None) -> None:
        """Fetch keys if that may help. Concurrent callers wait for the same fetch."""
        known = self.find(key_id) is not None
        fresh = self._fetched_at is not None and self._clock() - self._fetched_at < FRESH_SECONDS
        if self._fetching is None:
            if known and fresh:
                return
            if self._tried_at is not None and self._clock() - self._tried_at < BETWEEN_FETCHES_SECONDS:
                return
            self._tried_at = self._clock()
            self._fetching = asyncio.ensure_future(self._fetch())
            self._fetching.add_done_callback(self._forget_fetch)
        if not known:
            await asyncio.wait([self._fetching])

    def _forget_fetch(self, _: "asyncio.Task[None]") -> None:
        self._fetching = None

    async def _fetch(self) -> None:
        try:
            self._keys = await self._read_keys()
        except (AgentError, HttpFailure, ValueError, OSError) as error:
            logger.error("the keys of the issuer %s cannot be read: %s", self._issuer, error)
            return
        self._fetched_at = self._clock()
        self.when_fetched()

    async def _read_keys(self) -> dict[str | None, Key]:
        address = await self._find_address()
        entries = (await self._get(address)).get("keys")
        if not isinstance(entries, list):
            raise ValueError(f"{address} has no list of keys")  # noqa: TRY004  # what is there is not ours
        found: dict[str | None, Key] = {}
        for entry in cast(list[Any], entries)[:MOST_KEYS]:
            if not isinstance(entry, dict):
                continue
            table = cast(dict[str, Any], entry)
            if table.get("kty") not in KINDS or table.get("use", "sig") != "sig":
                continue
            key_id = table.get("kid")
            try:
                found[key_id if isinstance(key_id, str) else None] = JWKRegistry.import_key(
                    {name: value for name, value in table.items() if name not in ("d", "p", "q", "dp", "dq", "qi", "oth")}
                )
            except (JoseError, ValueError, TypeError, KeyError) as error:
                logger.info("a key of the issuer %s is left out: %s", self._issuer, error)
        if not found:
            raise ValueError(f"{address} has no key that can be used")
        return found

    async def _find_address(self) -> str:
        last: Exception | None = None
        for address in metadata_addresses(self._issuer):
            try:
                metadata = await self._get(address)
            except (ValueError, HttpFailure) as error:
                last = error
                continue
            if metadata.get("issuer") != self._issuer:
                raise ValueError(f"{address} is of another issuer")
            keys = metadata.get("jwks_uri")
            if not isinstance(keys, str) or not is_safe(keys):
                raise ValueError(f"{address} names no address of keys by https")
            return keys
        raise ValueError(f"its metadata cannot be read: {last}")

    async def _get(self, address: str) -> dict[str, Any]:
        async with asyncio.timeout(FETCH_SECONDS):
            response = await self._http.get(parse_url(address), [("accept", "application/json")], seconds=FETCH_SECONDS)
            if response.status != 200:
                response.abort()
                raise ValueError(f"{address} answered with status {response.status}")
            text = await response.read_text(FETCH_SECONDS, MOST_BYTES)
        try:
            value = msgspec.json.decode(text.encode())
        except (msgspec.MsgspecError, RecursionError):
            raise ValueError(f"{address} did not answer with JSON") from None
        if not isinstance(value, dict):
            raise ValueError(f"{address} did not answer with an object")  # noqa: TRY004
        return cast(dict[str, Any], value)


def metadata_addresses(issuer: str) -> tuple[str, ...]:
    """Where an authorization server (RFC 8414) and an OpenID provider say where their keys are."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    base = f"{parts.scheme}://{parts.netloc}"
    return (
        f"{base}/.well-known/oauth-authorization-server{path}",
        f"{base}{path}/.well-known/openid-configuration",
    )


def is_safe(address: str) -> bool:
    """Whether it is reached by https or on this machine."""
    try:
        parts = urlsplit(address)
        host = parts.hostname
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host or "")))
