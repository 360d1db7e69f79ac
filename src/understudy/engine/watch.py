"""What other processes do: entries and unfinished text for viewers here, and letters for turns that run here.

One task polls the store's change counter, and only while somebody needs to know.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from understudy.engine.conversation import Conversation
from understudy.errors import AgentError
from understudy.store.log import EventLog

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.02
UNHEARD_SECONDS = 1.0  # a process that is killed between writing and telling is noticed this late


class Watch:
    def __init__(self, log: Callable[[], EventLog], conversations: Callable[[], Iterable[Conversation]]) -> None:
        self._log = log
        self._conversations = conversations
        self._task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Something may need watching now."""
        if self._task is None and any(conversation.needs_watching for conversation in self._conversations()):
            self._task = asyncio.get_running_loop().create_task(self._poll(), name="watch")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _poll(self) -> None:
        seen = None
        loop = asyncio.get_running_loop()
        looked = loop.time()
        try:
            while True:
                await asyncio.sleep(POLL_SECONDS)  # first: whoever has just begun to need it has just looked
                if loop.time() - looked >= UNHEARD_SECONDS:
                    seen, looked = None, loop.time()
                watched = [conversation for conversation in self._conversations() if conversation.needs_watching]
                if not watched:
                    return
                try:
                    seen = self._look(watched, seen)
                except AgentError as error:
                    logger.warning("cannot see what other processes write: %s", error)
                except Exception:  # whoever else is watched for must not pay for it
                    logger.exception("bug in seeing what other processes write")
        finally:
            self._task = None

    def _look(self, watched: list[Conversation], seen: bytes | None) -> bytes:
        now = self._log().changes()
        if now == seen:
            for conversation in watched:
                if conversation.depends_on_another:  # a process that is killed writes nothing
                    conversation.look()
            return now
        positions = self._log().positions(conversation.id for conversation in watched)
        for conversation in watched:
            conversation.look(positions.get(conversation.id))
        return now
