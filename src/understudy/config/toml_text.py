"""Changing a TOML text in one place: the rest, comments too, stays as it was written. Each change is checked by reading the result.

Everything here takes a text that is TOML, and raises `ConfigError` where it is written in a way that cannot be changed so.
"""

import tomllib
from collections.abc import Callable, Mapping
from typing import Any, cast

from understudy.errors import ConfigError

Place = tuple[str, ...]  # the keys that lead to a value
Tree = dict[str, Any]


def with_table(text: str, place: Place, table: Mapping[str, Any]) -> str:
    """With a table of its own at a place where there was none. The tables in `table` get headings of their own."""
    wanted = tomllib.loads(text)
    _put(wanted, place, dict(table))
    return _first_that_says(wanted, text, lambda: _appended(text, place, table), lambda: _by_tomlkit(text, place, table))


def with_value(text: str, place: Place, value: Any) -> str:
    """With the value at that place, whatever stood there."""
    wanted = tomllib.loads(text)
    _put(wanted, place, value)
    *table, key = place
    ways = [lambda: _appended(text, tuple(table), {key: value})] if table else []  # where there is no such table yet
    return _first_that_says(wanted, text, *ways, lambda: _by_tomlkit(text, place, value))


def without(text: str, place: Place) -> str:
    """Without the value or table there, and unchanged where there is none.

    Comments behind a table stay: they may be about what follows. Tables that only led there may be gone with it.
    """
    wanted = tomllib.loads(text)
    if not _take_out(wanted, place):
        return text
    rest = _without_headings(text, place)
    if _or_nothing(rest) == _without_empty(wanted):
        return rest
    return _first_that_says(wanted, text, lambda: _removed_by_tomlkit(text, place))


def _or_nothing(text: str) -> Tree | None:
    try:
        return _without_empty(tomllib.loads(text))
    except tomllib.TOMLDecodeError:
        return None


def _first_that_says(wanted: Tree, before: str, *ways: Callable[[], str]) -> str:
    """Of several ways to change a text. None may lose a comment, which tomlkit does for some that stand between tables."""
    from tomlkit.exceptions import TOMLKitError

    for way in ways:
        try:
            text = way()
        except (TOMLKitError, AttributeError, KeyError, TypeError, ValueError):
            continue  # of a library that does not know every way to write a table
        if _or_nothing(text) == _without_empty(wanted) and _comments(text) == _comments(before):
            return text
    raise ConfigError("it is written in a way that cannot be changed by program: change it by hand")


def _comments(text: str) -> list[str]:
    return sorted(line.strip() for line in text.splitlines() if line.lstrip().startswith("#"))


def _appended(text: str, place: Place, table: Mapping[str, Any]) -> str:
    end = "\r\n" if "\r\n" in text else "\n"
    blocks = [text.rstrip("\r\n"), *(block.replace("\n", end) for block in _blocks(place, table))]
    return f"{end}{end}".join(block for block in blocks if block) + end


def _blocks(place: Place, table: Mapping[str, Any]) -> list[str]:
    import tomlkit

    values = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    tables = {key: cast(Mapping[str, Any], value) for key, value in table.items() if isinstance(value, Mapping)}
    heading = ".".join(tomlkit.key(key).as_string() for key in place)
    blocks = [f"[{heading}]\n{tomlkit.dumps(values)}".rstrip("\n")] if values or not tables else []
    for key, inner in tables.items():
        blocks += _blocks((*place, key), inner)
    return blocks


def _by_tomlkit(text: str, place: Place, value: Any) -> str:
    import tomlkit

    document = tomlkit.parse(text)
    _put(document, place, value)
    return tomlkit.dumps(document)


def _removed_by_tomlkit(text: str, place: Place) -> str:
    import tomlkit

    document = tomlkit.parse(text)
    _take_out(document, place)
    return tomlkit.dumps(document)


def _without_headings(text: str, place: Place) -> str:
    """Without the lines under `[place]` and under what lies in it, up to the last that is neither blank nor a comment."""
    kept: list[str] = []
    trailing: list[str] = []
    inside = False
    for line in text.splitlines(keepends=True):
        heading = _heading(line)
        if heading is not None:
            kept += trailing
            trailing = []
            inside = heading[: len(place)] == place
        if not inside:
            kept.append(line)
        elif not line.strip() or line.lstrip().startswith("#"):
            trailing.append(line)
        else:
            trailing = []
    return "".join(kept + trailing)


def _heading(line: str) -> Place | None:
    """The keys of a line `[a.b]`. It may also be part of a text of several lines, which the check of the result tells."""
    if not line.lstrip().startswith("["):
        return None
    try:
        at: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return None
    keys: list[str] = []
    while at:
        if isinstance(at, list):  # of `[[a]]`
            at = cast(list[Any], at)[0]
            continue
        [(key, at), *_] = cast(Tree, at).items()
        keys.append(key)
    return tuple(keys)


def _put(tree: Any, place: Place, value: Any) -> None:
    *way, last = place
    at = cast(Tree, tree)
    for key in way:
        if not isinstance(at.setdefault(key, {}), dict):
            raise ConfigError(f"`{key}` is not a table there: correct that first")
        at = at[key]
    at[last] = value


def _take_out(tree: Any, place: Place) -> bool:
    """Whether it was there."""
    *way, last = place
    at = cast(Tree, tree)
    for key in way:
        if not isinstance(at.get(key), dict):
            return False
        at = at[key]
    return at.pop(last, None) is not None


def _without_empty(tree: Tree) -> Tree:
    """Whether a table that holds nothing is there makes no difference to anybody."""
    cleaned = {key: _without_empty(cast(Tree, value)) if isinstance(value, dict) else value for key, value in tree.items()}
    return {key: value for key, value in cleaned.items() if value != {}}
