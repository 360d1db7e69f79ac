"""Writes argv as one line of shell, in the very quoting that clients of `codex` have always been shown."""

import re
from collections.abc import Sequence

# Taken from left to right, the longest piece that one style of quoting can hold, plain before single before double.
# A `^` stands only first in single quotes: old shells give it a meaning elsewhere.
_PLAIN = re.compile(r"[A-Za-z0-9+\-./:@\]_]+")
_SINGLE = re.compile(r"\^?[^'\\^]*")
_DOUBLE = re.compile(r"[^`$!^]+")
_ESCAPED_IN_DOUBLE = re.compile(r'["\\]')


def quote_command(argv: Sequence[str]) -> str:
    """The words with what quotes they need, one blank between them; plainly joined if a word holds a NUL, which no shell can."""
    if any("\0" in word for word in argv):
        return " ".join(argv)
    return " ".join(map(quote_word, argv))


def quote_word(word: str) -> str:
    if not word:
        return "''"
    if _PLAIN.fullmatch(word):
        return word
    pieces: list[str] = []
    position = 0
    while position < len(word):
        piece, position = _next_piece(word, position)
        pieces.append(piece)
    return "".join(pieces)


def _next_piece(word: str, start: int) -> tuple[str, int]:
    plain = _end(_PLAIN, word, start)
    single = _end(_SINGLE, word, start)
    double = _end(_DOUBLE, word, start)
    longest = max(plain, single, double)
    if plain == longest:
        return word[start:plain], plain
    if single == longest:
        return f"'{word[start:single]}'", single
    return '"' + _ESCAPED_IN_DOUBLE.sub(r"\\\g<0>", word[start:double]) + '"', double


def _end(style: re.Pattern[str], word: str, start: int) -> int:
    found = style.match(word, start)
    return found.end() if found else start
