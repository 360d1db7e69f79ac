"""Writes that are waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from understudy.protocol.ids import ConversationId
from understudy.store.log import Claim, Committed, EventLog, Holder, Position
from understudy.testing.waiting import WAIT_SECONDS

NOBODY = ConversationId("00000000-0000-4000-8000-000000000000")  # there is none with this id


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


async def let_go(log: EventLog, claim: Claim) -> None:
    """Give it back, and wait until others can have it: a log that is remote does that behind what was written before."""
    claim.release()
    if log.is_remote:
        assert await written(lambda done: log.archive(NOBODY, False, done)) is not None


async def place_of(log: EventLog, conversation_id: ConversationId) -> tuple[int, int, bool] | None:
    """Epoch, last record, whether letters wait."""
    position = (await log.positions([conversation_id])).get(conversation_id)
    return None if position is None else (position.epoch, position.last_seq, position.letters)
