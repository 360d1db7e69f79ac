"""The new text of an updated file. Pure.

Text that no chunk names stays as it was, byte for byte: line endings of every kind, a byte order mark, a missing final newline.
Lines in a chunk are written as the patch spells them; added lines get the file's first line ending.

Also finds a chunk's lines in a file. Pure, and limited: hostile files and patches cost seconds at worst.

Each distinct line becomes one character, so that searching for lines is searching for a substring: the interpreter's own search is
linear, where a loop over candidates would be quadratic.
"""

import re
from collections.abc import Callable, Sequence

import msgspec

from understudy.errors import PatchError

from .grammar import WHITESPACE, Chunk

MAX_LINES = 1_000_000  # one character for each distinct line; Unicode has 1,114,112
_MAX_WORK = 2_000_000_000  # characters compared at most; about a nanosecond each

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
    """The lines may exist, but finding them would take too long."""


def _exact(line: str) -> str:
    return line


def _without_trailing_blanks(line: str) -> str:
    return line.rstrip(WHITESPACE)


def _stripped(line: str) -> str:
    return line.strip(WHITESPACE)


def _folded(line: str) -> str:
    stripped = line.strip(WHITESPACE)
    return stripped if stripped.isascii() else stripped.translate(_PLAIN)


# From strict to lenient. Each is tried over the whole range before the next, so that an exact match further down wins over an
# approximate one further up.
_PASSES: tuple[Callable[[str], str], ...] = (_exact, _without_trailing_blanks, _stripped, _folded)


class LineIndex:
    """The lines of one file, prepared for many searches."""

    def __init__(self, lines: Sequence[str]) -> None:
        if len(lines) > MAX_LINES:
            raise TooMuchWork(f"it has {len(lines)} lines, more than the {MAX_LINES} a patch is matched against")
        self._lines = lines
        self._encoded: list[_EncodedLines] = []
        self._work = 0

    def seek(self, pattern: Sequence[str], start: int, *, at_end: bool = False) -> int | None:
        """The index of the first run of lines equal to `pattern`, at or after `start`; None if there is none.

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
        # The interpreter searches short texts by another algorithm, which can cost their length at every place.
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
        """None if one of the lines is nowhere in the file."""
        try:
            return "".join([self._characters[self._normal(line)] for line in pattern])
        except KeyError:
            return None


_BYTE_ORDER_MARK = "\ufeff"
_LINE_END = re.compile("(\r\n|\n|\r)")
_MAX_QUOTED = 8_000  # characters of missing lines that are quoted to the model, which wrote them itself


class _Lines(msgspec.Struct, frozen=True):
    texts: list[str]
    ends: list[str]  # one per line; only the last can be empty
    mark: str

    @property
    def new_end(self) -> str:
        """The file's first line ending. A single carriage return counts only if the file has no other ending."""
        return next((end for end in self.ends if "\n" in end), "\r" if "\r" in self.ends else "\n")

    @property
    def unfinished(self) -> bool:
        return bool(self.ends) and not self.ends[-1]


class _Edit(msgspec.Struct, frozen=True):
    start: int
    length: int
    marked: list[tuple[str, str]]  # lines with marks: " " kept, "-" removed, "+" added


def updated_text(text: str, chunks: Sequence[Chunk], shown_path: str) -> str:
    """`text` with every chunk applied. Raises `PatchError` if a chunk does not match."""
    lines = _split(text)
    try:
        edits = _locate(lines, chunks, shown_path)
    except TooMuchWork as error:
        raise PatchError(f"Failed to update {shown_path}: {error}") from None
    return _rebuild(lines, edits)


def _split(text: str) -> _Lines:
    mark = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""
    pieces = _LINE_END.split(text[len(mark) :]) if "\r" in text else None
    if pieces is None:
        texts = text[len(mark) :].split("\n")
        ends = ["\n"] * (len(texts) - 1)
    else:
        texts, ends = pieces[::2], pieces[1::2]
    if texts[-1]:
        ends.append("")
    else:
        texts.pop()
    return _Lines(texts, ends, mark)


