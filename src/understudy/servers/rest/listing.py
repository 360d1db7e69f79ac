"""`GET /v1/conversations`: pages of the list. What waits for a person comes first, then the last active ones."""

import math
from typing import Annotated

import msgspec

from understudy.engine.engine import Engine
from understudy.errors import BadRequest
from understudy.protocol.callers import Caller
from understudy.servers.rest.rows import rows_of
from understudy.servers.rest.shapes import Row, Rows, State
from understudy.store.log import Listed

PAGE = 200  # rows that are read at once, in search of questions
MOST_SEARCHED = 1000  # of the last active ones, for questions that come first; older ones come in their place
MOST_LOOKED_AT = 5000  # for one answer to a search, which goes on with the next page
SEARCHED_TO = "."  # in a cursor, behind the engine's, which has none in it


class ListQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which conversations."""

    standing: State | None = msgspec.field(default=None, name="state")
    folder: Annotated[str, msgspec.Meta(description="in this folder or below it")] | None = None
    search: Annotated[str, msgspec.Meta(description="in titles, folders and ids")] | None = None
    archived: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50
    cursor: Annotated[str, msgspec.Meta(description="the `next_cursor` of the page before")] | None = None


async def list_rows(engine: Engine, caller: Caller, wanted: ListQuery) -> Rows:
    """Raises `BadRequest` for a cursor that is none."""
    found: list[Row] = []
    if wanted.cursor is None:
        cursor = None
        first, searched_to = await _with_questions(engine, caller, wanted)
        found += await _fitting(engine, caller, [each for each in first if _fits(each, wanted)], wanted)
    else:
        cursor, searched_to = _read_cursor(wanted.cursor)
    shown = {row.id for row in found}

    def was_first(listed: Listed) -> bool:
        """Not one whose question came up since the search: in the first answer it has its place among the others, and later pages
        leave out what has changed.
        """
        if wanted.cursor is None:
            return listed.conversation_id in shown
        return bool(listed.summary.pending) and listed.updated_at >= searched_to

    looked_at = 0
    while True:
        page = await engine.list(caller, max(1, wanted.limit - len(found)), cursor, archived=wanted.archived)
        rest = [each for each in page.rows if not was_first(each) and _fits(each, wanted)]
        found += await _fitting(engine, caller, rest, wanted)
        cursor = page.next_cursor
        looked_at += len(page.rows)
        if cursor is None or len(found) >= wanted.limit or looked_at >= MOST_LOOKED_AT:
            return Rows(conversations=tuple(found), next_cursor=cursor and _write_cursor(cursor, searched_to))


async def _with_questions(engine: Engine, caller: Caller, wanted: ListQuery) -> tuple[list[Listed], float]:
    """And how far back they were searched for: when the last row looked at was active."""
    found: list[Listed] = []
    cursor: str | None = None
    searched_to = math.inf
    for _ in range(MOST_SEARCHED // PAGE):
        page = await engine.list(caller, PAGE, cursor, archived=wanted.archived)
        found += [each for each in page.rows if each.summary.pending]
        cursor = page.next_cursor
        if cursor is None:
            return found, -math.inf
        searched_to = page.rows[-1].updated_at if page.rows else searched_to
    return found, searched_to


def _write_cursor(cursor: str, searched_to: float) -> str:
    """The engine's, and how far questions were searched for, unless that is all."""
    return cursor if searched_to == -math.inf else f"{cursor}{SEARCHED_TO}{searched_to!r}"


def _read_cursor(text: str) -> tuple[str, float]:
    """Raises `BadRequest`."""
    cursor, _, searched_to = text.partition(SEARCHED_TO)
    try:
        return cursor, float(searched_to or -math.inf)
    except ValueError:
        raise BadRequest("invalid cursor") from None


def _fits(listed: Listed, wanted: ListQuery) -> bool:
    """By what the list knows."""
    summary = listed.summary
    if wanted.folder is not None:
        folder = wanted.folder.rstrip("/") or "/"
        if summary.cwd != folder and not summary.cwd.startswith(folder.rstrip("/") + "/"):
            return False
    if wanted.search:
        words = wanted.search.casefold()
        return words in summary.title.casefold() or words in summary.cwd.casefold() or listed.conversation_id.startswith(words)
    return True


async def _fitting(engine: Engine, caller: Caller, listed: list[Listed], wanted: ListQuery) -> list[Row]:
    rows = await rows_of(engine, caller, listed)
    return [row for row in rows if wanted.standing in (None, row.standing)]
