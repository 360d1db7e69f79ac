"""Searches and lists files for a model, in a separate process with limits, so that neither a pattern nor a disk can block the
server.

Also gets the unsaved text of a file from an editor. An editor opens whatever a path leads to, with all rights of the user, outside
the sandbox. So it is asked only for files that were judged, and its answer counts only if no folder on the way has changed
meanwhile: a command of the model could have put a link to a masked file there.
"""

import asyncio
import json
import logging
import os
import posixpath
import time
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any

import msgspec

from understudy.errors import PatchError, ToolError
from understudy.places.places import Places
from understudy.places.reading import KERNEL, NotForModels
from understudy.policy.readable import may_read
from understudy.protocol.encodable import visible
from understudy.protocol.records import OWN_SERVER, ToolCallBegan, ToolCallEnded
from understudy.sandbox.starting import run_worker
from understudy.tools.acts.matching_lines import read_up_to
from understudy.tools.acts.ripgrep import find_ripgrep
from understudy.tools.calls import ListRequest, SearchRequest, ToolOutput
from understudy.tools.host import ToolHost
from understudy.tools.output import file_bytes
from understudy.tools.patch.grammar import UpdateOperation, parse_patch
from understudy.tools.patch.paths import resolve_base
from understudy.tools.unsaved_texts import UnsavedTexts, as_file, normal

MOST_SHOWN = 4 * 1024  # characters of the result; the model gets all of it
LONGEST_ARGUMENT = 1024


async def shown(host: ToolHost, call_id: str, tool: str, request: msgspec.Struct, work: Awaitable[ToolOutput]) -> ToolOutput:
    """Does not wait until the intent is on disk, because such a call changes nothing."""
    arguments = {name: _short(value) for name, value in msgspec.structs.asdict(request).items() if value is not None}
    host.record(ToolCallBegan(call_id, OWN_SERVER, tool, arguments, read_only=True))
    started = asyncio.get_running_loop().time()
    result: dict[str, Any] | None = None
    error: str | None = "interrupted"
    try:
        output = await work
        result, error = {"content": [{"type": "text", "text": _cut(output.text)}]}, None
        return output
    except ToolError as failure:
        error = str(failure)
        raise
    finally:
        seconds = asyncio.get_running_loop().time() - started
        host.record(ToolCallEnded(call_id, OWN_SERVER, tool, seconds, arguments, read_only=True, result=result, error=error))


def _short(value: Any) -> Any:
    return value if not isinstance(value, str) or len(value) <= LONGEST_ARGUMENT else value[:LONGEST_ARGUMENT] + "…"


def _cut(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}\n[... {len(text) - MOST_SHOWN} more characters ...]"


logger = logging.getLogger(__name__)

SECONDS = 15.0  # then the process stops by itself and returns what it has found
PATIENCE = 5.0  # after that many more, it is killed
DEFAULT_RESULTS = 100
MOST_RESULTS = 1000
_MACHINE_TMP = "/tmp"


class Spot:
    """Where a path of the model leads: like a command, it sees the conversation's own folder as /tmp."""

    def __init__(self, host: ToolHost, written: str) -> None:
        """Raises `ToolError` if it is not a path, or if the places are not those with which the conversation began."""
        if not written or "\0" in written:
            raise ToolError(f"{written!r} is not a path")
        settings = host.settings
        if (complaint := settings.places.complaint()) is not None:
            raise ToolError(f"nothing was read: {complaint}")
        self.path = os.path.join(settings.places.real(settings.cwd), _spelled(settings.places.pinned, written))
        self.base = "/"
        self.hidden: tuple[str, ...] = ()
        containment = settings.containment
        roots = settings.places.roots
        if containment is not None and containment.private_tmp and _MACHINE_TMP not in roots:
            self.hidden = (_MACHINE_TMP,)
            normal = posixpath.normpath(self.path)
            if _is_in(normal, _MACHINE_TMP) and not any(_is_in(normal, root) for root in roots):
                os.makedirs(containment.private_tmp, mode=0o700, exist_ok=True)
                _give_to_doer(settings.places, containment.private_tmp)
                self.base = os.path.realpath(containment.private_tmp)
                self.path = normal[len(_MACHINE_TMP) :] or "/"


def _give_to_doer(places: Places, folder: str) -> None:
    """As before a first command, because we have made the folder."""
    doer = places.doer
    if doer is not None and os.stat(folder).st_uid != doer.uid:
        os.chown(folder, doer.uid, doer.gid, follow_symlinks=False)


def judge_reading(host: ToolHost, spot: Spot, written: str) -> None:
    """Under `untrusted`, raises `ToolError` for what a harmless command could not read without a question."""
    settings = host.settings
    if settings.approval_policy != "untrusted":
        return
    if spot.base != "/" or not all(may_read(path, "/", settings.roots) for path in {spot.path, os.path.realpath(spot.path)}):
        raise ToolError(
            f"{written} may not be read without a question under the approval policy `untrusted`: read it with a command, about"
            " which the user is asked"
        )


async def search(host: ToolHost, call_id: str, request: SearchRequest) -> ToolOutput:
    """Raises `ToolError` with a reason for the model."""
    most = min(max(request.max_results or DEFAULT_RESULTS, 1), MOST_RESULTS)
    ripgrep = find_ripgrep(os.environ.get("PATH"), host.settings.roots)
    more = {"do": "search", "pattern": request.pattern, "max_results": most, "depth": 0, "ripgrep": ripgrep}
    return await shown(host, call_id, "search", request, _look(host, request.path or ".", request.glob, more))


