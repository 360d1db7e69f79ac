"""Keeps the text so far beside the log, a few times a second, so that late viewers, other processes and a restart have it."""

import asyncio
from collections.abc import Callable

from understudy.engine.text_so_far import TextSoFar
from understudy.protocol.ids import ConversationId
from understudy.store.log import EventLog

SAVE_SECONDS = 0.25


class TextSaver:
    def __init__(
        self, conversation_id: ConversationId, log: EventLog, loop: asyncio.AbstractEventLoop, save: Callable[[], None]
    ) -> None:
        """`save` is called when it is time to: whoever knows where the log stands calls `write` then, or `save_soon` again."""
        self._id = conversation_id
        self._log = log
        self._loop = loop
        self._save = save
        self._timer: asyncio.TimerHandle | None = None
        self.exists = False  # in the store, perhaps
        self._complete = False  # all of the text so far is in the store, so that what comes can be added to it

    def expect_leftovers(self) -> None:
        """A process that is gone may have saved some: the next finished item clears it."""
        self.exists, self._complete = True, False

    def note_cleared(self) -> None:
        """A batch of entries takes it out of the store."""
        self.exists = self._complete = False

    def note_finished(self) -> None:
        """An item was finished: what is in the store says more than is unfinished now."""
        self._complete = False

    def save_soon(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(SAVE_SECONDS, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._save()

    def write(self, text: TextSoFar, after: int, epoch: int) -> None:
        """What is new since the last time; all of it where that is not known to be in the store."""
        new = text.new_to_save(after)
        adds = self._complete
        saved = new if adds else text.all_to_save(after)
        self.exists = self._complete = True
        self._log.save_text(self._id, epoch, saved, self._on_written, adds=adds)

    def _on_written(self, error: BaseException | None) -> None:
        if error is not None:
            self._complete = False  # a piece is missing: the next time all of it is written

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
