"""Remembers the heads of earlier requests, so that the same bytes need not be parsed and judged again.

A client that keeps its connection sends the same head with nearly every request. What is remembered depends on those bytes alone;
the token's owner and the session are looked up for each request.
"""

from collections.abc import Callable, Mapping
from typing import Any

from understudy.servers.http.answers import Message
from understudy.servers.http.asked import Asked
from understudy.servers.http.guards import Guards, accepts, is_json
from understudy.servers.http.principals import Principals
from understudy.servers.mcp.handshake import MODERN, VERSIONS

MOST_HEADS = 256
LARGEST_HEAD = 4096  # bytes of a remembered head
_UNUSUAL = (b"expect", b"transfer-encoding", b"upgrade", b"origin")


class Head:
    """The checked head of a POST: everything that its headers say. `length`: of its body."""

    __slots__ = ("asked", "authorization", "length", "modern", "session_header", "session_id")

    def __init__(self, asked: Asked, length: int) -> None:
        self.asked = asked
        self.length = length
        self.authorization = asked.header(b"authorization")
        self.modern = asked.header(b"mcp-protocol-version") == MODERN
        self.session_id = asked.header(b"mcp-session-id")
        named = None if self.modern else self.session_id  # the era without sessions never answers with one
        self.session_header = b"" if named is None else b"mcp-session-id: %b\r\n" % named.encode()


class Heads:
    def __init__(self, guards: Guards, principals: Principals) -> None:
        self._guards = guards
        self._principals = principals
        self._known: dict[bytes, Head] = {}
        self.find: Callable[[bytes], Head | None] = self._known.get

    def learn(self, raw: bytes, scope: Mapping[str, Any], length: int) -> None:
        """`raw`: the bytes of the head, which the parser read as `scope`. Heads that need a closer look each time are not
        remembered.
        """
        if len(raw) > LARGEST_HEAD:
            return
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        asked = Asked(scope, _nothing_comes)
        names = {name for name, _ in headers}
        if len(names) < len(headers) or not names.isdisjoint(_UNUSUAL):
            return
        version = asked.header(b"mcp-protocol-version")
        if version != MODERN and (version not in (None, *VERSIONS) or b"mcp-session-id" not in names):
            return
        if asked.header(b"content-length") != str(length) or not self._guards.allows_host(asked.header(b"host") or ""):
            return
        if not is_json(asked.header(b"content-type")) or not accepts(
            asked.header(b"accept"), "application/json", "text/event-stream"
        ):
            return
        if not self._principals.knows(asked.header(b"authorization")):
            return  # a stranger cannot push out callers' heads
        if len(self._known) >= MOST_HEADS:
            self._known.clear()
        self._known[raw] = Head(asked, length)


async def _nothing_comes() -> Message:
    raise AssertionError("the body came with the head")
