"""Changes the user's config.toml: finds a key in the text, changes one place and keeps the rest as it was written; replaces the
file as a whole, one process at a time.
"""

import os
import stat
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from understudy.config.file import parse_toml
from understudy.config.private_file import PrivateFile
from understudy.config.schema import Tree
from understudy.errors import ConfigError

Place = tuple[str, ...]


def split_key(key: str) -> Place:
    """The names in a dotted key, including quoted ones. A key that is not valid TOML is split at its dots."""
    try:
        return _only_place(tomllib.loads(f"{key} = 0"))
    except tomllib.TOMLDecodeError:
        return tuple(key.split("."))


def line_of(text: str, place: Place, number: int = 1) -> int | None:
    """The line, from 1, that sets this key, or the nearest table or key above it; None if there is none.

    `number`: which of the tables `[[place]]`.
    """
    table: Place = ()
    best: tuple[int, int] | None = None  # how many parts of the key it names, and the line
    quotes = ""  # the quotes of a text over several lines
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
    """The key of `key = …`. A quoted key may contain a `=`, so each is tried."""
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
        if isinstance(at, list):  # written as `[[a]]`
            at = cast(list[object], at)[0]
        elif isinstance(at, dict):
            [(key, at)] = cast(dict[str, object], at).items()
            keys.append(key)
        else:
            break
    return tuple(keys)


TomlTree = dict[str, Any]


def with_table(text: str, place: Place, table: Mapping[str, Any]) -> str:
    """Add a table at a place that has none. The tables in `table` get headings of their own."""
    wanted = tomllib.loads(text)
    _put(wanted, place, dict(table))
    return _first_that_says(wanted, text, lambda: _appended(text, place, table), lambda: _by_tomlkit(text, place, table))


def with_value(text: str, place: Place, value: Any) -> str:
    """Set the value at that place, whatever was there."""
    wanted = tomllib.loads(text)
    _put(wanted, place, value)
    *table, key = place
    ways = [lambda: _appended(text, tuple(table), {key: value})] if table else []  # if there is no such table yet
    return _first_that_says(wanted, text, *ways, lambda: _by_tomlkit(text, place, value))


def without(text: str, place: Place) -> str:
    """Remove the value or table there; unchanged if there is none.

    Comments after a table stay, because they may be about what follows. Tables that only led to it may be removed with it.
    """
    wanted = tomllib.loads(text)
    if not _take_out(wanted, place):
        return text
    rest = _without_headings(text, place)
    if _or_nothing(rest) == _without_empty(wanted):
        return rest
    return _first_that_says(wanted, text, lambda: _removed_by_tomlkit(text, place))


def _or_nothing(text: str) -> TomlTree | None:
    try:
        return _without_empty(tomllib.loads(text))
    except tomllib.TOMLDecodeError:
        return None


def _first_that_says(wanted: TomlTree, before: str, *ways: Callable[[], str]) -> str:
    """Try several ways to change a text. None may lose a comment; tomlkit loses some between tables."""
    from tomlkit.exceptions import TOMLKitError

    for way in ways:
        try:
            text = _with_ends_of(before, way())
        except (TOMLKitError, AttributeError, KeyError, TypeError, ValueError):
            continue  # from a library that does not know every way to write a table
        if _or_nothing(text) == _without_empty(wanted) and _comments(text) == _comments(before):
            return text
    raise ConfigError("it is written in a way that cannot be changed by program: change it by hand")


def _with_ends_of(before: str, text: str) -> str:
    """A last line without an end may have become one in the middle, where tomlkit ends it in its own way."""
    if "\r\n" not in before or "\n" in before.replace("\r\n", ""):
        return text
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


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
    """Remove the lines below `[place]` and the tables inside it, up to the last that is neither blank nor a comment."""
    kept: list[str] = []
    trailing: list[str] = []
    inside = False
    for line in text.splitlines(keepends=True):
        heading = _written_heading(line)
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


def _written_heading(line: str) -> Place | None:
    """The keys of a line `[a.b]`. It may also be part of a text over several lines; checking the result reveals that."""
    if not line.lstrip().startswith("["):
        return None
    try:
        at: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return None
    keys: list[str] = []
    while at:
        if isinstance(at, list):  # written as `[[a]]`
            at = cast(list[Any], at)[0]
            continue
        [(key, at), *_] = cast(TomlTree, at).items()
        keys.append(key)
    return tuple(keys)


def _put(tree: Any, place: Place, value: Any) -> None:
    *way, last = place
    at = cast(TomlTree, tree)
    for key in way:
        if not isinstance(at.setdefault(key, {}), dict):
            raise ConfigError(f"`{key}` is not a table there: correct that first")
        at = at[key]
    at[last] = value


def _take_out(tree: Any, place: Place) -> bool:
    """Whether it was there."""
    *way, last = place
    at = cast(TomlTree, tree)
    for key in way:
        if not isinstance(at.get(key), dict):
            return False
        at = at[key]
    return at.pop(last, None) is not None


def _without_empty(tree: TomlTree) -> TomlTree:
    """For comparing: an empty table means the same as none."""
    cleaned = {key: _without_empty(cast(TomlTree, value)) if isinstance(value, dict) else value for key, value in tree.items()}
    return {key: value for key, value in cleaned.items() if value != {}}


def edit_config_file(home: Path, change: Callable[[str], str], check: Callable[[Tree], None] | None = None) -> Path:
    """Apply `change` (see above) to the file, create it if needed, and return its path.

    `check` gets the new content. Raises `ConfigError`, as may `change` and `check`; then nothing is written.
    """
    path = home / "config.toml"
    try:
        with PrivateFile(home / "understudy" / "config.toml").locked():
            real = Path(os.path.realpath(path))  # some people keep the file elsewhere, with a link to it here
            text, status = _read(real)
            parse_toml(path, text)
            changed = change(text)
            if changed == text:
                return path
            if check is not None:
                check(parse_toml(path, changed))
            _write(real, changed, status)
    except OSError as error:
        raise ConfigError(f"{error.filename or path} cannot be written: {error.strerror}") from None
    return path


def _read(path: Path) -> tuple[str, os.stat_result | None]:
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            return file.read().decode(), status
    except FileNotFoundError:
        return "", None
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read {path}: it is not UTF-8 (byte {error.start})") from None


def _write(path: Path, text: str, before: os.stat_result | None) -> None:
    """All or nothing, with the owner and permissions that the file had."""
    beside = path.with_name(f".{path.name}.{os.urandom(6).hex()}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if before is not None:
                if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(file.fileno(), before.st_uid, before.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        if not _unchanged(path, before):
            raise ConfigError(f"{path} was changed by someone else just now: look at it, and try again")
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def _unchanged(path: Path, before: os.stat_result | None) -> bool:
    try:
        now = os.stat(path)
    except FileNotFoundError:
        return before is None
    return before is not None and (now.st_ino, now.st_mtime_ns, now.st_size) == (before.st_ino, before.st_mtime_ns, before.st_size)
