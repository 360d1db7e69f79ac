"""Searching and listing files for a model, in a process of its own with limits: neither a pattern nor a disk holds us up.

What whoever watches is shown of a call that only reads: that it began, and what the model was given for it.
"""

import asyncio
import json
import logging
import os
import posixpath
from collections.abc import Awaitable
from typing import Any

import msgspec

from understudy.errors import ToolError
from understudy.places.places import Places
from understudy.places.reading import KERNEL
from understudy.protocol.encodable import visible
from understudy.protocol.records import OWN_SERVER, ToolCallBegan, ToolCallEnded
from understudy.sandbox.starting import run_worker
from understudy.tools.acts.ripgrep import find_ripgrep
from understudy.tools.host import ToolHost
from understudy.tools.output import file_bytes
from understudy.tools.tool import ListRequest, SearchRequest, ToolOutput

MOST_SHOWN = 4 * 1024  # characters of the result; the model is given all of it
LONGEST_ARGUMENT = 1024


async def shown(host: ToolHost, call_id: str, tool: str, request: msgspec.Struct, work: Awaitable[ToolOutput]) -> ToolOutput:
    """Nothing is changed by such a call, so it does not wait until its intent is on disk."""
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

SECONDS = 15.0  # for one look; the process stops by itself and tells what it found
PATIENCE = 5.0  # more, after which it is killed
DEFAULT_RESULTS = 100
MOST_RESULTS = 1000
_MACHINE_TMP = "/tmp"


class Spot:
    """Where a path of the model's leads: like a command, it sees the conversation's own folder as /tmp."""

    def __init__(self, host: ToolHost, written: str) -> None:
        """Raises `ToolError` for what is no path, or while the places are not what the conversation began with."""
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
    """As a first command would: it is made by us."""
    doer = places.doer
    if doer is not None and os.stat(folder).st_uid != doer.uid:
        os.chown(folder, doer.uid, doer.gid, follow_symlinks=False)


def judge_reading(host: ToolHost, spot: Spot, written: str) -> None:
    """Raises `ToolError` under `untrusted` for what a harmless command could not read unasked."""
    settings = host.settings
    if settings.approval_policy != "untrusted":
        return
    from understudy.policy.readable import may_read

    if spot.base != "/" or not all(may_read(path, "/", settings.roots) for path in {spot.path, os.path.realpath(spot.path)}):
        raise ToolError(
            f"{written} may not be read without a question under the approval policy `untrusted`: read it with a command, about"
            " which the user is asked"
        )


async def search(host: ToolHost, call_id: str, request: SearchRequest) -> ToolOutput:
    """Raises `ToolError` with the reason, as the model is told it."""
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
    """Once more, where an editor has other text of a file that was found, or that is likely to be open there."""
    from understudy.tools.acts.unsaved import unsaved_texts

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
    """What goes before the paths that are told: as the model wrote it, so that it can be used again."""
    plain = path.rstrip("/")
    while plain.startswith("./"):
        plain = plain[2:].lstrip("/")
    return "" if plain in ("", ".") and not path.startswith("/") else f"{plain}/"


def _spelled(pinned: Any, written: str) -> str:
    """A folder that the user chose by a link may be written as they spell it."""
    for place in pinned:
        if place.spelled != place.path and _is_in(written, place.spelled):
            return place.path + written[len(place.spelled) :]
    return written


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
