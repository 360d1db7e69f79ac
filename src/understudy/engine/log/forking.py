"""Makes a new conversation from an existing one: the same records up to the end of a turn, under another id.

Records are copied, so that either conversation can be deleted without the other. The copy includes all earlier records, even on
other paths: they keep their numbers, so that references by number (a compaction, a parent) stay valid.

Also reads and folds a whole log of any length: it is read one page per step of the event loop, and folded in a thread.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from understudy.engine.log.durable import until_durable
from understudy.engine.log.facts import path_to
from understudy.engine.log.fold import State
from understudy.engine.steps import PAGE_BYTES, PAGE_RECORDS, Pace
from understudy.errors import BadRequest, UnknownConversation
from understudy.protocol.ids import ConversationId, new_uuid
from understudy.protocol.records import ApprovalDecided, CommandEnded, Entry, Noticed, Opened, Record, TurnDropped, TurnEnded
from understudy.store.log import Batch, EventLog

T = TypeVar("T")

IN_A_STEP = 512  # records folded on the event loop; more go to a thread, which lets others run now and then


async def read_whole(log: EventLog, conversation_id: ConversationId, pace: Pace, last: int | None = None) -> list[Entry]:
    """`last`: the last record that is wanted, if known; the result may have more."""
    entries: list[Entry] = []
    while last is None or not entries or entries[-1].seq < last:
        await pace.take(PAGE_RECORDS)
        page = await log.read(conversation_id, entries[-1].seq if entries else 0, PAGE_RECORDS, PAGE_BYTES)
        if not page:
            break
        entries += page
    return entries


async def folded(entries: Sequence[Entry]) -> State:
    """`State.read` without blocking the event loop."""
    return await beside(lambda: State.read(entries), entries)


async def beside(fold: Callable[[], T], entries: Sequence[Entry]) -> T:
    """The result of a pure function of the entries; for many of them it runs in a thread, so that others are served."""
    return fold() if len(entries) <= IN_A_STEP else await asyncio.to_thread(fold)


RUNS_THERE = "it runs on in the conversation that this one was forked from"
WAITS_THERE = "it waits in the conversation that this one was forked from"


def forked(
    entries: Sequence[Entry],
    source: ConversationId,
    new_id: ConversationId,
    message_id: str | None = None,
    turn: str | None = None,
    *,
    owner: str,
    now: float,
    thread_source: str | None = None,
) -> Batch:
    """The records of the new conversation, which belongs to `owner` whoever has the old one. They end with the turn that read this
    message, or the turn with this id; by default the last finished one. Raises `BadRequest` if there is no such end.
    """
    end = _end(entries, message_id, turn)
    copied = [_copy(entry, new_id, owner, thread_source) for entry in entries if entry.seq <= end]
    now = max(now, copied[-1].at)
    added: list[tuple[str, Record]] = [("0", Noticed(f"forked from conversation {source}"))]
    state = State.read(copied)
    for of_turn, begun in state.sessions.running.values():
        added.append((of_turn, CommandEnded(begun.call_id, "", "", -1, 0.0, started=begun, ended_by=RUNS_THERE)))
    added += [("0", TurnDropped(message_id, WAITS_THERE)) for message_id in state.queued]
    for of_turn, record in added:
        before = copied[-1].seq
        copied.append(Entry(before + 1, before, of_turn, now, record))
    return Batch(new_id, 1, 0, tuple(copied), State.read(copied).summary(), creates=True, beside=source, made_at=now)


async def fork(
    source_id: ConversationId,
    source: EventLog,
    target: EventLog,
    message_id: str | None,
    turn: str | None,
    *,
    owner: str,
    pace: Pace,
    thread_source: str | None = None,
) -> ConversationId:
    """The id of the new conversation, already in the target. If it raises `AgentError`, nothing is recorded."""
    entries, new_id = await read_whole(source, source_id, pace), ConversationId(new_uuid())
    if not entries:
        raise UnknownConversation(f"no conversation {source_id}")  # deleted meanwhile
    copy = partial(
        forked, entries, source_id, new_id, message_id, turn, owner=owner, now=target.time(), thread_source=thread_source
    )
    batch = await beside(copy, entries)
    await until_durable(lambda told: target.append(batch, told))
    return batch.conversation_id


def _end(entries: Sequence[Entry], message_id: str | None, turn: str | None) -> int:
    if message_id is not None:
        end = State.read(entries).message_ends.get(message_id, 0)
        if not any(entry.seq == end and isinstance(entry.record, TurnEnded) for entry in entries):
            raise BadRequest(f"no turn that is over has read message {message_id}: a conversation is forked at the end of a turn")
        return end
    path = entries if turn is not None else path_to(entries)
    ends = [entry.seq for entry in path if isinstance(entry.record, TurnEnded) and turn in (None, entry.turn)]
    if turn is not None and not ends:
        raise BadRequest(f"no turn {turn} that is over: a conversation is forked at the end of a turn")
    return ends[-1] if ends else 1  # only its settings: nothing was said in it yet


def _copy(entry: Entry, new_id: ConversationId, owner: str, thread_source: str | None) -> Entry:
    match entry.record:
        case Opened() as opened:
            renamed = msgspec.structs.replace(
                opened, conversation_id=new_id, owner=owner, thread_source=thread_source or opened.thread_source
            )
            return msgspec.structs.replace(entry, record=renamed)
        case ApprovalDecided(key=str()) as decided:  # it was for the rest of the other conversation
            return msgspec.structs.replace(entry, record=msgspec.structs.replace(decided, key=None))
        case _:
            return entry
