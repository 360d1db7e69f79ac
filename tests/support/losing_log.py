"""A log with claims that are lost on demand, as those of a server database are that could not be renewed in time."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.around_log import AroundLog
from understudy.protocol.ids import ConversationId
from understudy.store.log import CanBeLost, Claim, Holder, Position


class LosingLog(AroundLog):
    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(folder.parent, loop)
        self._taken: dict[ConversationId, Claim] = {}

    async def claim(self, conversation_id: ConversationId, known: Position | None = None) -> Claim | Holder:
        claim = await self._log.claim(conversation_id, known)
        if not isinstance(claim, Holder):
            self._taken[conversation_id] = claim
        return claim

    def lose(self, conversation_id: str) -> None:
        """Others can have it from now on."""
        claim = self._taken.pop(ConversationId(conversation_id))
        assert isinstance(claim, CanBeLost)
        claim.release()
        claim.lose()
