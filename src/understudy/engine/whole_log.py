"""A whole log and what follows from it, however long it is: read a page in a step of the event loop, and folded beside it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from understudy.engine.fold import State
from understudy.engine.pace import PAGE_BYTES, PAGE_RECORDS, Pace
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Entry
from understudy.store.log import EventLog

T = TypeVar("T")

IN_A_STEP = 512  # records that are folded on the event loop; more of them in a thread, which gives the interpreter up now and then


async def read_whole(log: EventLog, conversation_id: ConversationId, pace: Pace, last: int | None = None) -> list[Entry]:
    """`last`: the last record that is wanted, where that is known; there may be more."""
    entries: list[Entry] = []
    while last is None or not entries or entries[-1].seq < last:
        await pace.take(PAGE_RECORDS)
        page = await log.read(conversation_id, entries[-1].seq if entries else 0, PAGE_RECORDS, PAGE_BYTES)
        if not page:
            break
        entries += page
    return entries


async def folded(entries: Sequence[Entry]) -> State:
    """As `State.read` has it."""
    return await beside(lambda: State.read(entries), entries)


async def beside(fold: Callable[[], T], entries: Sequence[Entry]) -> T:
    """What a pure function makes of so many entries, while others are served where that takes long."""
    return fold() if len(entries) <= IN_A_STEP else await asyncio.to_thread(fold)
