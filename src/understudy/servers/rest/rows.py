"""Rows of the list of conversations: what waits for a person first, then the last active ones."""

from collections.abc import Sequence

from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.errors import UnknownConversation
from understudy.protocol.callers import Caller
from understudy.protocol.records import TurnEnded
from understudy.servers.rest.questions import open_questions
from understudy.servers.rest.shapes import Conversation, OpenQuestion, Row, State
from understudy.servers.rest.times import rfc3339
from understudy.store.log import Listed

LOOKED_BACK = 4  # records, in search of how the last turn ended: a title or an undo may have come after it


async def rows_of(engine: Engine, caller: Caller, listed: Sequence[Listed]) -> list[Row]:
    positions = await engine.log.positions([each.conversation_id for each in listed])
    ends = {conversation_id: position.last_seq for conversation_id, position in positions.items()}
    return [await _row(engine, caller, each, ends.get(each.conversation_id, 0)) for each in listed]


async def row_of(engine: Engine, caller: Caller, listed: Listed) -> Row:
    return (await rows_of(engine, caller, [listed]))[0]


async def _row(engine: Engine, caller: Caller, listed: Listed, last_seq: int) -> Row:
    summary = listed.summary
    questions: tuple[OpenQuestion, ...] = ()
    if summary.pending:
        try:
            questions = open_questions(await engine.find(caller, listed.conversation_id))
        except UnknownConversation:  # deleted meanwhile
            pass
    return Row(
        id=listed.conversation_id,
        title=summary.title,
        folder=summary.cwd,
        model=summary.model,
        standing=await _state(engine, listed, last_seq),
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


async def _state(engine: Engine, listed: Listed, last_seq: int) -> State:
    status = await engine.status_of(listed)
    if status != "idle":
        return "waiting" if status == "waiting" else "working"
    for entry in reversed(await engine.log.read(listed.conversation_id, max(0, last_seq - LOOKED_BACK))):
        if isinstance(entry.record, TurnEnded):
            return "idle" if entry.record.reason == "completed" else entry.record.reason
    return "idle"


def conversation_of(handle: Handle, row: Row) -> Conversation:
    facts = handle.facts
    return Conversation(
        **{name: getattr(row, name) for name in Row.__struct_fields__},
        questions=open_questions(handle),
        turn=facts.turn,
        approval_policy=facts.approval_policy,
        sandbox=facts.sandbox,
        last_seq=facts.last_seq,
        queued=handle.queued_turns,
        may=tuple(right for right in ("run", "approve", "read") if handle.caller.may(right, facts.owner)),
    )
