"""One event as one line of JSON that every client can read: some of them give up on a line of 64 KiB."""

from typing import Any, cast

import msgspec

MOST_BYTES = 60_000  # of a line, its end included
SHORTEST_CUT = 200  # characters: shorter texts are left alone
MOST_ENTRIES = 50  # a list that is still too long keeps that many

_FIRST = frozenset({"aggregated_output"})  # what is cut before anything else, then
_SECOND = frozenset({"result", "arguments", "error"})

_encode = msgspec.json.Encoder().encode


def to_line(event: dict[str, Any]) -> bytes:
    line = _encode(event)
    if len(line) >= MOST_BYTES:
        line = _encode(_shortened(event, len(line)))
    return line + b"\n"


def cut(text: str, most: int) -> str:
    """The head and the tail of a text, with a mark between them that says how much is missing."""
    if len(text) <= most:
        return text
    mark = f"\n[... omitted {len(text) - most} of {len(text)} characters ...]\n"
    half = max(most // 2, 1)
    return text[:half] + mark + text[len(text) - (most - half) :]


def _shortened(event: dict[str, Any], size: int) -> dict[str, Any]:
    event = cast(dict[str, Any], msgspec.to_builtins(event))
    for names in (_FIRST, _SECOND, None):
        while size >= MOST_BYTES and (found := _longest(event, names)) is not None:
            holder, key = found
            text: str = holder[key]
            bytes_now = len(_encode(text))
            left = max(bytes_now - (size - MOST_BYTES) - 100, 0)
            most = min(int(len(text) * left / bytes_now), len(text) - SHORTEST_CUT // 2 - 1)
            holder[key] = cut(text, most) if most > SHORTEST_CUT else cut(text, SHORTEST_CUT // 2)
            size = len(_encode(event))
    while size >= MOST_BYTES and (entries := _longest_list(event)) is not None:  # thousands of short texts
        del entries[max(len(entries) // 2, 1) :]
        size = len(_encode(event))
    return event


def _longest(value: Any, within: frozenset[str] | None, *, inside: bool = False) -> tuple[Any, Any] | None:
    """The longest text, by what holds it and its key there; `within`: only below one of these names."""
    best: tuple[Any, Any] | None = None
    length = SHORTEST_CUT
    for key, below in _members(value):
        counts = inside or within is None or key in within
        itself = (value, key) if counts else None
        found = itself if isinstance(below, str) else _longest(below, within, inside=counts)
        if found is not None and len(found[0][found[1]]) > length:
            best, length = found, len(found[0][found[1]])
    return best


def _longest_list(value: Any) -> list[Any] | None:
    best: list[Any] | None = cast(list[Any], value) if isinstance(value, list) and len(cast(list[Any], value)) > 1 else None
    for _, below in _members(value):
        found = _longest_list(below)
        if found is not None and (best is None or len(found) > len(best)):
            best = found
    return best


def _members(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return list(cast(dict[Any, Any], value).items())
    return list(enumerate(cast(list[Any], value))) if isinstance(value, list) else []
