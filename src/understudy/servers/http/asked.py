"""One HTTP request as the server sees it: its headers, each at most once where that matters, and its body up to a limit."""

from collections.abc import Mapping
from typing import Any

from understudy.servers.http.answers import Receive, Refusal
from understudy.servers.http.body_room import HeldBody

# Sent twice, one of them might be read by a proxy before us, and the other one by us.
_ONCE = frozenset({
    b"host",
    b"authorization",
    b"content-type",
    b"content-length",
    b"mcp-session-id",
    b"mcp-protocol-version",
    b"last-event-id",
    b"origin",
    b"mcp-method",
    b"mcp-name",
})  # fmt: skip
ROUTING = frozenset({b"mcp-method", b"mcp-name", b"mcp-protocol-version"})


class Asked:
    def __init__(self, scope: Mapping[str, Any], receive: Receive) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        raw: bytes = scope.get("raw_path") or b""
        if b"%" in raw and b"%2f" in raw.lower():  # part of a name, and no slash: a proxy before us does not see one either
            self.path = raw.decode("latin-1")
        self.query: bytes = scope.get("query_string", b"")
        self.receive = receive
        self.twice: bytes | None = None  # a header that may be sent only once
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        self.headers = dict(headers)
        if len(self.headers) < len(headers):
            self._note_twice(headers)

    def _note_twice(self, headers: list[tuple[bytes, bytes]]) -> None:
        names: set[bytes] = set()
        for name, _ in headers:
            if name in names and (name in _ONCE or name.startswith(b"mcp-param-")):
                self.twice = name
            names.add(name)

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1").strip(" \t")

    async def body(self, most: int, held: HeldBody | None = None) -> bytes:
        """Raises `Refusal` where it is too large, as soon as that is known, or where `held` has no room for it. How long it may
        take is the connection's to say, which also throws away what still comes of one that was refused.
        """
        length = self.header(b"content-length")
        if length is not None and length.isdecimal() and int(length) > most:
            raise _too_large(most)
        chunks: list[bytes] = []
        size = 0
        try:
            while True:
                message = await self.receive()
                if message["type"] == "http.disconnect":
                    raise ClientLeft
                chunk: bytes = message.get("body", b"")
                size += len(chunk)
                if size > most:
                    raise _too_large(most)
                if held is not None:
                    held.grow(size)
                chunks.append(chunk)
                if not message.get("more_body", False):
                    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
        finally:
            if held is not None:
                held.give_back()


class ClientLeft(Exception):
    """Before it had said everything."""


def _too_large(most: int) -> Refusal:
    return Refusal(413, f"a request may have at most {most >> 20} MB; the server's `understudy.serve.max_body_mb` sets it")
