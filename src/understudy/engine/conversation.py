"""One conversation: ops come in, records go to its log, at most one turn runs at a time.

A turn belongs to its conversation, not to whoever began it. An idle conversation has no task and no claim. While a turn runs
here, no op waits for anything, so the turn and the op that is being handled never touch the state at the same time.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from understudy.engine.approvals import Approvals
from understudy.engine.beginning import ENDING, Beginning, Prepare
from understudy.engine.eager import EagerTasks
from understudy.engine.elsewhere import Elsewhere
from understudy.engine.fold import State
from understudy.engine.following import Following
from understudy.engine.held_messages import HeldMessages
from understudy.engine.letters import Letters
from understudy.engine.long_commands import LEAVING, UNRECORDED, LongCommands
from understudy.engine.op_queue import OpQueue
from understudy.engine.our_claim import OurClaim
from understudy.engine.pace import PAGE_BYTES, PAGE_RECORDS, Pace
from understudy.engine.phases import MAY_BE_FORGOTTEN, OURS, REFUSES, Given, Standing, kept
from understudy.engine.running import Running
from understudy.engine.sending import begin_what_waits, send
from understudy.engine.tail import CommitDelay, Tail, Told
from understudy.engine.turn_setup import TurnSetup
from understudy.errors import AgentError, Fenced, StoreError, UnknownConversation
from understudy.protocol.callers import LOCAL_NAME
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Accepted, Cancel, Compact, Decide, Interrupt, Rename, Resume, Send, Undo
from understudy.protocol.records import Entry, Opened, Overrides, Pins, UserMessage
from understudy.store.log import EventLog
from understudy.tools.host import RunsCommands

if TYPE_CHECKING:
    from understudy.engine.shared_pages import SharedPages

logger = logging.getLogger(__name__)

TurnOp = Send | Interrupt | Cancel | Decide | Compact | Resume | Undo | Rename


class Conversation:
    """What the parts of the engine share of a conversation. Front ends hold a `Handle`."""

    def __init__(
        self,
        conversation_id: ConversationId,
        log: EventLog,
        sandbox: RunsCommands,
        prepare: Prepare,
        loop: asyncio.AbstractEventLoop,
        tasks: EagerTasks,
        commit_delay: CommitDelay,
        on_watch_needed: Callable[["Conversation"], None],
        pace: Pace,
    ) -> None:
        self.id = conversation_id
        self.loop = loop
        self.tasks = tasks
        self.pace = pace
        self.queue = OpQueue(loop, tasks, self.release_if_idle)
        self.tail = Tail(conversation_id, log, loop, commit_delay)
        self._pages: SharedPages | None = None
        self.tail.on_failure = self._on_failure
        self.tail.on_all_written = self._release
        if log.is_remote:
            self.tail.gives_back = self._give_back
        self.letters = Letters(conversation_id, log, self.tail)
        self.standing = Standing()
        self.claim = OurClaim(conversation_id, log, self.tail, self.letters, self.standing)
        self.claim.runs_something = self._runs_something
        self.running = Running(self.tail, loop, self.standing)
        self.sandbox = sandbox
        self.approvals = Approvals(self.tail)
        self.long_commands = LongCommands(self.tail, self.release_if_idle)
        self.elsewhere = Elsewhere(self, log)
        self.beginning = Beginning(
            log,
            self.tail,
            self.standing,
            self.letters,
            self.running,
            self.approvals,
            sandbox,
            prepare,
            self.elsewhere.read_letters,
            self.long_commands,
        )
        self.standing.effects = (
            self._watch_turn,
            self._go_on,
            self._break,
            self._fail_held,
            self._stop_what_runs,
            self._release_soon,
        )
        self.waiting: list[Following] = []  # for the end of a turn, wherever it runs
        self.asks_those_left = False  # in the next step: a viewer has left that could answer a question
        self.used_at = 0.0  # by the clock of the loop
        self.counted_bytes = 0  # of memory, when it was used last
        self.wanted_by = 0  # those who wait for the log outside the queue: to have it read, deleted or archived
        self._log = log
        self.on_watch_needed = on_watch_needed
        self.held = HeldMessages()
        self.queued_by: dict[str, str] = {}  # who sent the messages that wait here for turns of their own
        self.interrupted_elsewhere: str | None = None  # a turn of another process that we have told to end

    @property
    def state(self) -> State:
        return self.tail.state

    @property
    def is_shared(self) -> bool:
        return self._log.shared

    @property
    def loaded(self) -> bool:
        """Whether its log is known here: there is none without a record."""
        return self.tail.state.last_seq > 0

    @property
    def refuses(self) -> bool:
        """It is gone, or will be."""
        return self.standing.phase in REFUSES

    @property
    def is_quiet(self) -> bool:
        """Nothing runs, nothing waits for the disk, nobody watches: it may be forgotten until it is asked for again."""
        if self.standing.phase not in MAY_BE_FORGOTTEN or self.wanted_by or self.queue.busy or self.needs_watching:
            return False
        return not self.claim.is_held and self.tail.idle

    @property
    def needs_watching(self) -> bool:
        """Another process may have something for whoever follows here, or for the turn that runs here."""
        return bool(self.running.turn or self.long_commands or self.tail.broadcast.followers or self.letters.unread)

    # -- beginning

    async def open(
        self,
        overrides: Overrides,
        model: str,
        provider: str,
        pins: Pins | None,
        owner: str = LOCAL_NAME,
        thread_source: str | None = None,
    ) -> None:
        """The first record of a new conversation."""
        await self.queue.run(self._open(Opened(self.id, model, overrides, provider, pins, owner, thread_source)))

    async def _open(self, opened: Opened) -> None:
        await self.claim.begin()
        self.tail.begin()
        self.tail.append(opened, turn="0")
        self.standing.note(Given.OPENED)

    async def load(self) -> None:
        """Read what the store has, unless that is known. Raises `UnknownConversation`."""
        if not self.loaded:
            await self.queue.run(self._load())

    async def _load(self) -> None:
        if self.loaded:  # by somebody who asked for it at the same time
            return
        position = (await self._log.positions([self.id])).get(self.id)
        if position is None:
            raise UnknownConversation(f"no conversation {self.id}")
        from understudy.engine.whole_log import folded, read_whole  # a new conversation has nothing to read

        entries = await read_whole(self._log, self.id, self.pace, position.last_seq)
        self.tail.load(await folded(entries), position.epoch)
        self.tail.broadcast.published = self.state.last_seq
        self.standing.note(Given.LOADED)

    async def read(self, after: int, limit: int | None = None) -> Sequence[Entry]:
        """Entries that viewers may be shown, from the store: a page in a step of the event loop."""
        found: list[Entry] = []
        while limit is None or len(found) < limit:
            wanted = PAGE_RECORDS if limit is None else min(PAGE_RECORDS, limit - len(found))
            await self.pace.take(wanted)
            page = await _read_published(self._log, self.tail, after, wanted, PAGE_BYTES)
            found += page
            if not page or page[-1].seq >= self.tail.broadcast.published:
                break
            after = page[-1].seq
        return found

    @property
    def pages(self) -> "SharedPages":
        """The same for many viewers."""
        if self._pages is None:
            from understudy.engine.shared_pages import SharedPages  # nobody reads a new conversation back

            self._pages = SharedPages(self.loop, self.pace, partial(_read_published, self._log, self.tail))
        return self._pages

    # -- ops

    async def submit(self, op: TurnOp, following: Following | None = None, told: Told | None = None) -> Accepted:
        """Raises `AgentError` where it is not taken. In the step in which it is, `following` is told where a message went.

        `told` is called once what was accepted is durable, or with the reason why it is not. Where no turn runs, a refusal or word
        that there was nothing to do comes only once what it follows from is in the log: the end of a turn that the op has closed,
        for instance. Whoever is told while a turn runs finds it running.
        """
        try:
            accepted = await self.queue.run(self._accept(op, following, told))
        except AgentError:
            if not self.running:
                with suppress(AgentError):
                    await self.committed()
            raise
        if not (accepted.effective or self.running):
            await self.committed()
        return accepted

    async def committed(self) -> None:
        """Wait until all that is known here is in the log, and has been shown. Raises what kept it from getting there."""
        if not self.tail.idle:
            from understudy.engine.until_durable import until_durable  # seldom needed

            await until_durable(self.tail.when_durable)

    async def _accept(self, op: TurnOp, following: Following | None, told: Told | None) -> Accepted:
        accepted = await self._handle(op)
        if following is not None and accepted.message_id:
            following.follow_message(accepted)
        if told is not None:
            in_our_log = self.claim.is_held and not accepted.held  # else it is a letter, or waits for the end of the turn
            (self.tail if in_our_log else self).when_durable(told)
        return accepted

    async def _handle(self, op: TurnOp) -> Accepted:
        match op:
            case Send(message=message, own_turn=True):
                from understudy.engine.queued_turns import send_for_own_turn  # only some doors ask for it

                return await send_for_own_turn(self, op, message)
            case Send(message=message):
                return await send(self, op, message)
            case Interrupt(turn=turn):
                from understudy.engine.interrupting import interrupt

                ended = await interrupt(self, op, turn or None)
                return Accepted(turn=ended, effective=ended is not None)
            case Cancel(message_id=message_id, turn=turn):
                from understudy.engine.interrupting import cancel

                return Accepted(message_id, turn, effective=await cancel(self, op))
            case Decide():
                from understudy.engine.deciding import decide

                return await decide(self, op)
            case Compact():
                from understudy.engine.compaction.op import compact

                return await compact(self, op)
            case Resume():
                return Accepted(turn=await self.resume())
            case Rename():
                from understudy.engine.renaming import rename  # seldom asked for

                return await rename(self, op)
            case Undo():
                from understudy.engine.undoing import undo  # seldom asked for

                return await undo(self, op)

    def when_durable(self, callback: Told) -> None:
        """Call back once all that was sent so far is durable, or with the reason why it is not. Nobody is shown it sooner."""
        if self.held:
            self.held.when_durable(callback)
        elif self.letters.posting:
            self.letters.when_posted(lambda error: self._when_records_are(callback, error))
        else:
            self.tail.when_durable(callback)

    def _when_records_are(self, callback: Told, error: AgentError | None) -> None:
        """Letters are durable. What was appended since they were sent may not be."""
        if error is not None or self.tail.idle:
            callback(error)
        else:
            self.tail.when_durable(callback)

    def check_log(self) -> None:
        """Raises why nothing can be recorded any more, while what runs here is being stopped for that reason."""
        if self.tail.failure is not None:
            raise self.tail.failure

    def on_posted(self, error: AgentError | None) -> None:
        """A message was left for another process."""
        if error is None:
            self.elsewhere.look_soon()
        else:
            self.fail_waiting(error)

    async def begin(self, record: UserMessage, *before: UserMessage, by: str, promised: bool = False) -> Accepted:
        """Under the claim: a turn with this message, after those that were left for one that had ended."""
        try:
            return await self.beginning.begin(record, *before, by=by, promised=promised)
        except BaseException:
            self.claim.mistrust()
            raise

    async def resume(self) -> str | None:
        """Take up a turn that waited for an answer when its process ended: its id. Raises `ConversationBusy`."""
        if self.refuses:
            raise UnknownConversation(f"no conversation {self.id}")
        if self.running:
            return self.running.turn.turn_id if self.running.turn else None
        await self.claim.take()
        return await self.beginning.resume()

    def decide_here(self, op: Decide, turn: str) -> bool:
        if op.turn not in ("", turn):
            return False
        counts = self.approvals.decide(op, turn)
        if counts and op.decision == "abort":
            self.running.note_told_to_end()
        return counts

    # -- turns

    def setup(self) -> TurnSetup:
        """What the next turn would run with. Raises `ConfigError`."""
        return self.beginning.setup()

    def _watch_turn(self) -> None:
        self.elsewhere.letters_left = False
        self.on_watch_needed(self)

    def _go_on(self) -> None:
        if self.held or self.elsewhere.letters_left or self.tail.state.queued:
            self.queue.put(begin_what_waits(self), first=True)
        else:
            self.release_if_idle()

    def fail_waiting(self, error: AgentError) -> None:
        for following in tuple(self.waiting):
            following.fail(error)

    def _on_failure(self) -> None:
        self.standing.note(Given.BROKEN)

    def _fail_held(self) -> None:
        if self.tail.failure is not None:
            self.held.fail(self.tail.failure)

    def _stop_what_runs(self) -> None:
        self.running.stop_unrecorded()
        self.long_commands.end_soon(UNRECORDED)

    def _release_soon(self) -> None:
        self.loop.call_soon(self.release_if_idle)  # once everyone has been told

    def _runs_something(self) -> bool:
        return bool(self.running or self.long_commands)

    def _break(self) -> None:
        """The log could not keep the claim for us: another process may have the conversation, and write to it."""
        reason = f"the claim on conversation {self.id} was lost, so its turn was stopped; send again to continue the conversation"
        logger.error("%s", reason)
        self.tail.fail(Fenced(f"conversation store: {reason}"))

    def release_if_idle(self) -> None:
        if self.tail.idle:
            self._release()

    def _release(self) -> None:
        """All is written. Before the answer goes out, so that another process that acts on it is not refused."""
        if not (self.running.turn or self.standing.phase in REFUSES or self.queue.busy or self.long_commands):
            self.claim.release()

    def _give_back(self) -> bool:
        """With the batch that is handed over now: nothing more is to be written under this claim. Whoever wants it next, here too,
        asks the log for it, which answers once that batch is written.
        """
        waits = self.held or self.elsewhere.letters_left or self.state.queued
        if waits or self.standing.phase is not OURS or self.state.turn is not None or self.queue.busy or self.long_commands:
            return False
        return self.claim.give_back()

    # -- ending

    async def delete(self) -> None:
        """Forget it for good. Raises `ConversationBusy` while another process runs its turn."""
        from understudy.engine.deleting import delete

        self.wanted_by += 1
        try:
            await delete(self, self._log)
        finally:
            self.wanted_by -= 1

    def note_kept(self) -> None:
        """It could not be deleted."""
        broken = self.tail.failure is not None
        turn, claimed = bool(self.running), self.claim.is_held
        self.standing.note(kept(known=self.loaded, claimed=claimed, turn=turn, broken=broken))

    async def archive(self, *, archived: bool) -> None:
        """Put it among the archived ones, or back. A turn may run meanwhile; commands that outlive their turns are ended."""
        from understudy.engine.deleting import archive

        self.wanted_by += 1
        try:
            await archive(self, self._log, archived=archived)
        finally:
            self.wanted_by -= 1

    async def stop(self) -> None:
        """The process ends: ops that wait are refused; a turn is interrupted, unless it waits for an answer."""
        reason = StoreError(ENDING)
        self.standing.note(Given.LEAVE)
        self.held.fail(reason)
        await self.queue.close(reason)
        await self.running.leave()
        await self.long_commands.end_all(LEAVING)

    def flush(self) -> None:
        """What is not handed to the log yet is, and nothing is saved later."""
        self.tail.close()
        self.tail.flush()

    def forget(self) -> None:
        """It leaves memory. Nothing in it may point back to it: then it is gone at once, and not when the collector comes by."""
        self.standing.note(Given.FORGET)
        self.tail.close()
        if self._pages is not None:
            self._pages.close()
        self.tail.on_failure = self.tail.on_all_written = self.tail.gives_back = self.claim.runs_something = None
        self.standing.effects = ()
        del self.queue, self.elsewhere, self.beginning, self.long_commands  # they know this one


async def _read_published(
    log: EventLog, tail: Tail, after: int, limit: int | None = None, most_bytes: int | None = None
) -> Sequence[Entry]:
    """Of what viewers may be shown. The disk may be a moment ahead of what was shown: not after this."""
    entries = await log.read(tail.conversation_id, after, limit, most_bytes)
    if entries and entries[-1].seq > tail.broadcast.published:
        tail.note_committed(entries[-1].seq)
    return [entry for entry in entries if entry.seq <= tail.broadcast.published]
