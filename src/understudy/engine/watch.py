"""What other processes do: entries and unfinished text for viewers here, and letters for turns that run here.

One task polls the store's change counter, and only while somebody needs to know.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator

from understudy.engine.conversation import Conversation
from understudy.errors import AgentError
from understudy.store.log import EventLog, Position

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
        if self._task is None and any(self._watched()):
            self._task = asyncio.get_running_loop().create_task(self._poll(), name="watch")

    def _watched(self) -> Iterator[Conversation]:
        return (each for each in self._conversations() if each.needs_watching and each.is_shared)

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
                watched = list(self._watched())
                if not watched:
                    return
                seen = self._look(watched, seen)
        finally:
            self._task = None

    def _look(self, watched: list[Conversation], seen: bytes | None) -> bytes | None:
        try:
            now = self._log().changes()
            positions = {} if now == seen else self._log().positions(conversation.id for conversation in watched)
        except AgentError as error:
            logger.warning("cannot see what other processes write: %s", error)
            return None
        for conversation in watched:
            if now != seen or conversation.depends_on_another:  # a process that is killed writes nothing
                self._look_at(conversation, positions.get(conversation.id), gone=now != seen and conversation.id not in positions)
        return now

    def _look_at(self, conversation: Conversation, position: Position | None, *, gone: bool) -> None:
        """Whoever else is watched for must not pay for what goes wrong with one."""
        try:
            if gone:
                conversation.lose()
            conversation.look(position)
        except AgentError as error:
            logger.warning("cannot see what other processes write to %s: %s", conversation.id, error)
        except Exception:
            logger.exception("bug in seeing what other processes write to %s", conversation.id)
