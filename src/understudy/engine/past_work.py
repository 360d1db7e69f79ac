"""What a turn did that the state does not remember: counted again from its records."""

import asyncio
from typing import TYPE_CHECKING

from understudy.engine.ledger import Ledger, Work
from understudy.protocol.records import TurnEnded, TurnStarted

if TYPE_CHECKING:
    from understudy.engine.conversation import Conversation

PAGE = 500


async def read_past_work(conversation: "Conversation", turn: str) -> Work | None:
    """Up to the end of the turn. Others are served between two pages."""
    ledger, after, begun = Ledger(), 0, False
    while page := await conversation.read(after, PAGE):
        for entry in page:
            begun = begun or (isinstance(entry.record, TurnStarted) and entry.record.turn_id == turn)
            if begun and entry.turn == turn:
                ledger.apply(entry)
                if isinstance(entry.record, TurnEnded):
                    return ledger.work(turn)
        after = page[-1].seq
        await asyncio.sleep(0)
    return ledger.work(turn)
