"""The real store, with claims that are lost on demand, as those of a server database are that could not be renewed in time."""

from __future__ import annotations

import asyncio
from pathlib import Path

from understudy.protocol.ids import ConversationId
from understudy.store.log import Holder, Position
from understudy.store.sqlite.claims import SqliteClaim
from understudy.store.sqlite.event_log import SqliteLog


class LosingLog(SqliteLog):
    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(folder, loop)
        self._taken: dict[ConversationId, SqliteClaim] = {}

    async def claim(self, conversation_id: ConversationId, known: Position | None = None) -> SqliteClaim | Holder:
        claim = await super().claim(conversation_id, known)
        if isinstance(claim, SqliteClaim):
            self._taken[conversation_id] = claim
        return claim

    def lose(self, conversation_id: str) -> None:
        """Others can have it from now on."""
        claim = self._taken.pop(ConversationId(conversation_id))
        claim.release()
        claim.lose()
