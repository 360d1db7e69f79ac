"""Repairs text that a provider broke: bytes that are not UTF-8, and characters cut in two.

JSON writes a character outside the basic plane as two escapes, and some providers put one into each of two deltas. msgspec accepts
neither half, so such events are read here: halves are joined where they meet, and what stays broken becomes U+FFFD.
"""

import json
from typing import Any, cast

LOST = "\ufffd"
DEEPEST = 64


def read_loosely(payload: bytes) -> Any:
    """Parse JSON, even with bad text or huge numbers. Raises ValueError if it is not JSON."""
    try:
        return json.loads(payload.decode("utf-8", "replace"), parse_int=_whole_number, strict=False)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def is_cut(payload: bytes) -> bool:
    """Whether an unusable event was meant to be an object and lost a part, so that we do not know what it said.

    Words such as `keep-alive`, and values that nobody asked for, contain nothing.
    """
    if not payload.lstrip().startswith(b"{"):
        return False
    try:
        read_loosely(payload)
    except ValueError:
        return True
    return False


def read_mended(payload: bytes) -> Any:
    """The same, with every text in it repaired."""
    return mended(read_loosely(payload))


def mended(value: Any, depth: int = DEEPEST) -> Any:
    """Leaves out what is nested more deeply than any answer of a model."""
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, list):
        return [mended(entry, depth - 1) for entry in cast(list[Any], value)] if depth else None
    if isinstance(value, dict):
        table = cast(dict[str, Any], value)
        return {whole(key): mended(entry, depth - 1) for key, entry in table.items()} if depth else None
    return value


def is_deep(value: Any, most: int = DEEPEST) -> bool:
    """Whether it is nested in more than `most` levels, so that recursion would not reach its end."""
    level: list[Any] = [value]
    for _ in range(most + 1):
        lists = [cast(list[Any], one) for one in level if isinstance(one, list)]
        tables = [list(cast(dict[str, Any], one).values()) for one in level if isinstance(one, dict)]
        level = [item for items in (*lists, *tables) for item in items]
        if not level:
            return False
    return True


def whole(text: str) -> str:
    """Joins halves that are next to each other, and replaces a single half."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Halves:
    """One text that arrives in pieces: keeps back half a character until the other half comes."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def join(self, piece: str) -> str:
        text = self._held + piece
        self._held = ""
        if "\ud800" <= text[-1:] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        return whole(text)

    def rest(self) -> str:
        """At the end of the text: the replacement for a half whose other half never came."""
        held, self._held = self._held, ""
        return LOST if held else ""


def _whole_number(digits: str) -> int | float:
    return int(digits) if len(digits) < 20 else float(digits)
