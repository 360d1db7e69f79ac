"""Where in a TOML text a key stands. The standard parser keeps no places, so the text is read once more, line by line."""

import tomllib
from typing import Any, cast

Place = tuple[str, ...]


def split_key(key: str) -> Place:
    """The names in a dotted key, quoted ones too. A key that is no TOML is split at its dots."""
    try:
        return _only_place(tomllib.loads(f"{key} = 0"))
    except tomllib.TOMLDecodeError:
        return tuple(key.split("."))


def line_of(text: str, place: Place, number: int = 1) -> int | None:
    """The line, from 1, that sets this key, or else the nearest table or key above it; None where none is found.

    `number`: which of the tables `[[place]]`.
    """
    table: Place = ()
    best: tuple[int, int] | None = None  # how much of the key it names, and the line
    quotes = ""  # of a text of several lines
    for at, line in enumerate(text.splitlines(), 1):
        if quotes:
            quotes = "" if quotes in line else quotes
            continue
        found = _heading(line)
        if found is not None:
            table = found
        else:
            key = _assigned(line)
            if key is None:
                continue
            found = (*table, *key)
            quotes = next((each for each in ('"""', "'''") if line.count(each) % 2), "")
        if found == place:
            number -= 1
        if found == place[: len(found)] and (best is None or len(found) > best[0] or (found == place and number >= 0)):
            best = len(found), at
    return None if best is None else best[1]


def _heading(line: str) -> Place | None:
    stripped = line.strip()
    if not stripped.startswith("["):
        return None
    try:
        return _only_place(tomllib.loads(stripped))
    except tomllib.TOMLDecodeError:
        return None


def _assigned(line: str) -> Place | None:
    """The key of `key = …`; a key may hold an `=` in quotes, so each is tried."""
    at = line.find("=")
    while at > 0:
        try:
            return _only_place(tomllib.loads(f"{line[:at]}= 0"))
        except tomllib.TOMLDecodeError:
            at = line.find("=", at + 1)
    return None


def _only_place(tree: dict[str, Any]) -> Place:
    keys: list[str] = []
    at: object = tree
    while at:
        if isinstance(at, list):  # of `[[a]]`
            at = cast(list[object], at)[0]
        elif isinstance(at, dict):
            [(key, at)] = cast(dict[str, object], at).items()
            keys.append(key)
        else:
            break
    return tuple(keys)
