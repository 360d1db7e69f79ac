"""The end of one conversation's log, as this process writes it: numbers records, hands them to the store, and reports the outcome.

`Broadcast` shows what has been committed.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from understudy.engine.log.broadcast import Broadcast, LiveDelta
from understudy.engine.log.fold import State
from understudy.engine.log.unfinished_text import TextSaver, TextSoFar
from understudy.errors import AgentError, StoreError
from understudy.protocol.encodable import encode_all
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import CommandEnded, Delta, Entry, ItemReceived, Record, TurnEnded
from understudy.store.log import Batch, EventLog

if TYPE_CHECKING:
    from understudy.engine.services.observing import Observer

Told = Callable[[AgentError | None], None]
Flush = Callable[[], None]

BYTES_OF_A_MESSAGE = 400  # for where the message ended and which turn it began
HOLD_SECONDS = 0.002  # for each held conversation
MOST_SECONDS = 0.05


class CommitDelay:
    """Holds back records that nobody waits for, so that they share a commit with other records of the turn. One instance serves all
    conversations of a process, with one timer that runs only while something is held.

    If the model answers at once, the turn then needs one batch instead of two, and with fifty busy sessions five to twenty batches
    share a commit. Under load, records are held longer, to share a commit with more.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._held: dict[Flush, None] = {}
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def hold(self, flush: Flush) -> None:
        self._held[flush] = None
        if self._timer is None:
            self._since = self._loop.time()
            self._timer = self._loop.call_later(HOLD_SECONDS, self._look)

    def let_go(self, flush: Flush) -> None:
        """The records have been flushed."""
        self._held.pop(flush, None)
        if not self._held and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        left = min(HOLD_SECONDS * len(self._held), MOST_SECONDS) - (self._loop.time() - self._since)
        if left >= HOLD_SECONDS / 2:
            self._timer = self._loop.call_later(left, self._look)
            return
        held, self._held, self._timer = self._held, {}, None
        for flush in held:
            flush()


