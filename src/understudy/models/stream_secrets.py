"""Removes secrets from what is recorded. A stream may spell out a secret piece by piece, so the search goes across its events."""

import json
import re
from collections.abc import Iterator
from typing import Any, cast

from understudy.models.mending import is_deep
from understudy.policy.secrets import REDACTED

_Slot = tuple[dict[str, Any] | list[Any], str | int]  # the place of a text in an event: its container, and the key
_DATA = re.compile(r"^data:[ ]?(\{.*)$", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]+")
DEEPEST = 12


def hide(value: Any, pattern: re.Pattern[str]) -> Any:
    """JSON without the secrets in its texts. Numbers and the structure stay."""
    if isinstance(value, str):
        return pattern.sub(REDACTED, value)
    if isinstance(value, list):
        return [hide(entry, pattern) for entry in cast(list[Any], value)]
    if isinstance(value, dict):
        return {_hide_name(key, pattern): hide(entry, pattern) for key, entry in cast(dict[str, Any], value).items()}
    return value


def _hide_name(name: str, pattern: re.Pattern[str]) -> str:
    """A field's name is usually a plain word, which might be somebody's password; only names that are more than that may hide a
    secret."""
    return name if _WORD.fullmatch(name) else pattern.sub(REDACTED, name)


def hide_in_body(body: str, pattern: re.Pattern[str]) -> str:
    """An answer without secrets, including those that only the joined pieces of a text show; everything else stays byte for
    byte."""
    found = list(_DATA.finditer(body))
    if not found and isinstance(whole := _parse(body), dict | list):
        clean = hide(whole, pattern)
        return body if clean == whole else _dump(clean)
    events = [_parse(match[1]) for match in found]
    texts: dict[Any, list[tuple[int, _Slot]]] = {}
    for number, event in enumerate(events):
        for key, slot in _slots(event, _kind(event)):
            texts.setdefault(key, []).append((number, slot))
    changed: set[int] = set()
    for pieces in texts.values():
        if len(pieces) > 1:
            changed |= _hide(pieces, pattern)
    parts: list[str] = []
    end = 0
    for number, match in enumerate(found):
        event = events[number]
        if event is not None:
            clean = hide(event, pattern)
            parts.append(pattern.sub(REDACTED, body[end : match.start(1)]))
            parts.append(match[1] if clean == event and number not in changed else _dump(clean))
            end = match.end(1)
    return "".join([*parts, pattern.sub(REDACTED, body[end:])])


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _hide(pieces: list[tuple[int, _Slot]], pattern: re.Pattern[str]) -> set[int]:
    """Changes the events in place. Returns the numbers of those that changed."""
    texts = [str(cast(Any, holder)[key]) for _, (holder, key) in pieces]
    changed: set[int] = set()
    for match in reversed(list(pattern.finditer("".join(texts)))):
        start = 0
        first = True
        for index, text in enumerate(texts):
            begin, stop = max(match.start() - start, 0), min(match.end() - start, len(text))
            start += len(text)
            if begin < stop:
                texts[index] = text[:begin] + (REDACTED if first else "") + text[stop:]
                first = False
                changed.add(pieces[index][0])
    for text, (_, (holder, key)) in zip(texts, pieces, strict=True):
        cast(Any, holder)[key] = text
    return changed


def _parse(text: str) -> Any:
    """None if it is not JSON, or is nested too deeply: then secrets are searched in its text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return None if is_deep(value) else value


def _kind(event: Any) -> tuple[Any, ...]:
    if not isinstance(event, dict):
        return ()
    table = cast(dict[str, Any], event)
    return tuple(str(table.get(name)) for name in ("type", "index", "item_id", "output_index"))


def _slots(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, _Slot]]:
    if len(path) > DEEPEST:
        return
    entries: Any
    if isinstance(value, dict):
        entries = cast(dict[str, Any], value).items()
    elif isinstance(value, list):
        entries = _numbered(cast(list[Any], value))
    else:
        return
    for key, entry in entries:
        if isinstance(entry, str):
            yield (*path, key), (cast(Any, value), key)
        else:
            yield from _slots(entry, (*path, key))


def _numbered(entries: list[Any]) -> Iterator[tuple[Any, Any]]:
    """By each entry's own number: the pieces of two calls may alternate, each alone in its list."""
    for place, entry in enumerate(entries):
        number: object = cast(dict[str, Any], entry).get("index") if isinstance(entry, dict) else None
        yield number if isinstance(number, int) else place, entry
