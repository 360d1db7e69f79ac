"""Expected values that leave something open."""

from collections.abc import Mapping
from typing import Any, cast


class Matcher:
    """Equal to whatever `fits`."""

    def fits(self, value: Any) -> bool:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return self.fits(other)

    def __hash__(self) -> int:
        return 0


class Begins(Matcher):
    """A text that begins so; what follows is our own wording."""

    def __init__(self, start: str) -> None:
        self._start = start

    def fits(self, value: Any) -> bool:
        return isinstance(value, str) and value.startswith(self._start)

    def __repr__(self) -> str:
        return f"{self._start}<…>"


class Mentions(Matcher):
    """A text in which all of these stand."""

    def __init__(self, *parts: str) -> None:
        self._parts = parts

    def fits(self, value: Any) -> bool:
        return isinstance(value, str) and all(part in value for part in self._parts)

    def __repr__(self) -> str:
        return f"<a text with {' and '.join(self._parts)}>"


class AtLeast(Matcher):
    """An object with at least these members, lists of such objects likewise; other values are equal."""

    def __init__(self, wanted: Any) -> None:
        self._wanted = wanted

    def fits(self, value: Any) -> bool:
        return _covers(value, self._wanted)

    def __repr__(self) -> str:
        return f"<at least {self._wanted!r}>"


def _covers(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        there = cast(Mapping[str, Any], found)
        return all(key in there and _covers(there[key], value) for key, value in cast(Mapping[str, Any], wanted).items())
    if isinstance(wanted, list) and isinstance(found, list):
        return all(any(_covers(item, one) for item in cast(list[Any], found)) for one in cast(list[Any], wanted))
    return bool(found == wanted)


class _Something(Matcher):
    def fits(self, value: Any) -> bool:
        return bool(value)

    def __repr__(self) -> str:
        return "<something>"


SOMETHING = _Something()
