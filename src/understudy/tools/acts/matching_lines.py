"""The text of a file, and the lines in it that match a pattern. The searching process loads it. Pure apart from reading."""

import re
from collections.abc import Callable, Iterator
from io import FileIO

LONGEST_LINE = 400  # characters of a line that are shown
_BEFORE = 120  # of these, before the match if the line is too long

Matcher = Callable[[str], Iterator[tuple[int, str, int]]]  # gives for a text: line number, line, and where in it the match begins

_ENCODINGS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_META = re.compile(r"[\\.^$*+?{}\[\]|()]")
# A pattern with one of these may match a line but not the whole text, or be slow on a long text, so lines are tried one by one.
_NEEDS_LINES = re.compile(r"\\[AZBsSWDPpXnr]|\(\?(?!:|P<|i\))|\[|[*+?}]\+|\\x|\\u|\\0")


class FileText:
    def __init__(self, text: str, *, cut: bool) -> None:
        self.text = text
        self.cut = cut  # the file is longer

    @classmethod
    def read(cls, file: FileIO, most: int) -> "FileText | None":
        """None if it is not text: if it contains a NUL (ripgrep's rule) and has no UTF-16 mark."""
        data = read_up_to(file, most + 1)
        text = decoded(data[:most])
        return None if text is None else cls(text.replace("\r\n", "\n"), cut=len(data) > most)


def read_up_to(file: FileIO, most: int) -> bytes:
    pieces: list[bytes] = []
    while most > 0 and (piece := file.read(min(most, 1 << 20))):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)


def decoded(data: bytes) -> str | None:
    """None if it is not text."""
    for mark, encoding in _ENCODINGS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    return None if b"\0" in data else data.decode("utf-8", "replace")


def line_matcher(pattern: str) -> Matcher:
    """Raises ValueError if it is not a regular expression."""
    if not pattern:
        raise ValueError("the pattern is empty")
    if not _META.search(pattern):
        return lambda text: _lines_with(text, pattern)
    try:
        compiled = re.compile(pattern, re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"the pattern is no regular expression of Python's: {error}") from None
    in_whole = None if _NEEDS_LINES.search(pattern) else compiled.search
    return lambda text: _lines_that_fit(text, compiled, in_whole)


def _lines_with(text: str, words: str) -> Iterator[tuple[int, str, int]]:
    if "\n" in words:
        return
    at = text.find(words)
    number, counted = 1, 0
    while at >= 0:
        start = text.rfind("\n", 0, at) + 1
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        number += text.count("\n", counted, start)
        counted = start
        yield number, text[start:end], at - start
        at = text.find(words, end)


def _lines_that_fit(
    text: str, compiled: re.Pattern[str], in_whole: Callable[[str], object] | None
) -> Iterator[tuple[int, str, int]]:
    if in_whole is not None and not in_whole(text):
        return
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        if (found := compiled.search(line)) is not None:
            yield number, line, found.start()


def shown_line(line: str, at: int) -> str:
    """The line, or as much of it around the match as is worth showing."""
    if len(line) <= LONGEST_LINE:
        return line
    start = max(0, at - _BEFORE)
    end = start + LONGEST_LINE
    return ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")