class Tail:
    def __init__(
        self,
        conversation_id: ConversationId,
        log: EventLog,
        loop: asyncio.AbstractEventLoop,
        commit_delay: CommitDelay | None = None,
    ) -> None:
        self.conversation_id = conversation_id
        self.state = State()
        self.size = 0  # approximate bytes of JSON in the state
        self._text_saver = TextSaver(conversation_id, log, loop, self._save_text)
        self.broadcast = Broadcast(conversation_id, self._text_saver)
        self._log = log
        self._loop = loop
        self._committed = 0
        self._unwritten: list[Entry] = []
        self._encoded: list[bytes] = []  # the encoded records of `_unwritten`
        self._generation = 0  # grows when the store is read anew: outcomes of earlier batches are then ignored
        self._under_way = 0  # batches of which the store has not said what became of them
        self._refused: asyncio.Future[None] | None = None
        self._flushing = False
        self._commit_delay = commit_delay or CommitDelay(loop)
        self._held = False
        self._barriers: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._on_committed: list[tuple[int, Callable[[], None]]] = []
        self._on_durable: deque[tuple[int, Told]] = deque()
        self._epoch = 0
        self._claims = False
        self._creates = False
        self._letters_taken = 0
        self.failure: AgentError | None = None
        self.on_failure: Callable[[], None] | None = None
        self.gives_back: Callable[[], bool] | None = None  # asked whether the claim is given back with the current batch
        self.on_all_written: Callable[[], None] | None = None  # called before anyone is shown the last record
        self.observer: Observer | None = None

    # -- position in the log

    def begin(self) -> None:
        """Begin a new conversation, of which nothing is on disk."""
        self._epoch, self._creates = 1, True

    def load(self, state: State, epoch: int) -> None:
        """Continue from what the store holds. The next append raises the epoch."""
        if state is not self.state:
            self.state = state
            self.measure()
        self._committed = state.last_seq
        self._epoch, self._claims = epoch + 1, True
        self._text_saver.expect_leftovers()
        self.failure = None
        self._generation += 1
        self._drop_unwritten()

    def measure(self) -> None:
        """Recompute `size`: the state was read from the store, or a part of it has been left out."""
        self.size = self.state.history.size() + BYTES_OF_A_MESSAGE * len(self.state.message_ends)

    def resume(self) -> None:
        """Continue where we left off: no other process has written since. The next append raises the epoch."""
        if not (self._claims or self._creates):  # otherwise the claim before this one wrote nothing
            self._epoch += 1
            self._claims = True

    def _drop_unwritten(self) -> None:
        self.broadcast.drop_waiting()
        self._unwritten.clear()
        self._encoded.clear()

    @property
    def stored_epoch(self) -> int:
        """The epoch in the store, once everything appended is there."""
        return self._epoch - int(self._claims or self._creates)

    @property
    def epoch(self) -> int:
        """The epoch of the next append."""
        return self._epoch

    @property
    def idle(self) -> bool:
        return not self.broadcast.queue and not self._unwritten

    # -- writing

    def append(self, *records: Record, turn: str) -> None:
        """Append all records, or none and raise `CannotBeRecorded`; the log can still be appended to."""
        if self.failure:
            return  # what cannot be recorded did not happen; those who wait have been told
        state, observer = self.state, self.observer
        now = self._log.time()
        if now < state.last_at:
            now = state.last_at  # never before the previous record
        kept, encoded = encode_all(records)
        entries: list[Entry] = []
        for record in kept:
            entry = Entry(state.last_seq + 1, state.head, turn, now, record)
            state.apply(entry)
            entries += (entry,)
            if observer is not None:
                observer.recorded(self.conversation_id, entry)
        self._unwritten += entries
        self._encoded += encoded
        self.broadcast.add(entries)
        if not self._held:
            self._held = True
            self._commit_delay.hold(self.flush)

    def emit(self, delta: Delta, turn: str) -> None:
        self.emit_all((delta,), turn)

    def emit_all(self, deltas: Sequence[Delta], turn: str) -> None:
        """Show deltas, after everything appended before them. If they cannot be recorded, nothing of them is shown."""
        if self.failure:
            return  # otherwise they would precede the text of the next answer
        after = self.state.last_seq
        self.broadcast.add_deltas([LiveDelta(delta, turn, after) for delta in deltas])
        if self._unwritten:
            self.flush_soon()

    def flush_soon(self) -> None:
        """Somebody waits: flush at the end of this step, with whatever else the step appends."""
        if not self._flushing and self._unwritten:
            self._flushing = True
            self._loop.call_soon(self.flush)

    def take_letters(self, number: int) -> None:
        """The next append covers letters up to `number`."""
        self._letters_taken = number

    def flush(self) -> None:
        """Hand what was appended to the writer, as one batch."""
        self._flushing = False
        if self._held:
            self._held = False
            self._commit_delay.let_go(self.flush)
        if not self._unwritten or self.failure:
            return
        entries, encoded = tuple(self._unwritten), tuple(self._encoded)
        self._unwritten, self._encoded = [], []
        clears = self._text_saver.exists and any(
            isinstance(entry.record, ItemReceived | CommandEnded | TurnEnded) for entry in entries
        )
        batch = Batch(
            self.conversation_id,
            self._epoch,
            entries[0].seq - 1,
            entries,
            self.state.summary(),
            claims=self._claims,
            creates=self._creates,
            clears_text=clears,
            releases=self.gives_back is not None and self.gives_back(),
            takes_letters=self._letters_taken,
            encoded=encoded,
        )
        self.size += sum(map(len, encoded))
        self._claims = self._creates = False
        self._letters_taken = 0
        if clears:
            self._text_saver.note_cleared()
        last, generation = entries[-1].seq, self._generation
        self._under_way += 1
        self._log.append(batch, lambda error: self._on_batch(last, generation, error))

    def _save_text(self) -> None:
        if self.broadcast.queue:
            self._text_saver.save_soon()  # an entry on its way to the disk may finish the text and clear its saved copy
        elif self.failure is None and self.broadcast.text and self.state.turn is not None:
            self._text_saver.write(self.broadcast.text, self.broadcast.published, self._epoch)

    # -- outcomes

    async def committed(self) -> None:
        """Wait until everything appended is on disk. Raises the reason if that fails."""
        self.flush()
        if self.failure:
            raise self.failure
        if self._committed < self.state.last_seq:
            waiter = self._loop.create_future()
            self._barriers.append((self.state.last_seq, waiter))
            await waiter

    def when_committed(self, callback: Callable[[], None]) -> None:
        """Call back once everything appended so far is on disk, or cannot get there."""
        if self.failure or self._committed >= self.state.last_seq:
            self._loop.call_soon(callback)
        else:
            self._on_committed.append((self.state.last_seq, callback))

    def when_durable(self, callback: Told) -> None:
        """Like `when_committed`, but called before followers see it, with the error if it failed."""
        if self.failure or self._committed >= self.state.last_seq:
            self._loop.call_soon(callback, self.failure)
        else:
            self._on_durable.append((self.state.last_seq, callback))
            self.flush_soon()

    def note_committed(self, last: int) -> None:
        """Records up to `last` are on disk, as the writer reported or a read showed: show them."""
        if last > self._committed:
            self._committed = last
        if self._on_durable:
            self._tell_durable(self._committed, None)
        self.broadcast.publish(self._committed)

    @property
    def may_still_be_written(self) -> bool:
        """Whether the store, after a failure, still has a later batch. Nobody else may have the claim until that is refused: if
        another process wrote as many records as the batch that failed had, the later one would fit behind them.
        """
        return self.failure is not None and self._under_way > 0

    async def all_refused(self) -> None:
        """Wait, after a failure, until nothing that was handed to the store before can still be written."""
        while self.may_still_be_written:
            if self._refused is None:
                self._refused = self._loop.create_future()
            await asyncio.shield(self._refused)

    def _note_refused(self) -> None:
        refused, self._refused = self._refused, None
        if refused is not None:
            refused.set_result(None)
        if self.on_all_written is not None:
            self.on_all_written()

    def _on_batch(self, last: int, generation: int, error: BaseException | None) -> None:
        self._under_way -= 1
        if self.failure is not None and not self._under_way:
            self._note_refused()
        if generation != self._generation:
            return
        if error is not None:
            self.fail(error if isinstance(error, AgentError) else StoreError(f"conversation store: {error}"))
            return
        if self.on_all_written is not None and last == self.state.last_seq:
            self.on_all_written()
        self.note_committed(last)
        while self._barriers and self._barriers[0][0] <= last:
            _, waiter = self._barriers.popleft()
            if not waiter.done():
                waiter.set_result(None)
        if self._on_committed:
            self._loop.call_soon(self._tell_committed, last)  # after the entries just shown have been sent

    def fail(self, error: AgentError) -> None:
        """Nothing more can be appended, and pending records cannot be shown."""
        if self.failure:
            return
        self.failure = error
        self._drop_unwritten()
        self.broadcast.text = TextSoFar()
        for _, waiter in self._barriers:
            if not waiter.done():
                waiter.set_exception(error)
        self._barriers.clear()
        if self.on_failure is not None:
            self.on_failure()
        self._tell_durable(self.state.last_seq, error)
        self.broadcast.fail(error)
        self._tell_committed(self.state.last_seq)

    def _tell_durable(self, last: int, error: AgentError | None) -> None:
        while self._on_durable and self._on_durable[0][0] <= last:
            self._on_durable.popleft()[1](error)

    def _tell_committed(self, last: int) -> None:
        if not self._on_committed:
            return
        due = [callback for seq, callback in self._on_committed if seq <= last]
        self._on_committed = [(seq, callback) for seq, callback in self._on_committed if seq > last]
        for callback in due:
            callback()

    def close(self) -> None:
        self._text_saver.close()
