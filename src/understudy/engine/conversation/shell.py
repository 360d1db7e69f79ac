"""Everything that can be done to a conversation. Ops and a turn's events decide; this class only performs.

Ops (`ops/`) and `Elsewhere` (the acts of other processes) know a conversation as a `Shell` and use its methods, not its parts. So
each effect has one name, and this file lists all that an op can do to a conversation.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from understudy.engine.conversation.beginning import Beginning
from understudy.engine.conversation.letters import HeldMessage, HeldMessages, Letters
from understudy.engine.conversation.our_claim import Inbox, OurClaim
from understudy.engine.conversation.phases import REFUSES, Given, Phase, Standing, kept
from understudy.engine.conversation.running import Running
from understudy.engine.log.durable import until_durable
from understudy.engine.log.fold import State
from understudy.engine.log.tail import CommitDelay, Tail, Told
from understudy.engine.setup.turn_setup import TurnSetup
from understudy.engine.steps import EagerTasks, OpQueue, Pace
from understudy.engine.turn.approvals import Approvals
from understudy.engine.turn.long_commands import LongCommands
from understudy.errors import AgentError, UnknownConversation
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Accepted, Decide, Interrupt, Op, Send
from understudy.protocol.records import Entry, Record, UserMessage
from understudy.store.log import EventLog, Letter
from understudy.tools.host import RunsCommands

if TYPE_CHECKING:
    from understudy.engine.conversation.waiters import Waiter
    from understudy.engine.log.broadcast import Follower

T = TypeVar("T")


class Shell:
    beginning: Beginning  # set by the subclass, which knows how letters to a turn are read

    def __init__(
        self,
        conversation_id: ConversationId,
        log: EventLog,
        sandbox: RunsCommands,
        loop: asyncio.AbstractEventLoop,
        tasks: EagerTasks,
        commit_delay: CommitDelay,
        pace: Pace,
    ) -> None:
        self.id = conversation_id
        self.loop = loop
        self.tasks = tasks
        self.pace = pace
        self.sandbox = sandbox
        self.queue = OpQueue(loop, tasks, self.release_if_idle)
        self.tail = Tail(conversation_id, log, loop, commit_delay)
        self.letters = Letters(conversation_id, log, self.tail)
        self.standing = Standing()
        self.claim = OurClaim(conversation_id, log, self.tail, self.letters, self.standing)
        self.running = Running(self.tail, loop, self.standing)
        self.approvals = Approvals(self.tail)
        self.long_commands = LongCommands(self.tail, self.release_if_idle)
        self.held = HeldMessages()
        self.waiting: list[Waiter] = []  # for the end of a turn, wherever it runs
        self._asks_later = False  # a viewer that could answer a question has left, which the next step handles
        self._log = log
        self._letters_left = False  # in the inbox, for the turn after the running one
        self.fixes: Callable[[Send], Send] | None = None  # with a remote log: pins the folders of a message that was left here
        self._senders: dict[str, str] = {}  # who sent each message that waits here for a turn of its own
        self._interrupted_elsewhere: str | None = None  # a turn of another process that we told to end

    # -- state

    @property
    def state(self) -> State:
        return self.tail.state

    @property
    def phase(self) -> Phase:
        return self.standing.phase

    @property
    def turn_id(self) -> str | None:
        """The id of the turn that runs here."""
        return None if self.running.turn is None else self.running.turn.turn_id

    @property
    def turn_runs(self) -> bool:
        """Whether a turn runs here, even if it is ending."""
        return bool(self.running)

    @property
    def is_interrupted_elsewhere(self) -> bool:
        """Whether we told another process's running turn to end."""
        return self.state.turn is not None and self.state.turn == self._interrupted_elsewhere

    def check_exists(self) -> None:
        """Raises `UnknownConversation`."""
        if self.standing.phase in REFUSES:
            raise UnknownConversation(f"no conversation {self.id}")

    @property
    def failure(self) -> AgentError | None:
        """Why nothing can be recorded any more."""
        return self.tail.failure

    @property
    def published(self) -> int:
        """The last record that viewers may be shown."""
        return self.tail.broadcast.published

    @property
    def followers(self) -> "Sequence[Follower]":
        return self.tail.broadcast.followers

    @property
    def depends_on_others(self) -> bool:
        """Somebody here waits for another process to end its turn or to read a message."""
        return not self.running and bool(self.waiting or self.letters.unread)

    def check_log(self) -> None:
        """Raise the reason why nothing can be recorded any more, while what runs here is being stopped."""
        if (failure := self.tail.failure) is not None:
            raise failure

    def note(self, given: Given) -> None:
        self.standing.note(given)

    # -- the claim, and which process has it

    @property
    def is_on_another_host(self) -> bool:
        """Whether it was on another host when the claim was last requested."""
        return self.claim.is_elsewhere

    @property
    def has_claim(self) -> bool:
        return self.claim.is_held

    def take_claim(self) -> Awaitable[Inbox]:
        """Take the claim and bring the state up to date. Raises `ConversationBusy`."""
        return self.claim.take()

    def catch_up(self) -> Awaitable[None]:
        """Read what other processes have appended, and show it."""
        return self.claim.catch_up()

    def release(self) -> None:
        self.claim.release()

    def release_if_idle(self) -> None:
        if self.tail.idle:
            self._release()

    def _release(self) -> None:
        """Release the claim once all is written, and before the answer goes out: another process may act on that."""
        if self.tail.failure is not None and self.tail.may_still_be_written:
            return
        if not (self.running.turn or self.standing.phase in REFUSES or self.queue.busy or self.long_commands):
            self.claim.release()

    async def is_claimed(self) -> bool:
        """Whether any process holds the claim."""
        return await self._log.holder(self.id) is not None

    async def is_stored(self) -> bool:
        return bool(await self._log.positions([self.id]))

    async def may_run_elsewhere(self) -> bool:
        """Whether another process has it, other than just for commands that outlive their turns, or left a turn open."""
        claimed = await self.is_claimed()
        if not claimed or self.state.sessions.running:
            await self.claim.catch_up()
        return self.state.turn is not None or (claimed and not self.state.sessions.running)

    async def holder(self) -> int | None:
        """The process that runs the turn, if it can be identified."""
        if self.claim.is_held:
            return os.getpid()
        holder = await self._log.holder(self.id, identify=True)
        return None if holder is None else holder.process

    # -- the log

    def append(self, *records: Record, turn: str) -> None:
        self.tail.append(*records, turn=turn)

    async def committed(self) -> None:
        """Wait until everything known here is in the log and has been shown. Raises the reason if that fails."""
        if not self.tail.idle:
            await until_durable(self.tail.when_durable)

    @property
    def is_written(self) -> bool:
        """Whether everything known here is on disk."""
        return self.tail.idle

    def all_written(self) -> Awaitable[None]:
        return self.tail.committed()

    async def read(self, after: int, limit: int | None = None) -> Sequence[Entry]:
        """Entries that viewers may be shown, from the store: one page per step of the event loop."""
        from understudy.engine.viewers.shared_pages import read_back  # a new conversation has nothing to read

        return await read_back(self._log, self.tail, self.pace, after, limit)

    async def erase(self) -> None:
        await until_durable(lambda told: self._log.delete(self.id, told))

    async def put_away(self, *, archived: bool) -> None:
        """Archive the conversation in the store, or bring it back."""
        await until_durable(lambda told: self._log.archive(self.id, archived, told))

    # -- letters, to the process that has it and from others

    def post(self, op: Op) -> None:
        """Leave the op for the process that has the conversation."""
        self.letters.post(op, self.on_posted if isinstance(op, Send) else None)
        if isinstance(op, Interrupt):
            self._interrupted_elsewhere = self.state.turn
        self.watch()

    def on_posted(self, error: AgentError | None) -> None:
        if error is None:
            self.look_soon()
        else:
            self.fail_waiting(error)

    @property
    def unread(self) -> Collection[str]:
        """Messages that we left for another process."""
        return self.letters.unread

    def messages_left(self) -> Awaitable[Sequence[UserMessage]]:
        """Messages for a turn that ended before it read them."""
        return self.letters.unread_messages()

    def letters_waiting(self) -> Awaitable[Sequence[Letter]]:
        return self.letters.waiting()

    def has_read(self, letter: Letter) -> bool:
        return letter.number <= self.letters.taken

    def note_read(self, letter: Letter) -> None:
        self.letters.note_read(letter)

    def leave_letters(self) -> None:
        """Leave letters in the inbox, for the turn after the running one."""
        self._letters_left = True
        self.claim.mistrust()

    def take_letters_left(self) -> bool:
        left, self._letters_left = self._letters_left, False
        return left

    def take_compaction_left(self) -> bool:
        """Whether somebody asked a turn for a summary that had already ended; resets the flag."""
        left, self.letters.compaction_left = self.letters.compaction_left, False
        return left

    def forget_unread(self) -> None:
        self.letters.unread.clear()

    def watch(self) -> None:
        raise NotImplementedError

    def look_soon(self) -> None:
        raise NotImplementedError

    # -- messages that wait for the end of a turn

    def hold(self, op: Send) -> None:
        self.held.add(op)

    def join_held(self, turn: str) -> None:
        self.held.join(self.tail, turn)

    def take_held(self) -> list[HeldMessage]:
        return self.held.take_all()

    def take_back(self, message_id: str, reason: AgentError) -> bool:
        return self.held.take_back(message_id, reason)

    def note_sender(self, message_id: str, by: str) -> None:
        """Note who sent a message that was queued for a turn of its own: the turn will be theirs."""
        self._senders[message_id] = by

    def take_sender(self, message_id: str) -> str:
        """The message's sender, or the conversation's owner if a process that has ended queued the message."""
        return self._senders.pop(message_id, self.state.owner)

    def when_durable(self, callback: Told) -> None:
        """Call back once everything sent so far is durable, or with the error if it failed. Nobody is shown it sooner."""
        if self.held:
            self.held.when_durable(callback)
        elif self.letters.posting:
            self.letters.when_posted(lambda error: self._when_records_are(callback, error))
        else:
            self.tail.when_durable(callback)

    def _when_records_are(self, callback: Told, error: AgentError | None) -> None:
        """The letters are durable, but records appended since they were sent may not be."""
        if error is not None or self.tail.idle:
            callback(error)
        else:
            self.tail.when_durable(callback)

    def ask_later(self, ask: Callable[["Shell"], None]) -> None:
        """Call `ask` once in a later step: a viewer that could answer a question has left, and the others may be leaving too."""
        if not self._asks_later:
            self._asks_later = True
            self.loop.call_soon(self._ask, ask)

    def _ask(self, ask: Callable[["Shell"], None]) -> None:
        self._asks_later = False
        ask(self)

    @property
    def waiters(self) -> "Sequence[Waiter]":
        return tuple(self.waiting)

    def fail_waiting(self, error: AgentError) -> None:
        for waiter in self.waiters:
            waiter.fail(error)

    def tell_taken_over(self) -> None:
        for waiter in self.waiters:
            waiter.taken_over()

    async def show_text_elsewhere(self) -> None:
        """Show followers what the model has said so far in a turn of another process."""
        broadcast = self.tail.broadcast
        if not broadcast.followers:
            return
        saved = await self._log.saved_text(self.id)
        if saved is None or saved.after < broadcast.published:
            return
        if saved.after > broadcast.published:  # the text belongs to an answer after records that are not known here
            await self.claim.catch_up()
        if saved.after == broadcast.published and self.state.turn is not None:
            broadcast.publish_foreign_text(saved, self.state.turn)

    def fail_viewers(self, error: AgentError) -> None:
        self.tail.broadcast.fail(error)

    # -- turns

    def setup(self) -> TurnSetup:
        """The setup of the next turn. Raises `ConfigError`."""
        return self.beginning.setup()

    def check_choices(self, record: UserMessage) -> None:
        """Raises `ConfigError` if no turn could run with the message's changes."""
        self.beginning.check(record)

    def check_room(self, by: str) -> None:
        """Check that this caller may begin a turn after the running one; whoever began that one has room. Raises `TooManyTurns`."""
        if not self.running or self.running.by != by:
            self.running.check_room(by)

    async def begin(self, record: UserMessage, *before: UserMessage, by: str, promised: bool = False) -> Accepted:
        """Under the claim: begin a turn with this message, after the messages that were left for a turn that had ended."""
        try:
            return await self.beginning.begin(record, *before, by=by, promised=promised)
        except BaseException:
            self.claim.mistrust()
            raise

    async def begin_with_letters(self) -> bool:
        """Under the claim: begin a turn with the messages that were left for one that has ended. False if there are none."""
        messages = await self.letters.unread_messages()
        if messages:
            await self.begin(messages[-1], *messages[:-1], by=self.letters.sent_by, promised=True)
        return bool(messages)

    def begin_compaction(self, by: str) -> Awaitable[tuple[str, bool]]:
        """Under the claim: begin a turn that only summarises. True: a turn that waited for an answer is resumed instead."""
        return self.beginning.begin_compaction(by)

    async def resume(self) -> str | None:
        """Resume a turn that waited for an answer when its process ended, and return its id. Raises `ConversationBusy`."""
        self.check_exists()
        if self.running:
            return self.turn_id
        await self.claim.take()
        return await self.beginning.resume()

    def resume_cut_turn(self) -> Awaitable[str | None]:
        """Call it under the claim, while no turn runs."""
        return self.beginning.resume()

    async def settle_cut_turn(self) -> None:
        """Under the claim: close a turn that was cut off, even if it waited for an answer."""
        await self.beginning.settle_cut_turn(may_resume=False)

    @property
    def is_ending(self) -> bool:
        """Whether new input is for the next turn, because the running one is ending."""
        return self.running.is_ending

    def interrupt_turn(self) -> None:
        self.running.interrupt()

    def turn_over(self) -> Awaitable[None]:
        return self.running.ended()

    def sum_up_soon(self) -> None:
        """Let the turn that runs here make a summary before its next request."""
        if self.running.turn is not None:
            self.running.turn.compact_soon()

    def decide_here(self, op: Decide, turn: str) -> bool:
        """Answer a question of the turn that runs here. False if the answer does not count."""
        if op.turn not in ("", turn):
            return False
        counts = self.approvals.decide(op, turn)
        if counts and op.decision == "abort":
            self.running.note_told_to_end()
        return counts

    def has_early_answer(self, call_id: str) -> bool:
        return self.approvals.has_early(call_id)

    # -- commands that outlive their turns

    @property
    def runs_commands(self) -> bool:
        return bool(self.long_commands)

    def end_commands_soon(self, reason: str) -> None:
        self.long_commands.end_soon(reason)

    def end_commands(self, reason: str) -> Awaitable[None]:
        return self.long_commands.end_all(reason)

    # -- deletion

    def run_beside(self, work: Coroutine[Any, Any, object]) -> None:
        self.tasks.run(work)

    def alone(self, op: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Run it in the queue of ops. For work that waits for something else between two steps of its own."""
        return self.queue.run(op)

    def note_kept(self) -> None:
        """The deletion failed."""
        broken = self.tail.failure is not None
        turn, claimed = bool(self.running), self.claim.is_held
        self.standing.note(kept(known=self.tail.state.last_seq > 0, claimed=claimed, turn=turn, broken=broken))
