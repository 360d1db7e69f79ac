"""Addresses of servers: parses them, shows them to people, and finds the proxy that the usual variables name."""

from base64 import b64encode
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import quote, unquote, urlsplit

import httptools
import msgspec

from understudy.net.failures import Unreachable

DEFAULT_PORTS = {"http": 80, "https": 443}
UNIX = "unix"  # the scheme for a server that listens on a socket


class Url(msgspec.Struct, frozen=True):
    scheme: str
    host: str  # lower case, without brackets, in ASCII; for the scheme `unix` the path of the socket
    port: int
    target: str  # path and query, as in the request line
    user: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"Url({str(self)!r})"

    def __str__(self) -> str:
        """For people and logs: without credentials, and without the query, which may contain a key."""
        return f"{self.scheme}://{self.host if self.scheme == UNIX else self.authority + self.target.partition('?')[0]}"

    @property
    def authority(self) -> str:
        if self.scheme == UNIX:
            return "localhost"
        return self.bracketed if self.port == DEFAULT_PORTS.get(self.scheme) else f"{self.bracketed}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def bracketed(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def parse_url(text: str) -> Url:
    """Raises ValueError that does not repeat the text, which may contain a password."""
    try:
        parts = httptools.parse_url(_ascii(text.strip()))
    except httptools.HttpParserInvalidURLError:
        raise ValueError("not a URL") from None
    if not parts.schema or not parts.host:
        raise ValueError("not a URL with scheme and host")
    scheme = parts.schema.decode().lower()
    port = parts.port or DEFAULT_PORTS.get(scheme, 0)
    path = (parts.path or b"/").decode("ascii", "replace")
    query = "?" + parts.query.decode("ascii", "replace") if parts.query else ""
    user, password = _userinfo(parts.userinfo)
    return Url(scheme, parts.host.decode().lower(), port, path + query, user, password)


def _userinfo(raw: bytes | None) -> tuple[str | None, str | None]:
    if not raw:
        return None, None
    user, _, password = raw.decode("ascii", "replace").partition(":")
    return unquote(user), unquote(password)


def _ascii(text: str) -> bytes:
    if text.isascii():
        return text.encode()
    parts = urlsplit(text)
    host = (parts.hostname or "").encode("idna").decode()
    userinfo, at, place = parts.netloc.rpartition("@")
    port = place.rpartition(":")[2] if parts.port else ""
    netloc = quote(userinfo, safe=":%") + at + host + (f":{port}" if port else "")
    return parts._replace(netloc=netloc, path=quote(parts.path, safe="/%"), query=quote(parts.query, safe="=&%")).geturl().encode()


def proxy_for(url: Url, env: Mapping[str, str]) -> Url | None:
    """Loopback is no exception: users can exclude it by NO_PROXY. Raises Unreachable for a proxy that we cannot use."""
    if url.scheme == UNIX:
        return None
    variable, value = _first(env, f"{url.scheme}_proxy", "all_proxy")
    if not value or _excluded(url, _first(env, "no_proxy")[1]):
        return None
    scheme, found, _ = value.partition("://")
    if found and scheme.lower() not in ("http", "https"):
        raise Unreachable(
            f"{variable} names a {scheme.lower()} proxy; only http and https proxies are supported", transient=False, why="proxy"
        )
    try:
        return parse_url(value if found else f"http://{value}")
    except ValueError as error:
        raise Unreachable(f"{variable} is {error}", transient=False, why="proxy") from None


def proxy_authorization(proxy: Url) -> str | None:
    return None if proxy.user is None else basic_authorization(proxy.user, proxy.password or "")


def basic_authorization(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def _first(env: Mapping[str, str], *names: str) -> tuple[str, str]:
    for name in names:
        for spelling in (name, name.upper()):
            if value := env.get(spelling, "").strip():
                return spelling, value
    return names[0], ""


def _excluded(url: Url, no_proxy: str) -> bool:
    return any(_matches(url, entry.strip().lower()) for entry in no_proxy.split(",") if entry.strip())


def _matches(url: Url, entry: str) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        return _in_network(url.host, entry)
    host, port = _split_port(entry)
    if port is not None and port != url.port:
        return False
    host = host.removeprefix("*").lstrip(".")
    return url.host == host or url.host.endswith("." + host)


def _split_port(entry: str) -> tuple[str, int | None]:
    if entry.startswith("["):
        host, _, rest = entry[1:].partition("]")
        entry_port = rest.removeprefix(":")
    elif entry.count(":") == 1:
        host, _, entry_port = entry.partition(":")
    else:
        return entry, None
    return host, int(entry_port) if entry_port.isdecimal() else None


def _in_network(host: str, network: str) -> bool:
    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False
