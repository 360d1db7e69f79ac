"""Opens ports to listen on. Event loops would look the address up in a pool of threads, and uvloop's pool aborts the process where
the system allows no more threads.
"""

import errno
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from understudy.net.names import addresses_of

_Address = tuple[int, tuple[Any, ...]]
_PASSED_OVER = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)  # by one of several addresses of a name


async def open_ports(host: str, port: int) -> Sequence[socket.socket]:
    """A socket for each address of the host, all on one port if `port` is 0. Raises OSError."""
    addresses = await _addresses(host, port)
    with ExitStack() as opened:
        found: list[socket.socket] = []
        failure: OSError | None = None
        for family, address in addresses:
            chosen = found[0].getsockname()[1] if found else port
            try:
                found.append(opened.enter_context(_bound(family, (address[0], chosen, *address[2:]))))
            except OSError as error:
                if len(addresses) == 1 or error.errno not in _PASSED_OVER:
                    raise
                failure = error
        if failure is not None and not found:
            raise failure
        opened.pop_all()
        return found


def _bound(family: int, address: tuple[Any, ...]) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.bind(address)
    except BaseException:
        opened.close()
        raise
    return opened


async def _addresses(host: str, port: int) -> Sequence[_Address]:
    try:
        return _numeric(host, port)
    except socket.gaierror as error:
        if error.errno != socket.EAI_NONAME:
            raise
    return [each for _, found in await addresses_of(host) for each in _numeric(found, port)]


def _numeric(host: str, port: int) -> list[_Address]:
    """Asks nobody. An empty host means all addresses of the machine."""
    flags = socket.AI_PASSIVE | socket.AI_NUMERICHOST
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, address) for family, _, _, _, address in found]
