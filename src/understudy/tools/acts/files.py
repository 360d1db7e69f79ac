"""Reading files for a model: what is masked is not read, under whatever name, nor what a link leads to behind it."""

import asyncio
import os
from collections.abc import Callable
from io import BytesIO, FileIO
from typing import TypeVar

from understudy.errors import ToolError
from understudy.places.near import is_near
from understudy.places.reading import LeadsElsewhere, NotForModels
from understudy.tools.acts.looking import Spot, judge_reading
from understudy.tools.acts.numbered_lines import LineRange, numbered
from understudy.tools.acts.showing import shown
from understudy.tools.host import ToolHost
from understudy.tools.output import file_bytes
from understudy.tools.tool import ReadRequest, ToolOutput

T = TypeVar("T")
MOST_AT_ONCE = 64 * 1024  # bytes of a file that is read without a thread of its own
NOT_SAVED = "[this is what the user has in an editor, and has not saved yet]"


async def read_file(host: ToolHost, path: str, most: int) -> bytes:
    """The head of a regular file. Raises `ToolError` with the reason, as the model is told it."""
    said = None if host.unsaved is None else await _unsaved(host, path)
    return await with_file(host, path, lambda file: head(file, most)) if said is None else said.encode()[:most]


async def read_lines(host: ToolHost, call_id: str, request: ReadRequest) -> ToolOutput:
    """Numbered, within what a model is given at most. Raises `ToolError`."""
    return await shown(host, call_id, "read_file", request, _read_lines(host, request))


async def _read_lines(host: ToolHost, request: ReadRequest) -> ToolOutput:
    lines = LineRange(request.start_line or 1, request.end_line)
    room = file_bytes(host.settings.output_tokens)
    said = None if host.unsaved is None else await _unsaved(host, request.path)
    if said is not None:
        return ToolOutput(f"{numbered(BytesIO(said.encode()), lines, room)}\n{NOT_SAVED}")
    return ToolOutput(await with_file(host, request.path, lambda file: numbered(file, lines, room)))


async def _unsaved(host: ToolHost, path: str) -> str | None:
    from understudy.tools.acts.unsaved import unsaved_text

    return await unsaved_text(host, path)


async def with_file(host: ToolHost, path: str, read: Callable[[FileIO], T]) -> T:
    """What `read`, which may raise ValueError in words, makes of a file. Raises `ToolError`."""
    spot = Spot(host, path)
    judge_reading(host, spot, path)
    if is_near(spot.path, spot.base):
        try:
            return _read(host, spot, path, read, at_once=True)
        except (LeadsElsewhere, _Large):
            pass
    return await asyncio.to_thread(_read, host, spot, path, read)  # it may lie on a slow disk, and others wait for the loop


class _Large(Exception):
    pass


def _read(host: ToolHost, spot: Spot, path: str, read: Callable[[FileIO], T], *, at_once: bool = False) -> T:
    """`at_once`: raises `LeadsElsewhere` or `_Large` for what may take time."""
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
