"""Telling those who listen that another process may have done something. Polls, and only while somebody listens."""

import asyncio
import logging
from collections.abc import Callable

from understudy.protocol.ids import ConversationId
from understudy.store.log import Listener

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.02


class WriteHints:
    """`changes` gives a number that stays the same while no other process writes, `is_held` whether another one has a claim.

    `check_claims` finds out whether our own claims still hold.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop | None,
        changes: Callable[[], int],
        is_held: Callable[[ConversationId], bool],
        check_claims: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._changes = changes
        self._is_held = is_held
        self._check_claims = check_claims
        self._listening: dict[ConversationId, list[Listener]] = {}
        self._seen_held: set[ConversationId] = set()  # whoever asked was told that another process has them
        self._seen = 0
        self._timer: asyncio.TimerHandle | None = None

    def listen(self, conversation_id: ConversationId, told: Listener) -> Callable[[], None]:
        self._listening.setdefault(conversation_id, []).append(told)
        if self._timer is None and self._loop is not None:
            self._seen = self._changes()
            self._timer = self._loop.call_later(POLL_SECONDS, self._poll)

        def stop() -> None:
            listening = self._listening.get(conversation_id, [])
            if told in listening:
                listening.remove(told)
            if not listening:
                self._listening.pop(conversation_id, None)
                self._seen_held.discard(conversation_id)

        return stop

    def note_holder(self, conversation_id: ConversationId, *, held: bool) -> None:
        """Whoever asked is to be told when that changes."""
        if held:
            self._seen_held.add(conversation_id)
        else:
            self._seen_held.discard(conversation_id)

    def close(self) -> None:
        self._listening.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _poll(self) -> None:
        self._timer = None
        if self._loop is None or not self._listening:
            return
        self._timer = self._loop.call_later(POLL_SECONDS, self._poll)
        self._check_claims()
        seen, self._seen = self._seen, self._changes()
        freed = [name for name in self._seen_held if not self._is_held(name)]
        self._seen_held.difference_update(freed)
        for name in list(self._listening) if self._seen != seen else freed:
            for told in tuple(self._listening.get(name, ())):
                try:
                    told()
                except Exception:  # the others are told all the same
                    logger.exception("bug in telling of a change in %s", name)
