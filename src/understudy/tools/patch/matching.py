"""Where in a file the lines of a chunk stand. Pure, and bounded: hostile files and patches cost seconds at worst.

Each line becomes one character, equal lines the same one, so that looking for a run of lines is looking for a
substring: the interpreter's own search, which is linear where a loop over candidates would be quadratic.
"""

from collections.abc import Callable, Sequence

from understudy.errors import PatchError

from .grammar import WHITESPACE

MAX_LINES = 1_000_000  # one character for each distinct line; Unicode has 1,114,112
_MAX_WORK = 2_000_000_000  # characters compared, at most; about a nanosecond each

_DASHES = (*range(0x2010, 0x2016), 0x2212)
_SINGLE_QUOTES = range(0x2018, 0x201C)
_DOUBLE_QUOTES = range(0x201C, 0x2020)
_BLANKS = (0x00A0, *range(0x2002, 0x200B), 0x202F, 0x205F, 0x3000)
_PLAIN = {
    **dict.fromkeys(_DASHES, "-"),
    **dict.fromkeys(_SINGLE_QUOTES, "'"),
    **dict.fromkeys(_DOUBLE_QUOTES, '"'),
    **dict.fromkeys(_BLANKS, " "),
}


class TooMuchWork(PatchError):
    """The lines may be there, but finding them would take too long."""


def _exact(line: str) -> str:
    return line


def _without_trailing_blanks(line: str) -> str:
    return line.rstrip(WHITESPACE)


def _stripped(line: str) -> str:
    return line.strip(WHITESPACE)


def _folded(line: str) -> str:
    stripped = line.strip(WHITESPACE)
    return stripped if stripped.isascii() else stripped.translate(_PLAIN)


# From strict to lenient. Each is tried over the whole range before the next, so that an exact match further down wins
# over a loose one further up.
_PASSES: tuple[Callable[[str], str], ...] = (_exact, _without_trailing_blanks, _stripped, _folded)


class LineIndex:
    """The lines of one file, ready to be searched many times."""

    def __init__(self, lines: Sequence[str]) -> None:
        if len(lines) > MAX_LINES:
            raise TooMuchWork(f"it has {len(lines)} lines, more than the {MAX_LINES} a patch is matched against")
        self._lines = lines
        self._encoded: list[_EncodedLines] = []
        self._work = 0

    def seek(self, pattern: Sequence[str], start: int, *, at_end: bool = False) -> int | None:
        """The index of the first run of lines equal to `pattern` at or after `start`; None where there is none.

        Raises `TooMuchWork`.
        """
        if not pattern:
            return start
        if len(pattern) > len(self._lines):
            return None
        if at_end:
            start = max(start, len(self._lines) - len(pattern))
        for number in range(len(_PASSES)):
            found = self._find(self._pass(number), pattern, start)
            if found is not None:
                return found
        return None

    def _pass(self, number: int) -> "_EncodedLines":
        if number == len(self._encoded):
            self._encoded.append(_EncodedLines(self._lines, _PASSES[number]))
        return self._encoded[number]

    def _find(self, encoded: "_EncodedLines", pattern: Sequence[str], start: int) -> int | None:
        needle = encoded.encode(pattern)
        if needle is None:
            return None
        found = encoded.text.find(needle, start)
        reached = found if found >= 0 else len(encoded.text)
        # Short needles are searched without the linear algorithm, and can cost their length at every place.
        self._work += max(0, reached - start) * min(len(needle), 100) + len(needle)
        if self._work > _MAX_WORK:
            raise TooMuchWork("its lines repeat so often that finding the place to change takes too long; use smaller chunks")
        return found if found >= 0 else None


class _EncodedLines:
    def __init__(self, lines: Sequence[str], normal: Callable[[str], str]) -> None:
        self._normal = normal
        normals = lines if normal is _exact else list(map(normal, lines))
        self._characters = {line: chr(number) for number, line in enumerate(dict.fromkeys(normals))}
        self.text = "".join(map(self._characters.__getitem__, normals))

    def encode(self, pattern: Sequence[str]) -> str | None:
        """None if one of the lines stands nowhere in the file."""
        try:
            return "".join([self._characters[self._normal(line)] for line in pattern])
        except KeyError:
            return None
