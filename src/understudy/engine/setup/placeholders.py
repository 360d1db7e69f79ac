"""Puts the words behind a command's name into its text, as the program does for which it was written. Pure.

codex: `$1` is the first word, `$KEY` the value of `KEY=value`, and with such words `$$` is a dollar. Claude Code: `$ARGUMENTS[0]`
is the first word, and so is `$0` where a text has one; `arguments:` in the front matter gives words names. A place without a word
stays as it is written in Claude Code's files, since it may belong to a script.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

Style = Literal["codex", "claude", "skill"]

_PLACE = re.compile(
    r"(?P<escape>\\?)\$(?:ARGUMENTS\[(?P<at>\d{1,3})\]|(?P<all>ARGUMENTS)\b|(?P<number>\d{1,3})(?!\d)"
    r"|(?P<name>[A-Za-z_]\w*)|\{(?P<variable>\w+)\}|(?P<dollar>\$))"
)
_FROM_ZERO = re.compile(r"(?<!\\)\$(?:0(?!\d)|ARGUMENTS\[)")
_NAME = re.compile(r"[A-Za-z_]\w*")
_PAIR = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


class TooLong(Exception):
    """The text would have more characters than it may."""


class Words(msgspec.Struct, frozen=True):
    """What was typed behind the name."""

    typed: str
    style: Style = "codex"
    names: tuple[str, ...] = ()  # of the single words, in Claude Code's files
    variables: Mapping[str, str] = {}  # what `${NAME}` stands for


def named_words(field: str) -> tuple[str, ...]:
    """The front matter's `arguments`: a list in brackets, on lines of its own, or words."""
    return tuple(name for name in _NAME.findall(field) if name != "ARGUMENTS")


def fill(text: str, words: Words, most: int) -> str:
    """The text with the words in their places; behind it where it has none. Raises `TooLong`."""
    filling = _Filling(text, words)
    parts: list[str] = []
    length = at = 0
    for place in _PLACE.finditer(text):
        value = filling.value(place)
        if value is None:
            continue
        parts += (text[at : place.start()], value)
        length += place.start() - at + len(value)
        at = place.end()
        if length > most:
            raise TooLong
    filled = "".join((*parts, text[at:]))
    if words.typed and not filling.placed:
        filled = f"{filled}\n\nARGUMENTS: {words.typed}"
    if len(filled) > most:
        raise TooLong
    return filled


class _Filling:
    def __init__(self, text: str, words: Words) -> None:
        self.placed = False
        self._words = words
        self._values = _split(words.typed)
        self._first = 0 if words.style == "skill" or (words.style == "claude" and _FROM_ZERO.search(text)) else 1
        self._named: Mapping[str, str] = {}
        if words.style == "codex":
            self._named = {found[1]: found[2] for value in self._values if (found := _PAIR.fullmatch(value)) is not None}
        elif words.names:
            self._named = {name: self._values[at] if at < len(self._values) else "" for at, name in enumerate(words.names)}

    def value(self, place: re.Match[str]) -> str | None:
        """None: it stays as it is."""
        if self._words.style != "codex" and place["escape"]:
            return place[0][1:] if self._unescaped(place) is not None or place["number"] else None
        if place["escape"]:
            found = self._unescaped(place)  # a backslash means nothing in codex's files
            return None if found is None else f"\\{found}"
        return self._unescaped(place)

    def _unescaped(self, place: re.Match[str]) -> str | None:
        found = self._found(place)
        if found is not None and not place["escape"] and not place["variable"] and not place["dollar"]:
            self.placed = True
        return found

    def _found(self, place: re.Match[str]) -> str | None:
        codex = self._words.style == "codex"
        if place["all"]:
            return self._words.typed
        if place["at"]:
            return self._words.typed + f"[{place['at']}]" if codex else _nth(self._values, int(place["at"]))
        if place["number"]:
            number = int(place["number"])
            if codex:
                return (_nth(self._values, number - 1) or "") if 1 <= number <= 9 else None
            return _nth(self._values, number - self._first)
        if place["name"]:
            return self._named.get(place["name"])
        if place["variable"]:
            return self._words.variables.get(place["variable"])
        return "$" if codex and self._named else None


def _nth(values: Sequence[str], at: int) -> str | None:
    return values[at] if 0 <= at < len(values) else None


def _split(words: str) -> list[str]:
    try:
        return shlex.split(words)
    except ValueError:  # an unclosed quote
        return words.split()
