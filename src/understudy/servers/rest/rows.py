"""Rows of the list of conversations: what waits for a person first, then the last active ones.

A row is put together from what the store has and from what this process knows, and something may happen in between: it is made anew
until both tell of the same record.
"""

from collections.abc import Sequence
from contextlib import suppress

from understudy.config.tokens import RIGHTS
from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.engine.listing import Standing
from understudy.errors import AgentError, Damaged, UnknownConversation
from understudy.protocol.callers import Caller
from understudy.protocol.records import TurnEnded
from understudy.servers.rest.questions import open_questions
from understudy.servers.rest.shapes import Conversation, OpenQuestion, Row, State
from understudy.servers.rest.times import rfc3339
from understudy.store.log import Listed

LOOKED_BACK = 4  # records, in search of how the last turn ended: a title or an undo may have come after it
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
        except (UnknownConversation, Damaged):  # deleted meanwhile; or opening it says what is wrong
            pass
    return await _row(engine, standing)


async def conversation_of(engine: Engine, handle: Handle) -> Conversation:
    """Raises `UnknownConversation` for one that was deleted meanwhile."""
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
    )


async def _agreed_standing(engine: Engine, handle: Handle) -> Standing:
    """The row in the state that the handle's facts have too. What is not on disk yet is waited for: nobody is shown it sooner."""
    looks = 0
    while True:
        with suppress(AgentError):  # where the log cannot be written, what it has is told
            await handle.committed()
        listed = await engine.listed(handle.id)
        if listed is None:
            raise UnknownConversation("deleted meanwhile")
        standing = await engine.standing_of(listed)
        looks += 1
        if standing.listed.last_seq == handle.facts.last_seq or looks == MOST_LOOKS:
            return standing
        await engine.find(handle.caller, handle.id)  # takes in what another process has written


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
