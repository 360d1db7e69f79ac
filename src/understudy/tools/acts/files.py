"""Reads files and images for a model: masked files are refused under every name, and lines are numbered."""

import asyncio
import os
from collections.abc import Callable, Iterator
from functools import cache
from io import BytesIO, FileIO
from typing import Protocol, TypeVar

import msgspec

from understudy.errors import ToolError
from understudy.models.images import MOST_BYTES as MOST_IMAGE_BYTES
from understudy.models.images import image_url
from understudy.places.file_systems import FileSystems
from understudy.places.reading import LeadsElsewhere, NotForModels
from understudy.protocol.encodable import visible
from understudy.protocol.records import ImageViewed
from understudy.tools.acts.looking import Spot, judge_reading, shown, unsaved_text
from understudy.tools.acts.matching_lines import decoded
from understudy.tools.calls import ReadRequest, ToolOutput
from understudy.tools.host import ToolHost
from understudy.tools.output import file_bytes

MOST_BYTES = 64 * 1024 * 1024  # of a file: how much is searched for the lines
LONGEST_LINE = 2000  # characters of a line that are shown
_MOST_KEPT = 8 * LONGEST_LINE  # bytes of a line
_PIECE = 1 << 18
_HEAD = 8192  # bytes that show whether a file is text
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
    """Raises ValueError, with a text for people, if the file has no lines to show."""
    head = file.read(_HEAD) or b""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):  # UTF-16: decoded as a whole
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
        """The lines, each cut a little longer than is shown; a number for lines that are only counted, because there may be
        millions; None at the end if the file goes on beyond what we read.
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
        """Whether one of these lines will be shown."""
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


def is_near(path: str, base: str = "/") -> bool:
    """Whether an absolute path, seen from the folder `base`, has no link on the way and so can be read at once."""
    if ".." in path.split("/"):
        return False
    try:
        whole = os.fsencode(os.path.normpath(f"{base}/{path}"))
    except UnicodeEncodeError:
        return False  # whoever opens it reports that it is missing
    return _file_systems().is_local_all_along(whole)


@cache
def _file_systems() -> FileSystems:
    return FileSystems()


T = TypeVar("T")
MOST_AT_ONCE = 64 * 1024  # bytes of a file that is read without a thread
NOT_SAVED = "[this is what the user has in an editor, and has not saved yet]"


async def read_file(host: ToolHost, path: str, most: int) -> bytes:
    """The beginning of a regular file. Raises `ToolError` with a reason for the model."""
    said = None if host.unsaved is None else await _unsaved(host, path)
    return await with_file(host, path, lambda file: head(file, most)) if said is None else said.encode()[:most]


async def read_lines(host: ToolHost, call_id: str, request: ReadRequest) -> ToolOutput:
    """The lines with their numbers, no more than a model may be given. Raises `ToolError`."""
    return await shown(host, call_id, "read_file", request, _read_lines(host, request))


async def _read_lines(host: ToolHost, request: ReadRequest) -> ToolOutput:
    lines = LineRange(request.start_line or 1, request.end_line)
    room = file_bytes(host.settings.output_tokens)
    said = None if host.unsaved is None else await _unsaved(host, request.path)
    if said is not None:
        return ToolOutput(f"{numbered(BytesIO(said.encode()), lines, room)}\n{NOT_SAVED}")
    return ToolOutput(await with_file(host, request.path, lambda file: numbered(file, lines, room)))


async def _unsaved(host: ToolHost, path: str) -> str | None:
    return await unsaved_text(host, path)


async def with_file(host: ToolHost, path: str, read: Callable[[FileIO], T]) -> T:
    """Open the file and return what `read` returns, which may raise ValueError with a text. Raises `ToolError`."""
    spot = Spot(host, path)
    judge_reading(host, spot, path)
    if is_near(spot.path, spot.base):
        try:
            return _read(host, spot, path, read, at_once=True)
        except (LeadsElsewhere, _Large):
            pass
    return await asyncio.to_thread(_read, host, spot, path, read)  # the disk may be slow, and others wait for the event loop


class _Large(Exception):
    pass


def _read(host: ToolHost, spot: Spot, path: str, read: Callable[[FileIO], T], *, at_once: bool = False) -> T:
    """`at_once`: raises `LeadsElsewhere` or `_Large` if it may take long."""
    places = host.settings.places
    try:
        with open(places.open_for_model(spot.path, *spot.hidden, base=spot.base, follow=not at_once), "rb", buffering=0) as file:
            os.set_blocking(file.fileno(), True)
            if at_once and os.fstat(file.fileno()).st_size > MOST_AT_ONCE:
                raise _Large
            return read(file)
    except NotForModels as error:
        raise ToolError(f"{path} may not be read: {error}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ToolError(f"{path} cannot be read: {reason}") from None


def head(file: FileIO, most: int) -> bytes:
    pieces: list[bytes] = []
    while most > 0 and (piece := file.read(min(most, 1 << 20))):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)


async def view_image(host: ToolHost, call_id: str, path: str) -> ToolOutput:
    """The image as the model sees it, without metadata. Raises `ToolError`."""
    url = await with_file(host, path, lambda file: image_url(head(file, MOST_IMAGE_BYTES + 1)))
    host.record(ImageViewed(call_id, _absolute(host.settings.cwd, path)))
    return ToolOutput("", images=(url,))


def _absolute(cwd: str, path: str) -> str:
    return visible(os.path.normpath(os.path.join(cwd, path)))
