"""What the user has typed in an editor and not saved yet, for a file that the model may be given.

An editor reads what a path leads to with all rights of the user, outside the sandbox. So it is asked only for a file that was
judged, and what it says counts only if no folder on the way has changed meanwhile: a command of the model's could have put a link
to a masked file there.
"""

import asyncio
import os
import posixpath
import time
from collections.abc import Iterable, Sequence

from understudy.errors import PatchError, ToolError
from understudy.places.reading import NotForModels
from understudy.tools.acts.looking import Spot, judge_reading
from understudy.tools.acts.matching_lines import read_up_to
from understudy.tools.host import ToolHost
from understudy.tools.patch.grammar import UpdateOperation, parse_patch
from understudy.tools.patch.paths import resolve_base
from understudy.tools.unsaved_texts import UnsavedTexts, as_file, normal

MOST_BYTES = 8 * 1024 * 1024  # of a file that an editor is asked for
MOST_FILES = 32  # for one call of the model
MOST_TOTAL = 32 * 1024 * 1024
SETTLED_SECONDS = 0.05  # the clock of a file system has steps: a change in the same step as ours would not be seen

Stamp = tuple[int, int, int, int]


async def unsaved_text(host: ToolHost, path: str) -> str | None:
    """As the file would hold it. None: the disk has it, or nobody can say more. The path is the model's."""
    texts = host.unsaved
    if texts is None or texts.editor is None:
        return None
    try:
        spot = Spot(host, path)
        judge_reading(host, spot, path)
    except ToolError:
        return None  # whoever reads it is told why
    return await _ask(host, texts, spot)


async def unsaved_texts(host: ToolHost, paths: Iterable[str]) -> dict[str, str]:
    """Of several files, by real path: those that are not saved."""
    wanted = list(dict.fromkeys(paths))[:MOST_FILES]
    if not wanted or host.unsaved is None or host.unsaved.editor is None:
        return {}
    said = await asyncio.gather(*(unsaved_text(host, path) for path in wanted))
    found: dict[str, str] = {}
    room = MOST_TOTAL
    for path, text in zip(wanted, said, strict=True):
        if text is not None and (room := room - len(text)) >= 0:
            found[posixpath.normpath(Spot(host, path).path)] = text
    return found


async def unsaved_in_patch(host: ToolHost, body: str, base: str) -> dict[str, str]:
    """Of the files that a patch updates, by real path."""
    if host.unsaved is None or host.unsaved.editor is None:
        return {}
    try:
        written = [operation.path for operation in parse_patch(body).operations if isinstance(operation, UpdateOperation)]
        start = resolve_base(base, host.settings.places)
        return await unsaved_texts(host, [start.spot(path).real for path in written])
    except PatchError:
        return {}  # whoever applies it says so


async def _ask(host: ToolHost, texts: UnsavedTexts, spot: Spot) -> str | None:
    editor = texts.editor
    path = posixpath.normpath(spot.path)
    if editor is None or spot.base != "/":  # an editor does not see the conversation's own /tmp
        return None
    before = await _settled(host, path)
    if before is None:
        return None
    on_disk = await asyncio.to_thread(_on_disk, host, spot)
    if on_disk is None:
        return None
    texts.note_on_disk(path, on_disk.encode())
    said = await editor.text_of(_as_spelled(host, path))
    if said is None or "\0" in said or len(said) > MOST_BYTES or await asyncio.to_thread(_stamps, host, path) != before:
        return None
    if normal(said) == normal(on_disk) or texts.is_outdated(path, said) or not _is_text(said):
        return None
    texts.note_likely(path)
    return as_file(said, on_disk)


async def _settled(host: ToolHost, path: str) -> Sequence[Stamp] | None:
    """The folders on the way, once nothing has changed in them for a moment; None where it goes on changing."""
    for _ in range(2):
        stamps = await asyncio.to_thread(_stamps, host, path)
        if stamps is None:
            return None
        age = time.time() - max((changed for _, _, changed, _ in stamps[:-1]), default=0) / 1e9
        if age > SETTLED_SECONDS:
            return stamps
        await asyncio.sleep(min(max(SETTLED_SECONDS - age, 0), SETTLED_SECONDS) + 0.01)
    return None


def _stamps(host: ToolHost, path: str) -> Sequence[Stamp] | None:
    """Of the folders in which a command could exchange something, and of the file. None where a link is on the way."""
    settings = host.settings
    roots = [root for root in settings.places.roots if path.startswith(root.rstrip("/") + "/")]
    folders: list[str] = []
    if roots and settings.containment is not None:
        top = min(roots, key=len)
        folders.append(posixpath.dirname(path))
        while folders[-1] not in (top, "/"):
            folders.append(posixpath.dirname(folders[-1]))
    try:
        found = settings.places.act(lambda: [] if os.path.realpath(path) != path else [os.lstat(each) for each in (*folders, path)])
    except OSError:
        return None
    if not found:
        return None
    *ways, file = found
    return [*((each.st_dev, each.st_ino, each.st_ctime_ns, each.st_mtime_ns) for each in ways), (file.st_dev, file.st_ino, 0, 0)]


def _on_disk(host: ToolHost, spot: Spot) -> str | None:
    """None for what is not for the model, no text, or too large."""
    try:
        with open(host.settings.places.open_for_model(spot.path, *spot.hidden), "rb", buffering=0) as file:
            os.set_blocking(file.fileno(), True)
            data = read_up_to(file, MOST_BYTES + 1)
        return None if len(data) > MOST_BYTES or b"\0" in data else data.decode()
    except (OSError, ValueError, NotForModels):
        return None


def _as_spelled(host: ToolHost, path: str) -> str:
    """The editor knows the folder as the user has named it."""
    for place in host.settings.places.pinned:
        if place.spelled != place.path and path.startswith(place.path.rstrip("/") + "/"):
            return place.spelled.rstrip("/") + path[len(place.path.rstrip("/")) :]
    return path


def _is_text(said: str) -> bool:
    try:
        said.encode()
    except UnicodeEncodeError:  # half of a pair, which no file in UTF-8 has
        return False
    return True
