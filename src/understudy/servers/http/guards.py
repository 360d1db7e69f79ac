"""Who may speak to the server at all, judged by a request's headers: Host, Origin, content type, accepted types."""

import ipaddress
import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import urlsplit

_REFUSED = re.compile(r"q\s*=\s*0(\.0*)?")
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


@lru_cache(maxsize=64)  # most requests name the same few
def split_host(text: str) -> tuple[str, str] | None:
    """Name and port (perhaps empty) of a `Host` header; None if it is invalid."""
    if not text or any(character in text for character in "/\\@?#, \t") or not text.isascii():
        return None
    try:
        parts = urlsplit(f"//{text}")
        port = parts.port
    except ValueError:
        return None
    return ((parts.hostname or "").lower(), "" if port is None else str(port)) if parts.hostname else None


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class Guards:
    """Checks the target and the origin of a request. A page elsewhere can make a browser call us in two ways: through a name that
    it has pointed at us (its Host is foreign), or from its own site (its Origin is).
    """

    def __init__(self, bound: str, port: int, hosts: Iterable[str], origins: Iterable[str], *, open_to_all: bool) -> None:
        """`open_to_all`: no token is needed, so pages on other ports of this machine must also be refused."""
        self._hosts = {host.lower() for host in hosts}
        self.origins = {origin.lower().rstrip("/") for origin in origins}
        self._beyond_loopback = not is_loopback(bound)
        self._bound = bound.lower()
        self._port = str(port)
        self._open_to_all = open_to_all

    def note_port(self, port: int) -> None:
        """Set the port that was assigned, if any port was requested."""
        self._port = str(port)

    def allows_host(self, header: str) -> bool:
        if self._knows(header):
            return True
        split = split_host(header)  # others can point a name at us, but not an address
        return self._beyond_loopback and split is not None and _is_address(split[0])

    def allows_origin(self, header: str, host: str) -> bool:
        """`host`: the request's own, after its check. Pages of any other address are not ours."""
        origin = header.lower()
        if origin in self.origins:
            return True
        scheme, _, rest = origin.partition("://")
        split, ours = split_host(rest), split_host(host)
        if scheme not in ("http", "https") or split is None:
            return False
        if not self._knows(rest) and (ours is None or split[0] != ours[0]):
            return False
        return not self._open_to_all or split[1] == self._port

    def _knows(self, header: str) -> bool:
        split = split_host(header)
        if split is None:
            return False
        name, _ = split
        return name in _LOCAL_NAMES or name == self._bound or name in self._hosts or header.lower() in self._hosts


def accepts(header: str | None, *kinds: str) -> bool:
    """Whether a client accepts one of these kinds of content; without the header it accepts all."""
    if header is None or not header.strip():
        return True
    for part in header.lower().split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        if any(_REFUSED.fullmatch(parameter) for parameter in parameters):
            continue
        if name == "*/*" or name in kinds or any(name == f"{kind.partition('/')[0]}/*" for kind in kinds):
            return True
    return False


def is_json(content_type: str | None) -> bool:
    return content_type is not None and content_type.partition(";")[0].strip().lower() == "application/json"
