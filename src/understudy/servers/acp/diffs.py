"""File changes as diffs of ACP, which have whole texts where those can be had, and else the lines around each change."""

import os
import re
import stat
from collections.abc import Mapping

import msgspec

from understudy.policy.visible import in_ticks
from understudy.protocol.changes import AddFile, DeleteFile, FileChange, UpdateFile
from understudy.servers.acp.content import Json, text_content

LARGEST_WHOLE = 512 * 1024  # bytes of a file that is shown as a whole
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NO_NEWLINE = "\\ No newline at end of file"


class Hunk(msgspec.Struct, frozen=True):
    old_start: int  # counted from 0
    new_start: int
    old: tuple[str, ...]
    new: tuple[str, ...]


def diff_content(changes: Mapping[str, FileChange], cwd: str, *, on_disk: bool) -> list[Json]:
    """`on_disk`: the files are about to be changed, or just were: what they hold makes whole texts of the hunks."""
    return [part for path in sorted(changes) for part in _parts(_absolute(path, cwd), changes[path], cwd, on_disk=on_disk)]


def locations(changes: Mapping[str, FileChange], cwd: str) -> list[Json]:
    return [_location(_absolute(path, cwd), changes[path]) for path in sorted(changes)]


def _location(path: str, change: FileChange) -> Json:
    hunks = read_hunks(change.unified_diff) if isinstance(change, UpdateFile) else []
    return {"path": path, "line": hunks[0].new_start + 1} if hunks else {"path": path}


def _absolute(path: str, cwd: str) -> str:
    return os.path.normpath(os.path.join(cwd, path))


def _parts(path: str, change: FileChange, cwd: str, *, on_disk: bool) -> list[Json]:
    match change:
        case AddFile(content=content):
            return [_diff(path, None, content)]
        case DeleteFile(content=content):
            return [text_content(f"{in_ticks(path)} is deleted"), _diff(path, content, "")]
        case UpdateFile(unified_diff=diff, move_path=None):
            return _updated(path, path, diff, on_disk=on_disk)
        case UpdateFile(unified_diff=diff, move_path=str(moved)):
            target = _absolute(moved, cwd)
            return [
                text_content(f"{in_ticks(path)} is moved to {in_ticks(target)}"),
                *_updated(target, path, diff, on_disk=on_disk),
            ]
        case _:
            raise AssertionError(change)


def _updated(path: str, before: str, diff: str, *, on_disk: bool) -> list[Json]:
    hunks = read_hunks(diff)
    texts = _whole(before, path, hunks) if on_disk else None
    if texts is not None:
        return [_diff(path, *texts)]
    return [_diff(path, "".join(hunk.old), "".join(hunk.new)) for hunk in hunks]


def _diff(path: str, old: str | None, new: str) -> Json:
    return {"type": "diff", "path": path, "oldText": old, "newText": new}


def _whole(before: str, after: str, hunks: list[Hunk]) -> tuple[str, str] | None:
    """Whatever stands on the disk: the text from before the change, or the one from after it."""
    text = _read(before)
    if text is not None and (new := replace(text, [(hunk.old_start, hunk.old, hunk.new) for hunk in hunks])) is not None:
        return text, new
    text = text if before == after else _read(after)
    if text is not None and (old := replace(text, [(hunk.new_start, hunk.new, hunk.old) for hunk in hunks])) is not None:
        return old, text
    return None


def replace(text: str, hunks: list[tuple[int, tuple[str, ...], tuple[str, ...]]]) -> str | None:
    """The text with some lines in place of others; None where those do not stand there."""
    lines = text.split("\n")
    lines = [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    made: list[str] = []
    at = 0
    for start, wanted, given in hunks:
        if start < at or tuple(lines[start : start + len(wanted)]) != wanted:
            return None
        made += lines[at:start]
        made += given
        at = start + len(wanted)
    return "".join([*made, *lines[at:]])


def read_hunks(diff: str) -> list[Hunk]:
    hunks: list[Hunk] = []
    old: list[str] = []
    new: list[str] = []
    starts = 0, 0
    sides: tuple[list[str], ...] = ()
    for line in diff.split("\n"):
        head = _HUNK.match(line)
        if head is not None:
            if old or new:
                hunks.append(Hunk(*starts, tuple(old), tuple(new)))
            old, new, sides = [], [], ()
            starts = _start(head[1], head[2]), _start(head[3], head[4])
        elif line.startswith(_NO_NEWLINE):
            for side in sides:
                side[-1] = side[-1].removesuffix("\n")
        elif line[:1] in (" ", "-", "+"):
            sides = {" ": (old, new), "-": (old,), "+": (new,)}[line[0]]
            for side in sides:
                side.append(line[1:] + "\n")
    if old or new:
        hunks.append(Hunk(*starts, tuple(old), tuple(new)))
    return hunks


def _start(line: str, count: str | None) -> int:
    return int(line) if count == "0" else int(line) - 1


def _read(path: str) -> str | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            about = os.fstat(file)
            if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST_WHOLE:
                return None
            return os.read(file, LARGEST_WHOLE).decode()
        finally:
            os.close(file)
    except (OSError, ValueError):
        return None
