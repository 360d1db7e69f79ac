"""The live end of one conversation's log: assigns numbers, waits for the disk, and shows everyone the same order.

An entry is shown once it is committed; a delta once every entry before it has been shown. Followers are called on the
event loop and must not block.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from understudy.engine.fold import State
from understudy.engine.holding import Holding
from understudy.engine.said import Said
from understudy.errors import AgentError, StoreError, report_bug
from understudy.protocol.encodable import encode
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import (
    CommandEnded,
    Delta,
    Entry,
    ItemReceived,
    Record,
    TurnEnded,
)
from understudy.store.log import Batch, EventLog, Partial

logger = logging.getLogger(__name__)

PARTIAL_SECONDS = 0.25  # how often the text so far is put beside the log


class Shown:
    """An entry on its way to viewers. `encoded` lets a codec keep its bytes, so that many viewers share one encoding."""

    __slots__ = ("encoded", "entry")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.encoded: dict[object, Any] = {}


class LiveDelta:
    """A delta on its way to viewers, likewise encoded once."""

    __slots__ = ("after", "delta", "encoded", "turn")

    def __init__(self, delta: Delta, turn: str, after: int) -> None:
        self.delta = delta
        self.turn = turn
        self.after = after  # the last record before it
        self.encoded: dict[object, Any] = {}


class Follower(Protocol):
    """A viewer that has caught up. `can_answer` tells whether a question may be put to it."""

    @property
    def can_answer(self) -> bool: ...

    def show(self, shown: Shown) -> None: ...

    def show_delta(self, live: LiveDelta) -> None: ...

    def fail(self, error: AgentError) -> None:
        """Nothing more will be shown: the log cannot be written."""
        ...


class Feed:
    def __init__(
        self, conversation_id: ConversationId, log: EventLog, loop: asyncio.AbstractEventLoop, holding: Holding | None = None
    ) -> None:
        self.conversation_id = conversation_id
        self.state = State()
        self.followers: list[Follower] = []
        self.published = 0  # the last entry that followers have been shown
        self.said = Said()
        self._log = log
        self._loop = loop
        self._queue: deque[Shown | LiveDelta] = deque()  # in order; an entry waits for the disk, a delta for the entries before it
        self._committed = 0
        self._unwritten: list[Entry] = []
        self._encoded: list[bytes] = []  # their records
        self._generation = 0  # grows when the store is read anew: what became of batches from before it counts no more
        self._flushing = False
        self._holding = holding or Holding(loop)
        self._held = False
        self._barriers: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._on_committed: list[tuple[int, Callable[[], None]]] = []
        self._on_accepted: deque[tuple[int, Callable[[AgentError | None], None]]] = deque()
        self._epoch = 0
        self._claims = False
        self._creates = False
        self._partial_timer: asyncio.TimerHandle | None = None
        self._partial_saved = False
        self._partial_whole = False  # all that was said is in the store, so that what comes can be added to it
        self._letters_taken = 0
        self.failure: AgentError | None = None
        self.on_failure: Callable[[], None] | None = None
        self.on_all_written: Callable[[], None] | None = None  # called before anyone is shown the last of it

    # -- where the log stands

    def begin(self) -> None:
        """A new conversation, of which nothing is on disk."""
        self._epoch, self._creates = 1, True

    def load(self, state: State, epoch: int) -> None:
        """Take over what the store holds. The next append raises the epoch."""
        self.state = state
        self._committed = state.last_seq
        self._epoch, self._claims = epoch + 1, True
        self._partial_saved = True  # perhaps, by a process that is gone: the next item clears it
        self._partial_whole = False
        self.failure = None
        self._generation += 1
        self._drop_unwritten()

    def resume(self) -> None:
        """Go on where we left off: nobody else has written since. The next append raises the epoch."""
        if not (self._claims or self._creates):  # else the claim before this one wrote nothing
            self._epoch += 1
            self._claims = True

    def _drop_unwritten(self) -> None:
        self._queue.clear()
        self._unwritten.clear()
        self._encoded.clear()

    @property
    def idle(self) -> bool:
        return not self._queue and not self._unwritten

    def unpublished(self) -> list[Entry]:
        """Entries that wait for the disk."""
        return [shown.entry for shown in self._queue if isinstance(shown, Shown)]

    # -- writing

    def append(self, *records: Record, turn: str) -> None:
        """All of them, or none and `CannotBeRecorded`: then the log is as it was, and can be appended to."""
        if self.failure:
            return  # what cannot be recorded did not happen; whoever waits has been told
        now = time.time()
        state = self.state
        kept = [encode(record) for record in records]
        for record, data in kept:
            entry = Entry(state.last_seq + 1, state.head, turn, now, record)
            state.apply(entry)
            self._unwritten.append(entry)
            self._encoded.append(data)
            self._queue.append(Shown(entry))
        if not self._held:
            self._held = True
            self._holding.hold(self.flush)

    def flush_soon(self) -> None:
        """Somebody waits: hand over at the end of this step, with what else it appends."""
        if not self._flushing and self._unwritten:
            self._flushing = True
            self._loop.call_soon(self.flush)

    def take_letters(self, number: int) -> None:
        """Letters up to `number` are part of what is appended next."""
        self._letters_taken = number

    def flush(self) -> None:
        """Hand what was appended to the writer, as one batch."""
        self._flushing = False
        if self._held:
            self._held = False
            self._holding.let_go(self.flush)
        if not self._unwritten or self.failure:
            return
        entries, encoded = tuple(self._unwritten), tuple(self._encoded)
        self._unwritten.clear()
        self._encoded.clear()
        clears = self._partial_saved and any(isinstance(entry.record, ItemReceived | CommandEnded | TurnEnded) for entry in entries)
        batch = Batch(
            self.conversation_id,
            self._epoch,
            entries[0].seq - 1,
            entries,
            self.state.summary(),
            claims=self._claims,
            creates=self._creates,
            clears_partial=clears,
            takes_letters=self._letters_taken,
            encoded=encoded,
        )
        self._claims = self._creates = False
        self._letters_taken = 0
        if clears:
            self._partial_saved = self._partial_whole = False
        last, generation = entries[-1].seq, self._generation
        self._log.append(batch, lambda error: self._on_batch(last, error) if generation == self._generation else None)

    async def committed(self) -> None:
        """Wait until all that was appended is on disk. Raises what kept it from getting there."""
        self.flush()
        if self.failure:
            raise self.failure
        if self._committed < self.state.last_seq:
            waiter = self._loop.create_future()
            self._barriers.append((self.state.last_seq, waiter))
            await waiter

    def when_committed(self, callback: Callable[[], None]) -> None:
        """Call back once all that was appended so far is on disk, or cannot get there."""
        if self.failure or self._committed >= self.state.last_seq:
            self._loop.call_soon(callback)
        else:
            self._on_committed.append((self.state.last_seq, callback))

    def when_accepted(self, callback: Callable[[AgentError | None], None]) -> None:
        """The same, before anyone is shown any of it, and with the reason where it cannot get there."""
        if self.failure or self._committed >= self.state.last_seq:
            self._loop.call_soon(callback, self.failure)
        else:
            self._on_accepted.append((self.state.last_seq, callback))
            self.flush_soon()

    def _accept(self, last: int, error: AgentError | None) -> None:
        while self._on_accepted and self._on_accepted[0][0] <= last:
            self._on_accepted.popleft()[1](error)

    def note_committed(self, last: int) -> None:
        """Records up to `last` are on disk, by the writer's word or because they have been read from there: show them."""
        self._committed = max(self._committed, last)
        self._accept(self._committed, None)
        self._publish()

    def _on_batch(self, last: int, error: BaseException | None) -> None:
        if error is not None:
            self._fail(error if isinstance(error, AgentError) else StoreError(f"conversation store: {error}"))
            return
        if self.on_all_written is not None and last == self.state.last_seq:
            self.on_all_written()
        self.note_committed(last)
        while self._barriers and self._barriers[0][0] <= last:
            _, waiter = self._barriers.popleft()
            if not waiter.done():
                waiter.set_result(None)
        if self._on_committed:
            self._loop.call_soon(self._call_back, last)  # after what has just been shown is on its way

    def _fail(self, error: AgentError) -> None:
        if self.failure:
            return
        self.failure = error
        self._drop_unwritten()
        self.said = Said()
        for _, waiter in self._barriers:
            if not waiter.done():
                waiter.set_exception(error)
        self._barriers.clear()
        if self.on_failure is not None:
            self.on_failure()
        self._accept(self.state.last_seq, error)
        self.fail_followers(error)
        self._call_back(self.state.last_seq)

    def fail_followers(self, error: AgentError) -> None:
        """Nothing more will be shown."""
        for follower in tuple(self.followers):
            try:
                follower.fail(error)
            except Exception:  # the others are told all the same
                logger.exception("bug in telling a viewer of %s of a failure", self.conversation_id)

    def _call_back(self, last: int) -> None:
        if not self._on_committed:
            return
        due = [callback for seq, callback in self._on_committed if seq <= last]
        self._on_committed = [(seq, callback) for seq, callback in self._on_committed if seq > last]
        for callback in due:
            callback()

    # -- showing

    def emit(self, delta: Delta, turn: str) -> None:
        live = LiveDelta(delta, turn, self.state.last_seq)
        if self._queue:
            self._queue.append(live)
            self.flush_soon()
        else:
            self._show_delta(live)
            self._save_partial_soon()

    def publish_foreign(self, entries: Sequence[Entry]) -> None:
        """Show what another process has written."""
        for entry in entries:
            self._show(Shown(entry))

    def publish_partial(self, partial: Partial, turn: str) -> None:
        """Show what another process has said of unfinished items, beyond what was shown here."""
        for delta in self.said.beyond(partial):
            self._show_delta(LiveDelta(delta, turn, self.published))  # to keep it beside the log is the other's part

    def _publish(self) -> None:
        queue = self._queue
        while queue:
            first = queue[0]
            if isinstance(first, Shown):
                if first.entry.seq > self._committed:
                    return
                queue.popleft()
                self._show(first)
            else:
                queue.popleft()
                self._show_delta(first)
                self._save_partial_soon()

    def _show(self, shown: Shown) -> None:
        self.published = shown.entry.seq
        if self.said and self.said.finish(shown.entry.record):
            self._partial_whole = False  # what is in the store says more than is unfinished now
        for follower in tuple(self.followers):
            try:
                follower.show(shown)
            except Exception as error:
                self._drop(follower, error)

    def _show_delta(self, live: LiveDelta) -> None:
        self.said.add(live.delta)
        for follower in tuple(self.followers):
            try:
                follower.show_delta(live)
            except Exception as error:
                self._drop(follower, error)

    def _drop(self, follower: Follower, error: Exception) -> None:
        """A bug in one viewer ends that viewer, loudly: the turn and the others go on."""
        if follower in self.followers:
            self.followers.remove(follower)
        try:
            follower.fail(AgentError(report_bug(logger, error, "in showing %s to a viewer", self.conversation_id)))
        except Exception:
            logger.exception("bug in telling a viewer of %s of a failure", self.conversation_id)

    def _save_partial_soon(self) -> None:
        if self._partial_timer is None:
            self._partial_timer = self._loop.call_later(PARTIAL_SECONDS, self._save_partial)

    def _save_partial(self) -> None:
        self._partial_timer = None
        if self._queue:
            self._save_partial_soon()  # an entry on its way to the disk may finish what was said, and clear what is kept of it
        elif self.failure is None and self.said and self.state.turn is not None:
            new = self.said.take_new(self.published)
            adds = self._partial_whole
            partial = new if adds else self.said.partial(self.published)
            self._partial_saved = self._partial_whole = True
            self._log.save_partial(self.conversation_id, self._epoch, partial, self._on_partial, adds=adds)

    def _on_partial(self, error: BaseException | None) -> None:
        if error is not None:
            self._partial_whole = False  # a piece is missing: the next time all of it is written

    def close(self) -> None:
        if self._partial_timer is not None:
            self._partial_timer.cancel()
            self._partial_timer = None
