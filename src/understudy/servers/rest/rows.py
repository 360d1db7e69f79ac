"""Rows of the list of conversations, and `GET /v1/conversations`, its pages: conversations that wait for a person come first, then
the most recently active ones.

A row combines the store's data with this process's. Something may happen between the two reads, so a row is made again until both
describe the same record.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import msgspec

from understudy.config.tokens import RIGHTS
from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.engine.listing import Standing
from understudy.errors import AgentError, BadRequest, Damaged, UnknownConversation
from understudy.protocol.callers import Caller
from understudy.protocol.records import TurnEnded, Workspace
from understudy.servers.rest.events import open_questions
from understudy.servers.rest.shapes import Conversation, OpenQuestion, Row, Rows, ShownWorkspace, State
from understudy.servers.times import rfc3339
from understudy.store.log import Listed

LOOKED_BACK = 8  # records, in search of the last turn's end: a title, an undo or a snapshot may have come after it
MOST_LOOKS = 10  # at a conversation in which something happens all the time


async def rows_of(engine: Engine, caller: Caller, listed: Sequence[Listed]) -> list[Row]:
    return [await _row_of(engine, caller, each) for each in listed]


async def _row_of(engine: Engine, caller: Caller, listed: Listed) -> Row:
    standing = await engine.standing_of(listed)
    if standing.listed.summary.pending:
        try:
            handle = await engine.find(caller, listed.conversation_id)
            standing = await _agreed_standing(engine, handle)
            return await _row(engine, standing, open_questions(handle))
        except (UnknownConversation, Damaged):  # deleted meanwhile, or opening it reports the error
            pass
    return await _row(engine, standing)


async def conversation_of(engine: Engine, handle: Handle) -> Conversation:
    """Raises `UnknownConversation` for a conversation deleted meanwhile."""
    standing = await _agreed_standing(engine, handle)
    facts, questions = handle.facts, open_questions(handle)
    queued = len(handle.queued)
    row = await _row(engine, standing, questions)
    return Conversation(
        **{name: getattr(row, name) for name in Row.__struct_fields__},
        questions=questions,
        turn=facts.turn,
        approval_policy=facts.approval_policy,
        sandbox=facts.sandbox,
        last_seq=facts.last_seq,
        queued=queued,
        may=tuple(right for right in RIGHTS if handle.caller.may(right, facts.owner)),
        workspace=None if facts.workspace is None else _workspace(engine, facts.workspace, facts.saved),
    )


def _workspace(engine: Engine, chosen: Workspace, saved: str | None) -> ShownWorkspace:
    is_lost = not engine.workspaces().is_there(chosen)
    members = {name: getattr(chosen, name) for name in Workspace.__struct_fields__}
    return ShownWorkspace(**members, standing="lost" if is_lost else "ready", saved_turn=saved)


async def _agreed_standing(engine: Engine, handle: Handle) -> Standing:
    """The row in the same state as the handle's facts. It waits for records that are not on disk yet: nobody is shown
    them sooner.
    """
    looks = 0
    while True:
        with suppress(AgentError):  # if the log cannot be written, show what it has
            await handle.committed()
        listed = await engine.listed(handle.id)
        if listed is None:
            raise UnknownConversation("deleted meanwhile")
        standing = await engine.standing_of(listed)
        looks += 1
        if standing.listed.last_seq == handle.facts.last_seq or looks == MOST_LOOKS:
            return standing
        await engine.find(handle.caller, handle.id)  # reads what another process has written


async def _row(engine: Engine, standing: Standing, questions: tuple[OpenQuestion, ...] = ()) -> Row:
    listed, summary = standing.listed, standing.listed.summary
    return Row(
        id=listed.conversation_id,
        title=summary.title,
        folder=summary.cwd,
        model=summary.model,
        standing=await _state(engine, standing),
        waiting=questions,
        created=rfc3339(listed.created_at),
        updated=rfc3339(listed.updated_at),
        owner=listed.owner,
        messages=summary.message_count,
        tokens=summary.tokens,
        cost_usd=None if summary.cost_usd is None else round(summary.cost_usd, 6),
        archived=listed.archived,
        viewers=engine.viewers_of(listed.conversation_id),
    )


async def _state(engine: Engine, standing: Standing) -> State:
    if standing.status != "idle":
        return "waiting" if standing.status == "waiting" else "working"
    try:
        last = await engine.last_records(standing.listed, LOOKED_BACK)
    except Damaged:
        return "failed"
    for entry in reversed(last):
        if isinstance(entry.record, TurnEnded):
            return "idle" if entry.record.reason == "completed" else entry.record.reason
    return "idle"


PAGE = 200  # rows per read, in search of questions
MOST_SEARCHED = 1000  # most recently active rows searched for questions to show first; older ones come in their usual place
MOST_LOOKED_AT = 5000  # for one answer to a search, which continues on the next page
SEARCHED_TO = "."  # in a cursor, after the engine's, which never contains it


class ListQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which conversations."""

    standing: State | None = msgspec.field(default=None, name="state")
    folder: Annotated[str, msgspec.Meta(description="in this folder or below it")] | None = None
    search: Annotated[str, msgspec.Meta(description="in titles, folders and ids")] | None = None
    archived: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50
    cursor: Annotated[str, msgspec.Meta(description="the `next_cursor` of the page before")] | None = None


async def list_rows(engine: Engine, caller: Caller, wanted: ListQuery) -> Rows:
    """Raises `BadRequest` for an invalid cursor."""
    found: list[Row] = []
    if wanted.cursor is None:
        cursor = None
        first, searched_to = await _with_questions(engine, caller, wanted)
        found += await _fitting(engine, caller, [each for each in first if _fits(each, wanted)], wanted)
    else:
        cursor, searched_to = _read_cursor(wanted.cursor)
    shown = {row.id for row in found}

    def was_first(listed: Listed) -> bool:
        """Whether the row was shown first. A question asked after that search does not count: in the first answer its row has its
        usual place, and later pages leave out what has changed.
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
    """Rows with open questions, and how far back they were searched for: when the last row checked was active."""
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
    """The engine's cursor, and how far questions were searched for unless all were searched."""
    return cursor if searched_to == -math.inf else f"{cursor}{SEARCHED_TO}{searched_to!r}"


def _read_cursor(text: str) -> tuple[str, float]:
    """Raises `BadRequest`."""
    cursor, _, searched_to = text.partition(SEARCHED_TO)
    try:
        return cursor, float(searched_to or -math.inf)
    except ValueError:
        raise BadRequest("invalid cursor") from None


def _fits(listed: Listed, wanted: ListQuery) -> bool:
    """Whether the list's data match."""
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
