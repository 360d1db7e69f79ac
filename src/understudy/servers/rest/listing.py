"""`GET /v1/conversations`: pages of the list. What waits for a person comes first, then the last active ones."""

from typing import Annotated

import msgspec

from understudy.engine.engine import Engine
from understudy.protocol.callers import Caller
from understudy.servers.rest.rows import rows_of
from understudy.servers.rest.shapes import Row, Rows, State
from understudy.store.log import Listed

PAGE = 200  # rows that are read at once, in search of questions
MOST_SEARCHED = 1000  # of the last active ones, for questions that come first; older ones come in their place
MOST_LOOKED_AT = 5000  # for one answer to a search, which goes on with the next page


class Wanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which conversations."""

    standing: State | None = msgspec.field(default=None, name="state")
    folder: Annotated[str, msgspec.Meta(description="in this folder or below it")] | None = None
    search: Annotated[str, msgspec.Meta(description="in titles, folders and ids")] | None = None
    archived: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50
    cursor: Annotated[str, msgspec.Meta(description="the `next_cursor` of the page before")] | None = None


async def list_rows(engine: Engine, caller: Caller, wanted: Wanted) -> Rows:
    """Raises `BadRequest` for a cursor that is none."""
    found: list[Row] = []
    if wanted.cursor is None:
        first = [each for each in await _with_questions(engine, caller, wanted) if _fits(each, wanted)]
        found += await _fitting(engine, caller, first, wanted)
    cursor, looked_at = wanted.cursor, 0
    while True:
        page = await engine.list(caller, max(1, wanted.limit - len(found)), cursor, archived=wanted.archived)
        rest = [each for each in page.rows if not each.summary.pending and _fits(each, wanted)]  # those with questions were first
        found += await _fitting(engine, caller, rest, wanted)
        cursor = page.next_cursor
        looked_at += len(page.rows)
        if cursor is None or len(found) >= wanted.limit or looked_at >= MOST_LOOKED_AT:
            return Rows(conversations=tuple(found), next_cursor=cursor)


async def _with_questions(engine: Engine, caller: Caller, wanted: Wanted) -> list[Listed]:
    found: list[Listed] = []
    cursor: str | None = None
    for _ in range(MOST_SEARCHED // PAGE):
        page = await engine.list(caller, PAGE, cursor, archived=wanted.archived)
        found += [each for each in page.rows if each.summary.pending]
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


def _fits(listed: Listed, wanted: Wanted) -> bool:
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


async def _fitting(engine: Engine, caller: Caller, listed: list[Listed], wanted: Wanted) -> list[Row]:
    rows = await rows_of(engine, caller, listed)
    return [row for row in rows if wanted.standing in (None, row.standing)]
