"""Settings that override the file: profiles, `-c key=value`, and the keys of a call's `config` argument."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from understudy.config.file import ConfigFile, read_config_file
from understudy.config.schema import Tree
from understudy.config.slips import Slip
from understudy.errors import ConfigError
from understudy.protocol.encodable import is_unicode, visible
from understudy.protocol.records import Overrides

_LARGEST_INTEGER = 2**63 - 1
_SMALLEST_INTEGER = -(2**63)


class Assignment(msgspec.Struct, frozen=True):
    key: str
    value: Any
    origin: str  # where it was set, for error texts


def parse_flag(text: str) -> tuple[str, Any]:
    """Parses `key=value` of a `-c` flag. A value that is not TOML is taken as a string, so `model=o3` needs no quotes."""
    if not is_unicode(text):
        raise ConfigError(
            f"`-c {visible(text)}` is not valid UTF-8: check how the terminal or the program that starts us encodes it"
        )
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals:
        raise ConfigError(f"`-c {text}` has no `=`: write -c key=value")
    if not key:
        raise ConfigError(f"`-c {text}` has no key before the `=`: write -c key=value")
    return key, _parse_value(value.strip())


def _parse_value(text: str) -> Any:
    import tomllib

    try:
        table = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        table = {}
    if len(table) == 1:  # more keys would mean that the text went on after its value
        return table["value"]
    return text.strip("\"'")


def from_json(value: Any) -> Any:
    """The TOML value for a JSON value. TOML has no null, so that becomes the empty string."""
    match value:
        case None:
            return ""
        case bool():
            return value
        case int():
            return value if _SMALLEST_INTEGER <= value <= _LARGEST_INTEGER else _as_float(value)
        case list():
            return [from_json(item) for item in cast(list[Any], value)]
        case dict():
            return {key: from_json(item) for key, item in cast(dict[str, Any], value).items()}
        case _:
            return value


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ConfigError("a number in `config` is too large: TOML's whole numbers have 64 bits") from None


def assignments(pairs: Iterable[tuple[str, Any]], origin: str) -> list[Assignment]:
    return [Assignment(key, from_json(value), origin) for key, value in pairs]


def apply(tree: Tree, settings: Iterable[Assignment]) -> Tree:
    """A copy of the tree with these settings; `tree` itself may be shared and stays unchanged."""
    for setting in settings:
        tree = apply_key(tree, setting.key, setting.value)
    return tree


def apply_key(tree: Tree, key: str, value: Any) -> Tree:
    """A copy of the tree with one dotted key set."""
    return _with_value(tree, key.split("."), value)


def _with_value(tree: object, path: list[str], value: Any) -> Tree:
    table = dict(cast(Tree, tree)) if isinstance(tree, Mapping) else {}  # anything that is not a table is replaced by one
    first, *rest = path
    table[first] = _with_value(table.get(first), rest, value) if rest else value
    return table


def merge(under: Tree, over: Tree) -> Tree:
    """Merges two trees: tables key by key; otherwise the value of `over` counts."""
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        both_tables = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[key] = merge(cast(Tree, below), cast(Tree, value)) if both_tables else value
    return merged


FILE_SUFFIX = ".config.toml"


class Profile(msgspec.Struct, frozen=True):
    name: str | None
    tree: Tree
    file: Path | None = None  # set if it has a file of its own
    slips: tuple[Slip, ...] = ()  # in that file

    def place(self, user_file: Path) -> str:
        return f"profile `{self.name}` in {self.file or user_file}"


def choose_profile(overrides: Overrides, laid_over: Tree, file: ConfigFile) -> Profile:
    """The profile with this name. If it exists as a table and as a file, the file wins. Raises `ConfigError`."""
    name = overrides.profile
    if name is None:
        name = laid_over.get("profile")
        if name is not None and not isinstance(name, str):
            raise ConfigError(f"invalid type in `profile`: it should be the name of a table under [profiles] in {file.path}")
    if not name:
        return Profile(None, {})
    profiles = laid_over.get("profiles")
    found: object = cast(Tree, profiles).get(name) if isinstance(profiles, Mapping) else None
    table = cast(Tree, found) if isinstance(found, Mapping) else None
    own = _own_file(name, file.path.parent)
    if own is not None:
        return Profile(name, merge(table or {}, own.tree), own.path, own.slips)
    if table is None:
        there = ", ".join(f"`{known}`" for known in cast(Tree, profiles)) if isinstance(profiles, Mapping) else ""
        hint = f"Profiles there: {there}." if there else "It has none."
        raise ConfigError(f"config profile `{name}` not found\nProfiles are the tables [profiles.NAME] of {file.path}. {hint}")
    return Profile(name, table)


def _own_file(name: str, home: Path) -> ConfigFile | None:
    if "/" in name or "\0" in name or name.startswith("."):
        return None
    path = home / f"{name}{FILE_SUFFIX}"
    return read_config_file(home, path.name) if path.is_file() else None
