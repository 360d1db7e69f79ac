"""Conversation ids and the other ids, each with its own type so that they cannot be confused, and how callers spell conversation
ids.
"""

import os
import re
from functools import cache
from typing import NewType

ConversationId = NewType("ConversationId", str)  # a UUID in canonical form


_GROUPS = (8, 4, 4, 4, 12)
_ALLOWED = "0123456789abcdefABCDEF-"
_ALLOWED_BYTES = _ALLOWED.encode()


@cache
def _canonical() -> re.Pattern[str]:
    """Compiled on first use."""
    return re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def new_uuid() -> str:
    """A random UUID (version 4). Made without the module `uuid`, whose import would add 5 ms to a start."""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    return _grouped(raw.hex())


def read_uuid(text: str) -> str:
    """The canonical form. Raises `ValueError` with the reason."""
    if _canonical().fullmatch(text):
        return text
    body, offset, wrapped = _unwrap(text)
    if body.encode(errors="replace").translate(None, _ALLOWED_BYTES):
        index, character = next((index, character) for index, character in enumerate(body) if character not in _ALLOWED)
        expected = "expected an optional prefix of `urn:uuid:` followed by [0-9a-fA-F-]"
        raise ValueError(f"invalid character: {expected}, found `{character}` at {index + offset + 1}")
    groups = body.split("-")
    if len(groups) == 1 and not wrapped:
        if len(body) != 32:
            raise ValueError(f"invalid length: expected length 32 for simple format, found {len(body)}")
    elif len(groups) != 5:
        raise ValueError(f"invalid group count: expected 5, found {len(groups)}")
    else:
        for number, (group, length) in enumerate(zip(groups, _GROUPS, strict=True)):
            if len(group) != length:
                raise ValueError(f"invalid group length in group {number}: expected {length}, found {len(group)}")
    return _grouped("".join(groups).lower())


def uuid_bytes(text: str) -> bytes:
    """The bytes of a UUID in its canonical form."""
    return bytes.fromhex(text.replace("-", ""))


def uuid_of(raw: bytes) -> str:
    return _grouped(raw.hex())


def _grouped(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _unwrap(text: str) -> tuple[str, int, bool]:
    if text.startswith("{") and text.endswith("}") and len(text) > 1:
        return text[1:-1], 1, True
    if text.startswith("urn:uuid:"):
        return text[9:], 9, True
    return text, 0, False
