"""Reads config.toml, again only when it has changed."""

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from understudy.config.schema import Tree
from understudy.config.slips import Slip, find_slips
from understudy.errors import ConfigError

if TYPE_CHECKING:
    import tomllib

_Stamp = tuple[int, int, int]


class ConfigFile(msgspec.Struct, frozen=True):
    path: Path
    tree: Tree  # conversations share it, so it is never changed
    slips: tuple[Slip, ...]


_read_files: dict[str, tuple[_Stamp, ConfigFile]] = {}


def absent_file(home: Path) -> ConfigFile:
    """As if there were no file."""
    return _absent(home / "config.toml")


def read_config_file(home: Path, name: str = "config.toml") -> ConfigFile:
    """Read a file of the configuration folder; a missing one counts as empty. Raises `ConfigError` with the place of a syntax
    error."""
    spelled = f"{home}/{name}"  # not a Path yet, because every conversation needs this
    try:
        stamp = _stamp(os.stat(spelled))
    except FileNotFoundError:
        return _absent(home / name)
    except OSError as error:
        raise ConfigError(f"cannot read {spelled}: {error.strerror}") from None
    known = _read_files.get(spelled)
    if known and known[0] == stamp:
        return known[1]
    path = home / name
    stamp, text = _read(path)
    tree = parse_toml(path, text)
    file = ConfigFile(path, tree, tuple(find_slips(tree)))
    _read_files[spelled] = stamp, file
    return file


@lru_cache(4)
def _absent(path: Path) -> ConfigFile:
    return ConfigFile(path, {}, ())


def _stamp(stat: os.stat_result) -> _Stamp:
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _read(path: Path) -> tuple[_Stamp, str]:
    try:
        with open(path, "rb") as file:
            stamp = _stamp(os.fstat(file.fileno()))  # of the open file, in case it is replaced just now
            data = file.read()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    try:
        return stamp, data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read {path}: it is not UTF-8 (byte {error.start})") from None


def parse_toml(path: Path, text: str) -> Tree:
    """Raises `ConfigError` that shows the line with the error."""
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_show_slip(path, text, error)) from None
    except RecursionError:
        raise ConfigError(f"cannot read {path}: its tables are nested too deeply") from None


def _show_slip(path: Path, text: str, error: "tomllib.TOMLDecodeError") -> str:
    """The line with a caret below the error. The parser gives the place only in words: `… (at line 1, column 9)`."""
    reason, _, place = str(error).rpartition(" (at ")
    words = place.rstrip(")").replace(",", "").split()
    lines = text.splitlines()
    if words[:1] == ["line"] and len(words) == 4:
        row, column = int(words[1]), int(words[3])
    else:  # "end of document"
        row, column = max(len(lines), 1), len(lines[-1]) + 1 if lines else 1
    line = lines[row - 1] if row <= len(lines) else ""
    margin = " " * len(str(row))
    return (
        f"TOML parse error at line {row}, column {column}\n{margin} |\n{row} | {line}\n{margin} | {' ' * (column - 1)}^\n"
        f"{reason or error}\nin {path}"
    )
