"""Lines of a file with their numbers, as a model reads them. A file of any size is gone through once, a piece at a time."""

from collections.abc import Iterator
from io import BytesIO
from typing import Protocol

import msgspec

from understudy.tools.acts.matching_lines import decoded

MOST_BYTES = 64 * 1024 * 1024  # of a file that are gone through
LONGEST_LINE = 2000  # characters of a line that are shown
_MOST_KEPT = 8 * LONGEST_LINE  # bytes of one
_PIECE = 1 << 18
_HEAD = 8192  # bytes by which text is told from other files
_KINDS = (
    (b"\x89PNG", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"%PDF", "PDF"),
    (b"\x7fELF", "program"),
)


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes | None: ...


class LineRange(msgspec.Struct, frozen=True):
    start: int = 1
    end: int | None = None  # included; None: as many as there is room for


def numbered(file: Readable, lines: LineRange, room: int) -> str:
    """Raises ValueError, in words, for what has no lines to show."""
    head = file.read(_HEAD) or b""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):  # of two bytes a character: decoded whole
        file = BytesIO((decoded(head + _rest(file, MOST_BYTES)) or "").encode())
        return _Page(lines, room).fill(file, file.read(_HEAD), "[the file is in UTF-16]")
    if b"\0" in head:
        raise ValueError(_describe_binary(head))
    return _Page(lines, room).fill(file, head)


def _describe_binary(head: bytes) -> str:
    kind = next((name for mark, name in _KINDS if head.startswith(mark)), None)
    advice = "; look at it with view_image" if kind is not None and kind.endswith("image") else ""
    return "it is a binary file" + (f" ({kind})" if kind else "") + advice


def _rest(file: Readable, most: int) -> bytes:
    pieces: list[bytes] = []
    while most > 0 and (piece := file.read(min(_PIECE, most))):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)


class _Page:
    def __init__(self, lines: LineRange, room: int) -> None:
        self._start = max(lines.start, 1)
        self._end = lines.end
        self._room = room
        self._total = 0  # lines so far
        self._full_at: int | None = None
        self._shown: list[str] = []
        self._notes: list[str] = []

    def fill(self, file: Readable, head: bytes, *notes: str) -> str:
        self._notes += notes
        with_return = replaced = unfinished = False
        for line in self._lines_of(file, head):
            if line is None:
                unfinished = True
                break
            if isinstance(line, int):
                self._total += line
                continue
            self._total += 1
            if not self._wants(self._total, self._total):
                continue
            with_return = with_return or line.endswith(b"\r")
            text = line.removeprefix(b"\xef\xbb\xbf" if self._total == 1 else b"").decode("utf-8", "replace").removesuffix("\r")
            replaced = replaced or "\ufffd" in text
            if not self._add(self._total, text):
                self._full_at = self._total
        self._tell(unfinished=unfinished)
        if with_return:
            self._notes.append("[lines end with CR LF]")
        if replaced:
            self._notes.append("[not all of it is UTF-8: � stands for what is not]")
        return "\n".join((*self._shown, *self._notes))

    def _lines_of(self, file: Readable, head: bytes) -> Iterator[bytes | int | None]:
        """The lines, each cut to more than is shown of one; a number for so many that are not shown, which are only counted: there
        may be millions. None where the file goes on beyond what is gone through.
        """
        line = b""
        size = 0
        piece: bytes | None = head
        while piece:
            size += len(piece)
            ends = piece.count(b"\n")
            if ends and not self._wants(self._total + 1, self._total + ends):
                yield ends
                line = b""
                piece = piece[piece.rindex(b"\n") + 1 :]
            first, *more = piece.split(b"\n")
            line = (line + first[:_MOST_KEPT])[:_MOST_KEPT]
            for each in more:
                yield line
                line = each[:_MOST_KEPT]
            if size >= MOST_BYTES:
                yield None
                return
            piece = file.read(_PIECE)
        if line:
            yield line

    def _wants(self, first: int, last: int) -> bool:
        """Whether one of these lines is to be shown."""
        return self._full_at is None and last >= self._start and (self._end is None or first <= self._end)

    def _add(self, number: int, text: str) -> bool:
        cut = f"{text[:LONGEST_LINE]}… [line cut]" if len(text) > LONGEST_LINE else text
        line = f"{number:>6}\t{cut}"
        self._room -= len(line.encode("utf-8", "replace")) + 1
        if self._room < 0 and self._shown:
            return False
        self._shown.append(line)
        return True

    def _tell(self, *, unfinished: bool) -> None:
        total, full_at = self._total, self._full_at
        of = f"more than {total}" if unfinished else str(total)
        if not total:
            self._notes.append("[the file is empty]")
        elif not self._shown:
            self._notes.append(f"[the file has {of} lines]")
        elif full_at is not None:
            last = self._start + len(self._shown) - 1
            self._notes.append(f"[lines {self._start}-{last} of {of}; go on with start_line {full_at}]")
        elif unfinished or self._start > 1 or (self._end is not None and self._end < total):
            last = self._start + len(self._shown) - 1
            self._notes.append(f"[lines {self._start}-{last} of {of}]")
