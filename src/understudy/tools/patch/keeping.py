"""What must be kept of a patch so that it can be undone: a digest of every file, and the pieces that it replaced. Pure."""

import hashlib
from collections.abc import Sequence

from understudy.protocol.records import LeftFile, Piece

from .commit import Change
from .unified import changed_blocks

MAX_KEPT = 1024 * 1024  # bytes of one file's old content
MAX_KEPT_TOGETHER = 4 * 1024 * 1024  # of all files of a patch
UNREAD = "unread"  # instead of a digest, for a file that was too large or not readable
_SMALL = 16 * 1024  # replaced as a whole: not worth a search for unchanged parts


def digest(data: bytes | None) -> str:
    """Return "" if the file does not exist."""
    if data is None:
        return ""
    return hashlib.sha256(data).hexdigest()


def left_files(changes: Sequence[Change]) -> tuple[LeftFile, ...]:
    """What must be known to undo these changes, in their order."""
    destinations = {change.like: change for change in changes if _moves_here(change)}
    room = MAX_KEPT_TOGETHER
    files: list[LeftFile] = []
    for change in changes:
        pieces = _pieces(change, destinations.get(change.spot.real))
        size = sum(len(piece.before) for piece in pieces or ())
        if pieces is not None and size > min(room, MAX_KEPT):
            pieces = None
        elif pieces is not None:
            room -= size
        files.append(_left(change, pieces))
    return tuple(files)


def restored(now: bytes, pieces: Sequence[Piece]) -> bytes:
    """The old content, made from the new content."""
    parts: list[bytes] = []
    at = 0
    for piece in pieces:
        parts += (now[at : piece.start], piece.before)
        at = piece.start + piece.length
    return b"".join((*parts, now[at:]))


def replaced_pieces(before: bytes, after: bytes) -> tuple[Piece, ...]:
    """The pieces that turn `after` back into `before`."""
    start = _common(before, after)
    shorter = min(len(before), len(after)) - start
    tail = min(shorter, _common_tail(before, after, shorter))
    old, new = before[start : len(before) - tail], after[start : len(after) - tail]
    if not old and not new:
        return ()
    if len(old) <= _SMALL:
        return (Piece(start, len(new), old),)
    old_lines, new_lines = _lines(old), _lines(new)
    old_ends, new_ends = _ends(old_lines), _ends(new_lines)
    return tuple(
        Piece(
            start + new_ends[block.new_start],
            new_ends[block.new_end] - new_ends[block.new_start],
            old[old_ends[block.old_start] : old_ends[block.old_end]],
        )
        for block in changed_blocks(old_lines, new_lines)
    )


def _left(change: Change, pieces: tuple[Piece, ...] | None) -> LeftFile:
    before = change.before
    held = "" if before is None else UNREAD if before.data is None else digest(before.data)
    moved_from = (change.like or "") if _moves_here(change) else ""
    return LeftFile(change.spot.real, digest(change.after), held, 0 if before is None else before.mode, moved_from, pieces)


def _moves_here(change: Change) -> bool:
    return change.after is not None and change.like is not None and change.like != change.spot.real


def _pieces(change: Change, destination: Change | None) -> tuple[Piece, ...] | None:
    if change.before is None:
        return ()
    if change.before.data is None:
        return None
    now = change.after
    if now is None and destination is not None:
        now = destination.after
    return replaced_pieces(change.before.data, now or b"")


def _common(one: bytes, other: bytes) -> int:
    """How many bytes are equal at the beginning. Halves the range, since comparing slices is far faster than a loop."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_tail(one: bytes, other: bytes, most: int) -> int:
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]:
            low = middle
        else:
            high = middle - 1
    return low


def _lines(data: bytes) -> list[str]:
    """As text with one character per byte, which the diff compares."""
    return data.decode("latin-1").splitlines(keepends=True)


def _ends(lines: Sequence[str]) -> list[int]:
    ends = [0]
    for line in lines:
        ends.append(ends[-1] + len(line))
    return ends
