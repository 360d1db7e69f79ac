"""From which address a request came: that of the connection, or, behind proxies that are trusted, what they say.

Anybody can send `X-Forwarded-For`, so it counts only where the connection comes from a proxy that is named in `trusted_proxies`.
"""

import ipaddress
from collections.abc import Iterable

from understudy.servers.request_scope import REQUEST

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Addresses:
    def __init__(self, trusted: Iterable[str]) -> None:
        self.trusted: list[_Network] = [ipaddress.ip_network(each, strict=False) for each in trusted]

    def of_this_request(self) -> str:
        """Empty where nothing is served for anybody at present."""
        request = REQUEST.get()
        return "" if request is None else self.find(request.peer, request.forwarded)

    def find(self, peer: str, forwarded: str) -> str:
        """`forwarded`: each proxy adds at its end from where the request came to it. So the last one that is no proxy of ours
        is the client; what stands before it, anybody may have written.
        """
        found = _read(peer)
        if found is None or not self._is_trusted(found):
            return peer if found is None else str(found)
        for written in reversed(forwarded.split(",")):
            address = _read(written.strip())
            if address is None:
                break
            found = address
            if not self._is_trusted(address):
                break
        return str(found)

    def _is_trusted(self, address: _Address) -> bool:
        return any(address in network for network in self.trusted)


def _read(text: str) -> _Address | None:
    """Also with a port, as some proxies write it. An IPv4 address in the form of IPv6 is the IPv4 address."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped
