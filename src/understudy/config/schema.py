"""Reads a configuration tree with type checks.

Reports a wrong type in the words that clients of `codex` know, with the dotted key.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from understudy.protocol.serde import found, one_of, unknown_variant

Tree = Mapping[str, Any]
T = TypeVar("T")

_LARGEST_COUNT = 2**63 - 1


class Mismatch(Exception):
    """What is wrong with the value at `key`; `wanted` is what was expected."""

    def __init__(self, key: str, complaint: str, wanted: str) -> None:
        super().__init__(complaint)
        self.key = key
        self.complaint = complaint
        self.wanted = wanted

    def reason(self) -> str:
        """Both on one line, unless the complaint already says what was expected."""
        said = self.complaint.endswith(f"expected {self.wanted}")
        return self.complaint if said else f"{self.complaint}; it should be {self.wanted}"


def invalid_type(value: object, expected: str) -> str:
    return f"invalid type: {found(value)}, expected {expected}"


class TreeReader:
    """Reads a tree by dotted keys. A missing key gives None (or an empty collection); a wrong type raises `Mismatch`."""

    def __init__(self, tree: Tree, prefix: str = "") -> None:
        self._tree = tree
        self._prefix = prefix

    def value(self, key: str) -> Any:
        at: Any = self._tree
        walked = self._prefix
        for part in key.split("."):
            if not isinstance(at, Mapping):
                raise Mismatch(walked, invalid_type(at, "a map"), "a table")
            at = cast(Tree, at).get(part)
            if at is None:
                return None
            walked = f"{walked}.{part}" if walked else part
        return at

    def text(self, key: str) -> str | None:
        return self._checked(key, str, "a string", "a string")

    def flag(self, key: str) -> bool | None:
        return self._checked(key, bool, "a boolean", "`true` or `false`")

    def count(self, key: str, expected: str = "u64") -> int | None:
        value = self.value(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.mismatch(key, invalid_type(value, expected), "a whole number")
        if not 0 <= value <= _LARGEST_COUNT:
            raise self.mismatch(key, f"invalid value: integer `{value}`, expected {expected}", "a whole number, 0 or more")
        return value

    def amount(self, key: str) -> float | None:
        value = self.value(key)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.mismatch(key, invalid_type(value, "f64"), "a number")
        if not 0 <= value < float("inf"):  # also excludes NaN
            raise self.mismatch(key, f"invalid value: `{value}`", "a number, 0 or more")
        return float(value)

    def choice(self, key: str, variants: Sequence[str]) -> str | None:
        value = self._checked(key, str, "a string", one_of(variants))
        if value is not None and value not in variants:
            raise self.mismatch(key, unknown_variant(value, variants), one_of(variants))
        return value

    def texts(self, key: str) -> tuple[str, ...] | None:
        items = self._items(key, str, "a string", "a list of strings")
        return None if items is None else tuple(items)

    def tables(self, key: str) -> tuple[Tree, ...]:
        return tuple(cast(list[Tree], self._items(key, dict, "a map", "a list of tables") or []))

    def table(self, key: str) -> Tree | None:
        return cast(Tree | None, self._checked(key, dict, "a map", "a table"))

    def text_table(self, key: str) -> Mapping[str, str]:
        table = self.table(key) or {}
        for name, item in table.items():
            if not isinstance(item, str):
                raise Mismatch(self.full(f"{key}.{name}"), invalid_type(item, "a string"), "a string")
            self._check_text(f"{key}.{name}", item, "a string")
        return table

    def named_tables(self, key: str) -> Mapping[str, Tree]:
        """A table whose values are all tables."""
        table = self.table(key) or {}
        for name, item in table.items():
            if not isinstance(item, dict):
                raise Mismatch(self.full(f"{key}.{name}"), invalid_type(item, "a map"), "a table")
        return table

    def mismatch(self, key: str, complaint: str, wanted: str) -> Mismatch:
        return Mismatch(self.full(key), complaint, wanted)

    def full(self, key: str) -> str:
        return f"{self._prefix}.{key}" if self._prefix else key

    def _checked(self, key: str, kind: type[T], expected: str, wanted: str) -> T | None:
        value = self.value(key)
        if value is None or isinstance(value, kind):
            self._check_text(key, value, wanted)
            return value
        raise self.mismatch(key, invalid_type(value, expected), wanted)

    def _check_text(self, key: str, value: object, wanted: str) -> None:
        """No path, name or address contains a NUL; the system would reject it much later, where the key is no longer known."""
        if isinstance(value, str) and "\0" in value:
            raise self.mismatch(key, "invalid value: a string with a NUL character", f"{wanted}, without a NUL character")

    def _items(self, key: str, kind: type[T], expected: str, wanted: str) -> list[T] | None:
        items = cast(list[object] | None, self._checked(key, list, "a sequence", wanted))
        for item in items or ():
            if not isinstance(item, kind):
                raise self.mismatch(key, invalid_type(item, expected), wanted)
            self._check_text(key, item, wanted)
        return cast(list[T] | None, items)
