"""Addresses of servers and proxies, and how they are shown to people."""

import httptools
import msgspec

DEFAULT_PORTS = {"http": 80, "https": 443}


class Url(msgspec.Struct, frozen=True):
    scheme: str
    host: str  # lower case, without brackets, in ASCII
    port: int
    target: str  # path and query, as the request line wants them
    user: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"Url({str(self)!r})"

    def __str__(self) -> str:
        """For people and logs: neither credentials nor the query, which may hold a key."""
        return f"{self.scheme}://{self.authority}{self.target.partition('?')[0]}"

    @property
    def authority(self) -> str:
        return self.bracketed if self.port == DEFAULT_PORTS.get(self.scheme) else f"{self.bracketed}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        from ipaddress import ip_address  # only asked for where a connection failed

        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def bracketed(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def parse_url(text: str) -> Url:
    """Raises ValueError, without repeating the text: it may hold a password."""
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
    from urllib.parse import unquote

    user, _, password = raw.decode("ascii", "replace").partition(":")
    return unquote(user), unquote(password)


def _ascii(text: str) -> bytes:
    if text.isascii():
        return text.encode()
    from urllib.parse import quote, urlsplit

    parts = urlsplit(text)
    host = (parts.hostname or "").encode("idna").decode()
    userinfo, at, place = parts.netloc.rpartition("@")
    port = place.rpartition(":")[2] if parts.port else ""
    netloc = quote(userinfo, safe=":%") + at + host + (f":{port}" if port else "")
    return parts._replace(netloc=netloc, path=quote(parts.path, safe="/%"), query=quote(parts.query, safe="=&%")).geturl().encode()
