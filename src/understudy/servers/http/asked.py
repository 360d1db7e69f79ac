"""One HTTP request as the server sees it: its headers, the memory that its body may use, and strict reading of bodies and
queries.
"""

import json
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from understudy.protocol.jsonrpc import why_unreadable
from understudy.servers.http.answers import Receive, Refusal

TIMES_ONE = 4  # the largest request; one caller may use half of that
SMALL_BYTES = 64 * 1024  # so many bytes of each body are free: a small request is never refused because others send large ones


class BodyRoom:
    def __init__(self, largest: int) -> None:
        self._most = TIMES_ONE * largest
        self._held = 0
        self._by_caller: dict[str, int] = {}

    def hold(self, caller: str, size: int) -> None:
        """Reserve so many more bytes. Raises `Refusal` if that is too much; earlier reservations remain."""
        theirs = self._by_caller.get(caller, 0) + size
        if self._held + size > self._most or theirs > self._most // 2:
            reason = "too many large requests are on their way to this server at once; send this one again in a moment"
            raise Refusal(503, reason, headers=((b"retry-after", b"2"),))
        self._held += size
        self._by_caller[caller] = theirs

    def give_back(self, caller: str, size: int) -> None:
        self._held -= size
        left = self._by_caller.get(caller, 0) - size
        if left > 0:
            self._by_caller[caller] = left
        else:
            self._by_caller.pop(caller, None)


class HeldBody:
    """One request's share of that memory."""

    def __init__(self, room: BodyRoom, caller: str) -> None:
        self._room = room
        self._caller = caller
        self._size = 0

    def grow(self, size: int) -> None:
        """The body now has so many bytes. Raises `Refusal`."""
        if size > SMALL_BYTES:
            self._room.hold(self._caller, size - self._size)
            self._size = size

    def give_back(self) -> None:
        if self._size:
            self._room.give_back(self._caller, self._size)
            self._size = 0


# If one of these were sent twice, a proxy might read one value, and we the other.
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
        # %2F is part of a name and not a slash: a proxy before us does not treat it as one either
        if b"%" in raw and b"%2f" in raw.lower():
            self.path = raw.decode("latin-1")
        self.query: bytes = scope.get("query_string", b"")
        self.receive = receive
        self.of_connection: Mapping[str, Any] = scope.get("state", {})
        self.twice: bytes | None = None  # a duplicate header that may be sent only once
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
        """Raises `Refusal` as soon as the body is known to be too large, or `held` has no room for it. The connection limits the
        time, and discards the rest of a refused body.
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
    """The client left before its request was complete."""


def _too_large(most: int) -> Refusal:
    return Refusal(413, f"a request may have at most {most >> 20} MB; the server's `understudy.serve.max_body_mb` sets it")


MOST_QUOTED = 500  # characters of what was sent
T = TypeVar("T")


def read_body(body: bytes, kind: type[T]) -> T:
    """Raises `Refusal`."""
    try:
        found = msgspec.json.decode(body or b"{}", type=kind)
        _check_names(body)
    except msgspec.ValidationError as error:
        raise Refusal(400, f"the body does not fit: {_told(error, kind)}") from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Refusal(400, f"the body should be one object in JSON: {why_unreadable(body, error)}") from None
    return found


def read_query(query: bytes, kind: type[T]) -> T:
    """Raises `Refusal`."""
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict") if query else []
    except ValueError:
        raise Refusal(400, "the query of the address should be NAME=VALUE&…, in percent-encoded UTF-8") from None
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise Refusal(400, f"`{name[:MOST_QUOTED]}` is in the query twice")
        values[name] = value
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refusal(400, f"the query does not fit: {_told(error, kind)}") from None


def _check_names(body: bytes) -> None:
    """A duplicate member could be read differently by a proxy and by us. Raises `Refusal`."""
    if body:
        json.loads(body, object_pairs_hook=_check_pairs, parse_int=_passed_over, parse_float=_passed_over)


def _check_pairs(pairs: list[tuple[str, Any]]) -> None:
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            raise Refusal(400, f"`{name[:MOST_QUOTED]}` is in an object of the body twice")
        names.add(name)


def _passed_over(number: str) -> None:
    """Numbers were already checked; only names matter here."""


def _told(error: msgspec.ValidationError, kind: type[Any]) -> str:
    known = ", ".join(f"`{name}`" for name in kind.__struct_encode_fields__)
    told = str(error)[:MOST_QUOTED]
    return f"{told}. Known are: {known}" if "unknown field" in told else told
