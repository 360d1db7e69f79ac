"""Typed reading of tables that users write for us. What is wrong is named with its place and what should stand there."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from understudy.errors import ConfigError

Table = Mapping[str, Any]


def as_table(value: object, where: str) -> Table:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: expected a table")
    return cast(dict[str, Any], value)


def refuse_unknown(table: Table, known: Sequence[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise ConfigError(f"{where}: `{key}` is not known here. Expected {listed(known)}")


def read_text(table: Table, key: str, where: str) -> str | None:
    value = table.get(key)
    if value is not None and not is_text(value):
        raise ConfigError(f"{where}.{key}: expected text")
    return value


def read_texts(table: Table, key: str, where: str) -> tuple[str, ...]:
    return cast(tuple[str, ...], read_list(table, key, where, "a list of texts that are not empty", is_text))


def read_list(table: Table, key: str, where: str, expected: str, fits: Callable[[object], bool]) -> tuple[object, ...]:
    """Empty where the key is missing; a list that is there must have items."""
    value = table.get(key)
    if value is None:
        return ()
    items: tuple[object, ...] = tuple(cast(list[object], value)) if isinstance(value, list) else ()
    if not items or not all(map(fits, items)):
        raise ConfigError(f"{where}.{key}: expected {expected}")
    return items


def read_flag(table: Table, key: str, where: str) -> bool | None:
    value = table.get(key)
    if value is not None and not isinstance(value, bool):
        raise ConfigError(f"{where}.{key}: expected true or false")
    return value


def read_choice(table: Table, key: str, choices: Sequence[str], where: str) -> str | None:
    value = table.get(key)
    if value is not None and value not in choices:
        raise ConfigError(f"{where}.{key} is {value!r}. Expected {listed(choices)}")
    return value


def is_text(value: object) -> bool:
    return isinstance(value, str) and value != "" and "\0" not in value


def is_texts(value: object) -> bool:
    return isinstance(value, list) and value != [] and all(map(is_text, cast(list[object], value)))


def listed(choices: Sequence[str]) -> str:
    quoted = [f"`{choice}`" for choice in choices]
    return ", ".join(quoted[:-1]) + " or " + quoted[-1]
