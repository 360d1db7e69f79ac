"""Masks secrets in shared files: each place gets a number, and a list says what the numbers stand for."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from understudy.policy.secrets import names_a_secret, secret_pattern

KNOWN_KIND = "a token or password of a well-known form"


# Output of `env` or a `.env` file: a variable in capitals that is named like a secret, and its value. Paths and numbers are not
# secrets.
_ASSIGNED = re.compile(
    r"(?<![A-Z0-9_])([A-Z][A-Z0-9_]{2,63})(?:\\{0,8}[\"'])?[ \t]{0,2}[=:][ \t]{0,2}(?:\\{0,8}[\"'])?"
    r"((?![./~]|\d+(?![^\s\"'`,;<>|(){}\[\]$\\]))[^\s\"'`,;<>|(){}\[\]$\\]{8,4096})"
)


class Masked(NamedTuple):
    number: int


class Row(NamedTuple):
    number: int
    what: str
    places: int


class Masking:
    """Masks values of variables that are named like secrets (ours and those in the text), and tokens of well-known kinds.

    The same secret always has the same number.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._names = {value: name for name, value in env.items() if names_a_secret(name)}
        self._pattern = secret_pattern(self._names)
        self._numbers: dict[str, int] = {}
        self._places: dict[int, int] = {}

    def pieces(self, text: str) -> list[str | Masked]:
        found: list[str | Masked] = []
        end = 0
        for match in self._pattern.finditer(text):
            if match.end() > match.start():
                found += [*self._assigned(text[end : match.start()]), self._mask(match[0])]
                end = match.end()
        return [*found, *self._assigned(text[end:])]

    def _assigned(self, text: str) -> list[str | Masked]:
        """Mask values of secret-like variables in the text that are not among our own."""
        found: list[str | Masked] = []
        end = 0
        for match in _ASSIGNED.finditer(text):
            if names_a_secret(match[1]):
                self._names.setdefault(match[2], match[1])
                found += [text[end : match.start(2)], self._mask(match[2])]
                end = match.end(2)
        return [*found, text[end:]]

    def _mask(self, secret: str) -> Masked:
        number = self._numbers.setdefault(secret, len(self._numbers) + 1)
        self._places[number] = self._places.get(number, 0) + 1
        return Masked(number)

    def first_line(self, text: str) -> list[str | Masked]:
        """Mask before cutting: a secret that is cut would not be recognised."""
        line: list[str | Masked] = []
        for piece in self.pieces(text.strip()):
            if isinstance(piece, str) and "\n" in piece:
                return [*line, piece.partition("\n")[0]]
            line.append(piece)
        return line

    def rows(self) -> list[Row]:
        return [Row(number, self._describe(secret), self._places[number]) for secret, number in self._numbers.items()]

    def _describe(self, secret: str) -> str:
        name = self._names.get(secret)
        return KNOWN_KIND if name is None else f"the value of {name}"


class Unmasked(Masking):
    """Leaves everything as it is, for comparing."""

    def __init__(self) -> None:
        super().__init__({})

    def pieces(self, text: str) -> list[str | Masked]:
        return [text]
