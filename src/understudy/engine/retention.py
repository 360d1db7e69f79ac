"""How long conversations are kept, and how large the store may get. What runs, waits for a person or is watched is never deleted.

By age: what nobody has used for `keep_days` goes, whether archived or not. By size: beyond `max_store_mb` archived ones go first,
then others, the oldest first, down to nine tenths of it. One that was used within a day stays, so that nobody can push out what
others have by writing much; where nothing else is left, no new conversation is begun until there is room.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Literal

from understudy.config.home import state_dir
from understudy.engine.doubting_clock import DoubtingClock
from understudy.engine.engine import Engine
from understudy.errors import AgentError, StoreError
from understudy.store.log import Listed

logger = logging.getLogger(__name__)

Reason = Literal["age", "size"]

DAY_SECONDS = 86_400.0
USED_LATELY_SECONDS = DAY_SECONDS
DOWN_TO = 0.9  # of the limit, so that not every new record makes another one go
AT_ONCE = 64  # rows that are looked at together


class Retention:
    def __init__(
        self,
        engine: Engine,
        keep_days: int,
        max_store_mb: int,
        told: Callable[[Reason], None],
        clock: Callable[[], float] | None = None,
    ) -> None:
        """0 stands for no limit. `told` hears of each conversation that is deleted. `clock`: where it is not the system's."""
        self._engine = engine
        self._now = DoubtingClock(state_dir(engine.home) / "last_retention").now if clock is None else clock
        self._keep_days = keep_days
        self._most_mb = max_store_mb
        self._told = told

    async def run(self, seconds: float) -> None:
        """Look again and again, so many seconds apart."""
        while True:
            try:
                await self.look()
            except (AgentError, OSError) as error:
                logger.warning("conversations that are too old or too many were not deleted: %s", error)
            except Exception:
                logger.exception("bug in retention")
            await asyncio.sleep(seconds)

    async def look(self) -> None:
        deleted = 0
        if self._keep_days:
            deleted += await self._delete_old()
        if self._most_mb:
            deleted += await self._make_room()
        if deleted or self._most_mb:
            freed = await self._engine.log.shrink()
            if freed:
                logger.info("the store's file is %d bytes smaller", freed)

    async def _delete_old(self) -> int:
        before = self._now() - self._keep_days * DAY_SECONDS
        why = f"`keep_days` is {self._keep_days}"
        deleted = 0
        for archived in (True, False):
            async for listed in self._oldest(archived=archived):
                if listed.updated_at >= before:
                    break
                deleted += await self._delete(listed, "age", why)
        return deleted

    async def _make_room(self) -> int:
        most = self._most_mb << 20
        used = await self._engine.log.used()
        deleted = 0
        if used > most:
            deleted = await self._delete_down_to(int(most * DOWN_TO))
            used = await self._engine.log.used()
        if used > most:
            reason = (
                f"the store is full: it holds {used >> 20} MB, `understudy.serve.max_store_mb` is {self._most_mb}, and all of "
                "it was used within a day. Delete conversations, or raise the limit"
            )
            if self._engine.takes_no_new is None:
                logger.error("no new conversation is begun: %s", reason)
            self._engine.takes_no_new = reason
        elif self._engine.takes_no_new is not None:
            logger.warning("new conversations are begun again: the store has room")
            self._engine.takes_no_new = None
        return deleted

    async def _delete_down_to(self, wanted: int) -> int:
        before = self._now() - USED_LATELY_SECONDS
        why = f"the store is larger than `max_store_mb`, {self._most_mb}"
        deleted = 0
        for archived in (True, False):
            async for listed in self._oldest(archived=archived):
                if listed.updated_at >= before or await self._engine.log.used() <= wanted:
                    break
                deleted += await self._delete(listed, "size", why)
        return deleted

    async def _oldest(self, *, archived: bool) -> AsyncIterator[Listed]:
        """Each once, also those that could not be deleted."""
        after = (0.0, "")
        while rows := await self._engine.log.oldest(AT_ONCE, after, archived=archived):
            for listed in rows:
                after = listed.updated_at, listed.conversation_id
                yield listed

    async def _delete(self, listed: Listed, reason: Reason, why: str) -> bool:
        try:
            deleted = await self._engine.retire(listed)
        except StoreError as error:
            logger.warning("conversation %s was not deleted: %s", listed.conversation_id, error)
            return False
        if deleted:
            self._told(reason)
            last = datetime.fromtimestamp(listed.updated_at, UTC).isoformat(timespec="seconds")
            logger.warning("conversation %s of %s, last used %s, was deleted: %s", listed.conversation_id, listed.owner, last, why)
        await asyncio.sleep(0)  # others are served between two
        return deleted
