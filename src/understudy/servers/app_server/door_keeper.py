"""Who may open a WebSocket to the app server: no web page, and without a token only the user who started the server."""

import os
import socket
import struct
import sys
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Any

import msgspec

from understudy.protocol.callers import LOCAL, Caller, Limits, by_door
from understudy.protocol.choices import SandboxMode
from understudy.servers.unix_sockets import peer_of

DOOR = "app-server"
_MODES: frozenset[SandboxMode] = frozenset({"read-only", "workspace-write", "danger-full-access"})
_BY_TOKEN = by_door(LOCAL, DOOR)
_WITHOUT = msgspec.structs.replace(_BY_TOKEN, limits=Limits(None, _MODES, open_door=True))


class Refused(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class DoorKeeper:
    def __init__(self, token_hash: str | None) -> None:
        """`token_hash`: SHA-256 of the required token, in hexadecimal digits; None: no token is required."""
        self._token_hash = token_hash

    def judge(self, headers: Mapping[str, str], connected: Any) -> Caller:
        """In whose name the connection speaks. Raises `Refused`."""
        if "origin" in headers:  # any page could make a browser connect
            raise Refused(403, "pages may not connect")
        if self._token_hash is not None:
            self._check_token(headers.get("authorization", ""))
            return _BY_TOKEN
        if not is_same_user(connected):
            raise Refused(403, "only the user who has started the server may connect without a token: see --ws-auth")
        return _BY_TOKEN if connected.family == socket.AF_UNIX else _WITHOUT

    def _check_token(self, authorization: str) -> None:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Refused(401, "missing websocket bearer token")
        given = sha256(token.strip().encode("latin-1")).hexdigest()
        if not compare_digest(given, self._token_hash or ""):
            raise Refused(401, "invalid websocket bearer token")


def is_same_user(connected: Any) -> bool:
    """Whether our own user runs the process at the other end on this machine. Linux can tell this for TCP too; other systems
    cannot, and there everybody on the machine is accepted.
    """
    if connected.family == socket.AF_UNIX:
        peer = peer_of(connected)
        return peer is not None and peer.user == os.geteuid() and not peer.contained
    if sys.platform != "linux":
        return True
    ours, theirs = connected.getsockname(), connected.getpeername()
    table = "/proc/net/tcp6" if connected.family == socket.AF_INET6 else "/proc/net/tcp"
    wanted = _in_table(connected.family, theirs), _in_table(connected.family, ours)
    try:
        with open(table, encoding="ascii") as rows:
            next(rows)
            theirs_here = next((fields for fields in map(str.split, rows) if fields[1:3] == [*wanted]), None)
    except (OSError, StopIteration):
        return False
    # a peer that has already closed the connection is reported as root
    return theirs_here is not None and len(theirs_here) > 9 and theirs_here[7] == str(os.geteuid()) and theirs_here[9] != "0"


def _in_table(family: int, address: Any) -> str:
    """The address in the kernel's notation: words of four bytes in the machine's order."""
    packed = socket.inet_pton(family, address[0].partition("%")[0])
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"
