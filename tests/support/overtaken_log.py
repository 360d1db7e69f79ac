"""A log in which another process is faster: it takes a conversation between two questions of ours about it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.support.around_log import AroundLog
from understudy.protocol.ids import ConversationId
from understudy.store.log import Holder


class OvertakenLog(AroundLog):
    """What `overtake` does comes right after nobody was found to hold the conversation; once."""

    def __init__(self, home: Path, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(home, loop)
        self.overtake: Callable[[], Awaitable[object]] | None = None

    async def holder(self, conversation_id: ConversationId, *, identify: bool = False) -> Holder | None:
        found = await self._log.holder(conversation_id, identify=identify)
        if found is None and self.overtake is not None:
            overtake, self.overtake = self.overtake, None
            await overtake()
        return found
