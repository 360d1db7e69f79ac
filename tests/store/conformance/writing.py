"""Writes that are waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from understudy.protocol.ids import ConversationId
from understudy.store.log import Claim, Committed, EventLog, Holder, Position
from understudy.testing.waiting import WAIT_SECONDS


async def written(submit: Callable[[Committed], None]) -> BaseException | None:
    """What kept it from being written; None when it was."""
    done: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    submit(done.set_result)
    async with asyncio.timeout(WAIT_SECONDS):
        return await done


async def claim_of(log: EventLog, conversation_id: ConversationId, known: Position | None = None) -> Claim:
    claim = await log.claim(conversation_id, known)
    assert not isinstance(claim, Holder)
    return claim


async def place_of(log: EventLog, conversation_id: ConversationId) -> tuple[int, int, bool] | None:
    """Epoch, last record, whether letters wait."""
    position = (await log.positions([conversation_id])).get(conversation_id)
    return None if position is None else (position.epoch, position.last_seq, position.letters)