async def list_files(host: ToolHost, call_id: str, request: ListRequest) -> ToolOutput:
    more = {"do": "list", "depth": max(request.depth or 0, 0)}
    return await shown(host, call_id, "list_files", request, _look(host, request.path or ".", request.glob, more))


async def _look(host: ToolHost, path: str, glob: str | None, more: dict[str, Any]) -> ToolOutput:
    spot = Spot(host, path)
    judge_reading(host, spot, path)
    settings = host.settings
    places = settings.places
    job = {
        **more,
        "path": spot.path,
        "base": spot.base,
        "shown": _shown(path),
        "glob": glob,
        "seconds": SECONDS,
        "bytes": file_bytes(settings.output_tokens),
        "masks": places.masks.paths,
        "unreadable": (*KERNEL, *spot.hidden),
        "roots": places.roots,
        "pins": {place.path: (place.device, place.inode) for place in places.pinned},
        "project": settings.roots if settings.approval_policy == "untrusted" else None,
        "unsaved": {},
        "doer": places.doer,
    }
    said = await _ask_worker(job)
    if host.unsaved is not None and more["do"] == "search" and spot.base == "/" and "error" not in said:
        said = await _search_unsaved(host, job, said)
    if "error" in said:
        raise ToolError(visible(f"{path}: {said['error']}"))
    notes = [f"[{note}]" for note in said["notes"]]
    return ToolOutput(visible("\n".join((*said["lines"], *notes))))


async def _search_unsaved(host: ToolHost, job: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    """Search again if an editor has unsaved text of a file that was found, or that is probably open there."""
    start = posixpath.normpath(job["path"])
    likely = [] if host.unsaved is None else [Spot(host, path).path for path in reversed(host.unsaved.likely)]
    unsaved = await unsaved_texts(host, (*(path for path in likely if _is_in(path, start)), *said["files"]))
    if not unsaved:
        return said
    again = await _ask_worker({**job, "path": start, "unsaved": unsaved})
    names = ", ".join(sorted(posixpath.basename(path) for path in unsaved))
    again.setdefault("notes", []).append(f"of {names} the text in the user's editor was searched, which is not saved yet")
    return again


async def _ask_worker(job: dict[str, Any]) -> dict[str, Any]:
    finished = await run_worker("understudy.tools.acts.look_worker", json.dumps(job).encode(), SECONDS + PATIENCE)
    if finished is None:
        raise ToolError(f"nothing was found within {SECONDS:.0f} seconds: simplify `pattern`, or narrow `path` or `glob`")
    if finished.code == 0:
        return json.loads(finished.out)
    logger.error("looking for files failed: %s", finished.err)
    raise ToolError("looking for files took too much time or memory: simplify `pattern`, or narrow `path` or `glob`")


def _shown(path: str) -> str:
    """The prefix of the paths that are returned: as the model wrote it, so that it can use them again."""
    plain = path.rstrip("/")
    while plain.startswith("./"):
        plain = plain[2:].lstrip("/")
    return "" if plain in ("", ".") and not path.startswith("/") else f"{plain}/"


def _spelled(pinned: Any, written: str) -> str:
    """The path as the model may write it: through a link that the user chose for the folder."""
    for place in pinned:
        if place.spelled != place.path and _is_in(written, place.spelled):
            return place.path + written[len(place.spelled) :]
    return written


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


MOST_BYTES = 8 * 1024 * 1024  # of a file that an editor is asked for
MOST_FILES = 32  # per call of the model
MOST_TOTAL = 32 * 1024 * 1024
SETTLED_SECONDS = 0.05  # file times advance in steps, and a change within the same step would not be seen

Stamp = tuple[int, int, int, int]


async def unsaved_text(host: ToolHost, path: str) -> str | None:
    """The unsaved text, as the file would contain it. None: it is saved, or nobody knows. The path is the model's."""
    texts = host.unsaved
    if texts is None or texts.editor is None:
        return None
    try:
        spot = Spot(host, path)
        judge_reading(host, spot, path)
    except ToolError:
        return None  # whoever reads the file reports the reason
    return await _ask(host, texts, spot)


async def unsaved_texts(host: ToolHost, paths: Iterable[str]) -> dict[str, str]:
    """Of several files, by real path: the unsaved ones."""
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
    """The unsaved files among those that a patch updates, by real path."""
    if host.unsaved is None or host.unsaved.editor is None:
        return {}
    try:
        written = [operation.path for operation in parse_patch(body).operations if isinstance(operation, UpdateOperation)]
        start = resolve_base(base, host.settings.places)
        return await unsaved_texts(host, [start.spot(path).real for path in written])
    except PatchError:
        return {}  # whoever applies it reports that


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
    """The state of the folders on the way, once they have not changed for a moment; None if they keep changing."""
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
    """State of the folders in which a command could replace something, and of the file. None if a link is on the way."""
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
    """None if it is not for the model, not text, or too large."""
    try:
        with open(host.settings.places.open_for_model(spot.path, *spot.hidden), "rb", buffering=0) as file:
            os.set_blocking(file.fileno(), True)
            data = read_up_to(file, MOST_BYTES + 1)
        return None if len(data) > MOST_BYTES or b"\0" in data else data.decode()
    except (OSError, ValueError, NotForModels):
        return None


def _as_spelled(host: ToolHost, path: str) -> str:
    """The path with the folder's name as the user wrote it, because the editor knows that one."""
    for place in host.settings.places.pinned:
        if place.spelled != place.path and path.startswith(place.path.rstrip("/") + "/"):
            return place.spelled.rstrip("/") + path[len(place.path.rstrip("/")) :]
    return path


def _is_text(said: str) -> bool:
    try:
        said.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which a file in UTF-8 cannot contain
        return False
    return True
