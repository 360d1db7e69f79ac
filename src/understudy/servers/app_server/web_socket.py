"""WebSockets (RFC 6455), the server's side of one connection: frames to messages, and messages to frames.

Without extensions and subprotocols. It knows neither sockets nor the content of messages.
"""

import struct
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Mapping
from hashlib import sha1

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
NORMAL, GOING_AWAY, PROTOCOL_ERROR, NOT_TEXT, TOO_LARGE = 1000, 1001, 1002, 1007, 1009
_CODES = frozenset({1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014})  # codes that a peer may close with
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_LARGEST_CONTROL = 125
VERSION = "13"

Message = tuple[int, bytes]  # its kind and its data


class BrokenFrames(Exception):
    """The client breaks the protocol: it is told this code, and the connection ends."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def accept_key(headers: Mapping[str, str]) -> str | None:
    """The value that proves to the client that its request was read. None if it is not a request for a WebSocket."""
    key = headers.get("sec-websocket-key", "")
    if not _has_word(headers.get("connection", ""), "upgrade") or not _has_word(headers.get("upgrade", ""), "websocket"):
        return None
    try:
        nonce = b64decode(key, validate=True)
    except (Error, ValueError):
        return None
    return b64encode(sha1(key.encode() + _GUID, usedforsecurity=False).digest()).decode() if len(nonce) == 16 else None


def _has_word(header: str, wanted: str) -> bool:
    return any(word.strip().lower() == wanted for word in header.split(","))


def frame(kind: int, data: bytes) -> bytes:
    """A whole message. Servers do not mask."""
    size = len(data)
    if size < 126:
        head = struct.pack("!BB", 0x80 | kind, size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", 0x80 | kind, 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | kind, 127, size)
    return head + data


def close_frame(code: int, reason: str = "") -> bytes:
    return frame(CLOSE, struct.pack("!H", code) + reason.encode()[: _LARGEST_CONTROL - 2])


def code_of(data: bytes) -> int:
    """The code with which a client closes. Raises `BrokenFrames`."""
    if not data:
        return NORMAL
    code = struct.unpack("!H", data[:2])[0] if len(data) > 1 else 0
    if code not in _CODES and not 3000 <= code < 5000:
        raise BrokenFrames(PROTOCOL_ERROR, "a frame closes with no code that there is")
    _check_text(data[2:])
    return code


class FrameReader:
    """Returns complete messages. Of an incomplete message it keeps at most `most` bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._buffer = bytearray()
        self._kind = CONTINUATION  # kind of the incomplete message; `CONTINUATION`: there is none
        self._begun = bytearray()  # its parts so far; there may be many, even empty ones
        self._size = 0

    def feed(self, data: bytes) -> list[Message]:
        """Raises `BrokenFrames`."""
        self._buffer += data
        messages: list[Message] = []
        while (taken := self._take()) is not None:
            final, kind, payload = taken
            if kind >= CLOSE:
                messages.append((kind, payload))
            elif (whole := self._join(final, kind, payload)) is not None:
                messages.append(whole)
        return messages

    def _take(self) -> tuple[bool, int, bytes] | None:
        """The next frame, unmasked; None if it is incomplete."""
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        first, second = buffer[0], buffer[1]
        kind, size, at = first & 0x0F, second & 0x7F, 2
        self._check_head(first, second)
        if size >= 126:
            form = "!H" if size == 126 else "!Q"
            at += struct.calcsize(form)
            if len(buffer) < at:
                return None
            size = struct.unpack_from(form, buffer, 2)[0]
        if self._size + size > self._most:
            raise BrokenFrames(TOO_LARGE, f"a message may have at most {self._most >> 20} MB")
        if len(buffer) < at + 4 + size:
            return None
        payload = _masked(bytes(buffer[at + 4 : at + 4 + size]), bytes(buffer[at : at + 4]))
        del buffer[: at + 4 + size]
        return bool(first & 0x80), kind, payload

    @staticmethod
    def _check_head(first: int, second: int) -> None:
        kind, is_control = first & 0x0F, bool(first & 0x08)
        if first & 0x70:
            raise BrokenFrames(PROTOCOL_ERROR, "no extension was agreed on")
        if kind not in (CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG):
            raise BrokenFrames(PROTOCOL_ERROR, f"there is no kind of frame {kind}")
        if not second & 0x80:
            raise BrokenFrames(PROTOCOL_ERROR, "frames of clients are masked")
        if is_control and (not first & 0x80 or second & 0x7F > _LARGEST_CONTROL):
            raise BrokenFrames(PROTOCOL_ERROR, "a control frame is whole, and short")

    def _join(self, final: bool, kind: int, payload: bytes) -> Message | None:
        if (kind == CONTINUATION) == (self._kind == CONTINUATION):
            raise BrokenFrames(PROTOCOL_ERROR, "a message begins where another one has not ended, or goes on where none has begun")
        self._kind = kind or self._kind
        self._size += len(payload)
        if not final or self._begun:
            self._begun += payload
        if not final:
            return None
        whole = self._kind, bytes(self._begun) if self._begun else payload
        self._kind, self._size = CONTINUATION, 0
        self._begun = bytearray()
        if whole[0] == TEXT:
            _check_text(whole[1])
        return whole


def _masked(data: bytes, mask: bytes) -> bytes:
    """Masks in one operation on integers, which is a hundred times as fast as byte by byte."""
    size = len(data)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")


def _check_text(data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError:
        raise BrokenFrames(NOT_TEXT, "text is UTF-8") from None
