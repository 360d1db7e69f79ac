"""Shows a conversation to everyone who follows it, in one order.

An entry is shown once it is committed; a delta, once every earlier entry has been shown. Followers are called on the event loop and
must not block.
"""

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import msgspec

from understudy.engine.log.unfinished_text import MAY_FINISH_TEXT, TextSaver, TextSoFar
from understudy.errors import AgentError, report_bug
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Delta, Entry
from understudy.store.log import SavedText

logger = logging.getLogger(__name__)


class LiveEntry(msgspec.Struct, eq=False):
    """An entry on its way to viewers. A codec keeps the bytes in `encoded`, so that many viewers share one encoding."""

    entry: Entry
    encoded: dict[object, Any] = {}


class LiveDelta(msgspec.Struct, eq=False):
    """A delta on its way to viewers, encoded once for all of them."""

    delta: Delta
    turn: str
    after: int  # the record before it
    encoded: dict[object, Any] = {}


class Follower(Protocol):
    """Someone who is shown what happens. `can_answer`: whether a question may be put to them."""

    @property
    def can_answer(self) -> bool: ...

    def show(self, live: LiveEntry) -> None: ...

    def show_deltas(self, lives: Sequence[LiveDelta]) -> None:
        """Deltas that came together, at least one, after the same record."""
        ...

    def fail(self, error: AgentError) -> None:
        """Nothing more will be shown: the log cannot be written."""
        ...


class Broadcast:
    def __init__(self, conversation_id: ConversationId, text_saver: TextSaver) -> None:
        self.followers: list[Follower] = []
        self.published = 0  # the last entry that followers have been shown
        self.text = TextSoFar()
        self._id = conversation_id
        self._text_saver = text_saver
        self.queue: deque[LiveEntry | LiveDelta] = deque()  # an entry waits for the disk, a delta for the entries before it

    def unpublished(self) -> list[Entry]:
        """Entries that wait for the disk."""
        return [live.entry for live in self.queue if isinstance(live, LiveEntry)]

    def add(self, entries: Iterable[Entry]) -> None:
        """Show the entries once `publish` says that they are committed."""
        self.queue += map(LiveEntry, entries)

    def add_deltas(self, lives: Sequence[LiveDelta]) -> None:
        """Show the deltas now, or after the entries that wait."""
        if self.queue:
            self.queue += lives
        else:
            self._show_deltas(lives)
            if self._text_saver.timer is None:
                self._text_saver.save_soon()

    def publish(self, committed: int) -> None:
        """Entries up to number `committed` are on disk."""
        queue = self.queue
        while queue:
            first = queue[0]
            if type(first) is LiveEntry:
                if first.entry.seq > committed:
                    return
                del queue[0]
                self._show(first)
            elif type(first) is LiveDelta:
                del queue[0]
                self._show_deltas((first,))
                if self._text_saver.timer is None:
                    self._text_saver.save_soon()

    def publish_foreign(self, entries: Sequence[Entry]) -> None:
        """Show what another process has written."""
        for entry in entries:
            self._show(LiveEntry(entry))

    def publish_foreign_text(self, saved: SavedText, turn: str) -> None:
        """Show what another process has of unfinished items beyond what was shown here. That process saves it."""
        if beyond := [LiveDelta(delta, turn, self.published) for delta in self.text.beyond(saved)]:
            self._show_deltas(beyond)

    def drop_waiting(self) -> None:
        self.queue.clear()

    def fail(self, error: AgentError) -> None:
        """Nothing more will be shown."""
        for follower in tuple(self.followers):
            try:
                follower.fail(error)
            except Exception:  # the other followers must still be told
                logger.exception("bug in telling a viewer of %s of a failure", self._id)

    def _show(self, live: LiveEntry) -> None:
        entry = live.entry
        self.published = entry.seq
        if type(entry.record) in MAY_FINISH_TEXT and self.text.finish(entry.record):
            self._text_saver.note_finished()
        for follower in tuple(self.followers):
            try:
                follower.show(live)
            except Exception as error:
                self._drop(follower, error)

    def _show_deltas(self, lives: Sequence[LiveDelta]) -> None:
        for live in lives:
            self.text.add(live.delta)
        for follower in tuple(self.followers):
            try:
                follower.show_deltas(lives)
            except Exception as error:
                self._drop(follower, error)

    def _drop(self, follower: Follower, error: Exception) -> None:
        """A bug in one viewer ends that viewer, loudly; the turn and the other viewers continue."""
        if follower in self.followers:
            self.followers.remove(follower)
        try:
            follower.fail(AgentError(report_bug(logger, error, "in showing %s to a viewer", self._id)))
        except Exception:
            logger.exception("bug in telling a viewer of %s of a failure", self._id)