def _locate(lines: _Lines, chunks: Sequence[Chunk], shown_path: str) -> list[_Edit]:
    index = LineIndex(lines.texts)
    edits: list[_Edit] = []
    at = 0
    for chunk in chunks:
        if chunk.context is not None:
            found = index.seek([chunk.context], at)
            if found is None:
                raise PatchError(f"Failed to find context '{chunk.context}' in {shown_path}")
            at = found + 1
        marked = _marked(chunk, lines.mark)
        if all(mark == "+" for mark, _ in marked):
            edits.append(_Edit(_end_of(lines.texts), 0, marked))
            continue
        edit = _place(index, marked, at, at_end=chunk.at_end)
        if edit is None:
            raise PatchError(f"Failed to find expected lines {_quoted(_old(marked))} in {shown_path}")
        edits.append(edit)
        at = edit.start + edit.length
    return edits


def _marked(chunk: Chunk, byte_order_mark: str) -> list[tuple[str, str]]:
    marked: list[tuple[str, str]] = []
    for line in chunk.lines:
        mark, text = (line[0], line[1:]) if line else (" ", "")
        if byte_order_mark:
            text = text.removeprefix(byte_order_mark)  # the file's own mark is kept apart and written once
        if mark != "+" and "\r" in text:
            marked.extend((mark, piece) for piece in text.split("\r"))  # the file's lines were split at these, too
        else:
            marked.append((mark, text))
    return marked


def _old(marked: list[tuple[str, str]]) -> list[str]:
    return [text for mark, text in marked if mark != "+"]


def _end_of(texts: list[str]) -> int:
    return len(texts) - 1 if texts and not texts[-1] else len(texts)


def _place(index: LineIndex, marked: list[tuple[str, str]], at: int, *, at_end: bool) -> _Edit | None:
    old = _old(marked)
    start = index.seek(old, at, at_end=at_end)
    if start is None and not old[-1]:
        marked = _without_trailing_blank(marked)
        old = old[:-1]
        start = index.seek(old, at, at_end=at_end)
    return None if start is None else _Edit(start, len(old), marked)


def _without_trailing_blank(marked: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """An empty last line that the file lacks is usually the gap before the next chunk: leave it out on both sides."""
    shorter = list(marked)
    last_old = max(position for position, (mark, _) in enumerate(shorter) if mark != "+")
    if shorter[last_old][0] == "-":
        del shorter[last_old]
    else:
        shorter[last_old] = ("+", "")
    last_new = max((position for position, (mark, _) in enumerate(shorter) if mark != "-"), default=None)
    if last_new is not None and not shorter[last_new][1]:
        if shorter[last_new][0] == "+":
            del shorter[last_new]
        else:
            shorter[last_new] = ("-", "")
    return shorter


def _rebuild(lines: _Lines, edits: list[_Edit]) -> str:
    texts: list[str] = []
    ends: list[str] = []
    new_end = lines.new_end
    copied = 0
    added_last = False
    for edit in sorted(edits, key=lambda edit: edit.start):
        # Lines added at the end of the file may be in the middle of what a later chunk replaces; they go after that.
        start = max(edit.start, copied)
        if copied < start:
            texts += lines.texts[copied:start]
            ends += lines.ends[copied:start]
            added_last = False
        position = start
        for mark, text in edit.marked:
            if mark != "-":
                texts.append(text)
                ends.append(new_end if mark == "+" else lines.ends[position])
                added_last = mark == "+"
            position += mark != "+"
        copied = start + edit.length
    if copied < len(lines.texts):
        texts += lines.texts[copied:]
        ends += lines.ends[copied:]
        added_last = False
    return lines.mark + _join(texts, _settle_ends(ends, lines, added_last=added_last))


def _settle_ends(ends: list[str], lines: _Lines, *, added_last: bool) -> list[str]:
    if lines.unfinished:
        if "" in ends[:-1]:
            ends[ends.index("")] = lines.new_end
        if added_last:
            ends[-1] = ""
    return ends


def _join(texts: list[str], ends: list[str]) -> str:
    pieces = [""] * (2 * len(texts))
    pieces[::2] = texts
    pieces[1::2] = ends
    return "".join(pieces)


def _quoted(lines: Sequence[str]) -> str:
    """`["a", "b"]`, quoted as upstream's messages are."""
    shown: list[str] = []
    room = _MAX_QUOTED
    for line in lines:
        if room <= 0:
            shown.append("…")
            break
        shown.append('"' + "".join(map(_escaped, line[:room])) + '"')
        room -= len(line) + 4
    return f"[{', '.join(shown)}]"


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    return character if character.isprintable() else f"\\u{{{ord(character):x}}}"
