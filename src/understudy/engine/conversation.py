"""One conversation: ops come in, records go to its log, at most one turn runs at a time.

A turn belongs to its conversation, not to whoever began it. An idle conversation has no task and no claim.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from understudy.engine import recovery
from understudy.engine.approvals import Approvals
from understudy.engine.fold import State, merge
from understudy.engine.held import Held
from understudy.engine.holding import Holding
from understudy.engine.letters import Letters
from understudy.engine.tail import Tail
from understudy.engine.tenure import Inbox, Tenure
from understudy.engine.turn import Turn, TurnAborted, TurnSetup
from understudy.errors import AgentError, BadRequest, ConversationBusy, Fenced, StoreError, UnknownConversation, report_bug
from understudy.protocol.choices import Decision
from understudy.protocol.ids import ConversationId
from understudy.protocol.items import Message
from understudy.protocol.records import Entry, Opened, Overrides, Pins, TurnEnded, TurnStarted, UserMessage
from understudy.protocol.uuids import new_uuid
from understudy.store.answered import answered
from understudy.store.log import DecideLetter, EventLog, InterruptLetter, Position, SendLetter
from understudy.tools.host import RunsCommands

logger = logging.getLogger(__name__)

LETTING_GO_SECONDS = 1.0  # from the end of a turn to the end of its claim, in another process
FORK_WHILE_RUNNING = "a turn is running: interrupt it, or wait for its end, before continuing from an earlier message"


class Sent(msgspec.Struct, frozen=True):
    """A message was taken. `turn` is the turn that will read it, here or in another process."""

    message_id: str
    turn: str
    joined: bool
    held: bool = False  # until the running turn, which was told to end, is over; `turn` is not known yet


class Caller(Protocol):
    """Somebody who waits for the end of a turn, wherever it runs."""

    def taken_up(self) -> None:
        """A turn that waited for an answer in another process goes on in this one: its questions are to be put here."""
        ...

    def fail(self, error: AgentError) -> None: ...


class Conversation:
    def __init__(
        self,
        conversation_id: ConversationId,
        log: EventLog,
        sandbox: RunsCommands,
        prepare: Callable[[Overrides, ConversationId, Pins | None], TurnSetup],
        loop: asyncio.AbstractEventLoop,
        holding: Holding,
        on_turn_started: Callable[["Conversation"], None],
    ) -> None:
        self.id = conversation_id
        self.tail = Tail(conversation_id, log, loop, holding)
        self.tail.on_failure = self._stop_unrecorded
        self.tail.on_all_written = self._release
        self.approvals = Approvals(self.tail)
        self._log = log
        self._sandbox = sandbox
        self._prepare = prepare
        self._on_turn_started = on_turn_started
        self._loop = loop
        self._turn: Turn | None = None
        self._task: asyncio.Task[None] | None = None
        self._interrupt_asked = False
        self._told_to_end = False  # the running turn was interrupted, or aborted: what comes now is not for it
        self._interrupted_elsewhere: str | None = None  # a turn of another process that we have told to end
        self._letters_left = False  # in the box, for the turn after this one
        self._held = Held()
        self._deleted = False  # or about to be
        self._abandoned = False
        self._stopped = False
        self.callers: list[Caller] = []
        self._letters = Letters(conversation_id, log, self.tail)
        self._tenure = Tenure(conversation_id, log, self.tail, self._letters)
        self._tenure.on_lost = self._stop_without_claim
        self._setup: TurnSetup | None = None
        self._setup_of: Overrides | None = None

    @property
    def state(self) -> State:
        return self.tail.state

    @property
    def is_running(self) -> bool:
        return self._task is not None

    @property
    def is_quiet(self) -> bool:
        """Nothing runs, nothing waits for the disk, nobody watches: it may be forgotten until it is asked for again."""
        return self._task is None and not self._tenure.held and not self.needs_watching and self.tail.idle

    def forget(self) -> None:
        """It leaves memory. Nothing in it may point back to it: then it is gone at once, and not when the collector comes by."""
        self.tail.close()
        self.tail.on_failure = self.tail.on_all_written = None
        self._tenure.on_lost = None

    # -- beginning

    def open(self, overrides: Overrides, model: str, provider: str, pins: Pins | None = None) -> None:
        """The first record of a new conversation."""
        self.tail.begin()
        self.tail.append(Opened(self.id, model, overrides, provider, pins), turn="0")
        answered(self._tenure.begin())
        self.tail.when_committed(self._release_if_idle)

    def load(self) -> None:
        """Read what the store has. Raises `UnknownConversation`."""
        position = answered(self._position())
        if position is None:
            raise UnknownConversation(f"no conversation {self.id}")
        self.tail.load(State.read(answered(self._log.read(self.id))), position.epoch)
        self.tail.broadcast.published = self.state.last_seq

    async def _position(self) -> Position | None:
        return (await self._log.positions([self.id])).get(self.id)

    def read(self, after: int, limit: int | None = None) -> Sequence[Entry]:
        """Entries that viewers may be shown, from the store. The disk may be a moment ahead of what was shown: not after this."""
        entries = answered(self._log.read(self.id, after, limit))
        if entries and entries[-1].seq > self.tail.broadcast.published:
            self.tail.note_committed(entries[-1].seq)
        return [entry for entry in entries if entry.seq <= self.tail.broadcast.published]

    # -- ops

    def send(
        self,
        message: Message,
        overrides: Overrides | None = None,
        parent_message_id: str | None = None,
        pins: Pins | None = None,
    ) -> Sent:
        """Take input: it joins the running turn, or begins one; where the running one was told to end, the one after it.

        `pins`: the places that hold with these overrides. Raises `AgentError` with nothing recorded.
        """
        record = UserMessage(new_uuid(), message, overrides, parent_message_id, pins)
        if self._task is not None and self._is_ending and not self._deleted:
            self._held.add(record)
            return Sent(record.message_id, "", joined=False, held=True)
        return self._send(record)

    def _send(self, record: UserMessage) -> Sent:
        if self._deleted:
            raise UnknownConversation(f"no conversation {self.id}")
        if self._task is not None:
            if record.parent_message_id is not None:
                raise BadRequest(FORK_WHILE_RUNNING)
            if record.overrides is not None:
                # raises now; they hold from the next turn on
                self._prepare(merge(self.state.overrides, record.overrides), self.id, record.pins)
            assert self._turn is not None
            self.tail.append(record, turn=self._turn.turn_id)
            return Sent(record.message_id, self._turn.turn_id, joined=True)
        try:
            inbox = answered(self._tenure.take())
        except ConversationBusy:
            if record.parent_message_id is not None:
                raise BadRequest(FORK_WHILE_RUNNING) from None
            self._letters.post(SendLetter(record), self._on_posted)
            self._on_turn_started(self)
            if self.state.turn is not None and self.state.turn == self._interrupted_elsewhere:
                return Sent(record.message_id, "", joined=False, held=True)
            return Sent(record.message_id, self.state.turn or "", joined=True)
        return self._begin(record, *(answered(self._letters.unread_messages()) if inbox is Inbox.HAS_LETTERS else ()))

    def cancel(self, message_id: str, turn: str) -> bool:
        """End the turn that this message began, and no other; one whose turn has not begun is taken back. False when it is over."""
        if self._held.take_back(message_id, BadRequest("the message was cancelled before its turn began")):
            return True
        began = turn or next((one for one, first in self.state.turn_messages.items() if first == message_id), "")
        return bool(began) and self.interrupt(began) is not None

    def when_accepted(self, callback: Callable[[AgentError | None], None]) -> None:
        """Call back once all that was sent so far is on disk, or with the reason why it is not. Nobody is shown it sooner."""
        if self._held:
            self._held.when_accepted(callback)
        elif self._letters.posting:
            self._letters.when_posted(callback)
        else:
            self.tail.when_accepted(callback)

    def _begin(self, record: UserMessage, *before: UserMessage) -> Sent:
        """Start a turn with a message, and with those that were left for a turn that had ended."""
        before_fork = self.state
        try:
            if record.parent_message_id is not None:
                self._fork(record.parent_message_id)
            pins = next((each.pins for each in (record, *reversed(before)) if each.pins is not None), self.state.pins)
            chosen = _chosen(self.state.overrides, *before, record)
            setup = self._setup_for(chosen, pins)  # raises before anything of it is recorded
            if setup.pins != pins:  # a log from before there were any, or roots that the configuration has got since
                record = msgspec.structs.replace(record, pins=setup.pins)
            resumed = self._settle_cut_turn()
            turn_id = str(self.state.submissions + len(before) + 1) if resumed is None else resumed
            self.tail.append(*before, record, turn=turn_id)
        except BaseException:
            self.tail.state = before_fork
            self._letters.put_back()
            self._tenure.mistrust()
            self._release_if_idle()
            raise
        if resumed is None:
            self.tail.append(TurnStarted(turn_id), turn=turn_id)
        self.use_setup(setup, self.state.overrides)
        self._start(turn_id)
        return Sent(record.message_id, turn_id, joined=False)

    def resume(self) -> str | None:
        """Take up a turn that waited for an answer when its process ended; close any other that was cut off."""
        if self._task is not None:
            return self._turn.turn_id if self._turn else None
        answered(self._tenure.take())
        try:
            resumed = self._settle_cut_turn()
            if resumed is not None:
                self._setup_for(self.state.overrides, self.state.pins)
                self._start(resumed)
        finally:
            self._release_if_idle()
        return resumed

    def interrupt(self, turn: str | None = None) -> str | None:
        """Tell the running turn to end, also one that a crash left waiting: its id (empty where another process has it and its
        id is not known here). None when there is none, or when `turn` is named and is not the one that runs.
        """
        if self._task is not None and self._turn is not None:
            running = self._turn.turn_id
            if turn not in (None, running):
                return None
            if self._is_ending:  # a second one must not cut short the clean-up that the first began
                self._join_held(running)
            else:
                self._interrupt_asked = self._told_to_end = True
                self._interrupt(self._task)
            return running
        if turn not in (None, self.state.turn) or (self.state.turn is None and not self.is_claimed_elsewhere):
            return None
        try:
            answered(self._tenure.take())
        except ConversationBusy:
            self._letters.post(InterruptLetter(self.state.turn or ""))
            self._interrupted_elsewhere = self.state.turn
            return self.state.turn or ""
        ended = self.state.turn
        self._settle_cut_turn(may_resume=False)
        self._release_if_idle()
        return ended

    def _join_held(self, turn: str) -> None:
        """A second interrupt is meant for what was sent after the first: it counts as accepted and unread, like other input."""
        for held in self._held.take_all():
            if held.record.parent_message_id is not None:
                held.tell(BadRequest(FORK_WHILE_RUNNING))
                continue
            try:
                self.tail.append(held.record, turn=turn)
            except AgentError as error:
                held.tell(error)
            else:
                for told in held.told:
                    self.tail.when_accepted(told)

    def _interrupt(self, task: asyncio.Task[None]) -> None:
        turn = self._turn
        if turn is None or not turn.listens:
            self._cancel(task)
            return
        self._task = self._turn = None
        turn.closed = True
        self._close_turn(turn.turn_id, _interrupted(turn, asked_for=True))

        def leave() -> None:  # after the commit: unwinding competes with the writer for the interpreter's lock
            task.cancel()

        self.tail.when_committed(leave)

    def decide(self, call_id: str, decision: Decision, source: str, turn: str | None = None) -> bool:
        """Answer a question, of this turn where one is named: call ids come again. False when it was not open any more."""
        if self._turn is not None:
            if turn is not None and turn != self._turn.turn_id:
                return False
            counts = self.approvals.decide(call_id, decision, source, self._turn.turn_id)
            self._told_to_end = self._told_to_end or (counts and decision == "abort")
            return counts
        meant = turn or self.state.turn or ""
        if self.is_claimed_elsewhere:
            self._letters.post(DecideLetter(call_id, decision, source, meant))
            return True
        if meant != self.state.turn or call_id not in self.state.questions or self.resume() is None:
            return False
        # the turn that waits has been taken up: it asks again on its first step, and this is the answer
        self._loop.call_soon(self.decide, call_id, decision, source, meant)
        return True

    # -- other processes

    @property
    def needs_watching(self) -> bool:
        """Another process may have something for whoever follows here, or for the turn that runs here."""
        return self._task is not None or bool(self.tail.broadcast.followers) or bool(self._letters.unread)

    @property
    def depends_on_another(self) -> bool:
        """Somebody here waits for a turn of another process, or for it to read a message."""
        return self._task is None and bool(self.callers or self._letters.unread)

    @property
    def is_shared(self) -> bool:
        return self._log.shared

    @property
    def is_held(self) -> bool:
        """By this process: nobody else can have changed it."""
        return self._tenure.held

    @property
    def is_claimed_elsewhere(self) -> bool:
        return answered(self._log.holder(self.id)) is not None

    def holder(self) -> int | None:
        """The process that runs the turn, where that can be told."""
        if self._tenure.held:
            return os.getpid()
        holder = answered(self._log.holder(self.id, identify=True))
        return None if holder is None else holder.process

    def look(self, position: Position | None = None) -> None:
        """See what other processes have done: letters to a turn of ours, a turn of theirs, or the death of its process.

        `position` is where the store says that it stands, for those who have asked already.
        """
        if self._stopped:
            return
        if self._tenure.held:
            if self._task is not None and (position is None or position.letters):
                self._read_letters()
            return
        if self.tail.failure:
            return
        if position is None or position.last_seq != self.state.last_seq:
            answered(self._tenure.catch_up())
        if self.depends_on_another and not self.is_claimed_elsewhere:
            self._take_over()
        elif self.state.turn is not None and self.tail.broadcast.followers:
            said = answered(self._log.partial(self.id))
            if said is not None and said.after >= self.tail.broadcast.published:
                self.tail.broadcast.publish_foreign_text(said, self.state.turn)

    def _on_posted(self, error: AgentError | None) -> None:
        if error is None:
            self.look()
        else:
            self._fail_callers(error)

    def lose(self) -> None:
        """Another process has deleted it: whoever waits or watches here is told."""
        if self._tenure.held or not self.tail.broadcast.published or answered(self._position()) is not None:
            return
        self._deleted = True
        self._letters.unread.clear()
        self.tail.broadcast.fail(UnknownConversation("the conversation was deleted"))

    def _take_over(self) -> None:
        """The process that ran the turn has ended it, or died. What was left for it, and who waits for it, is ours now."""
        try:
            answered(self._tenure.take())
            cut = self.state.turn
            self._begin_with_letters()
            if self._task is None and cut is not None:
                self.resume()
            if self._turn is not None and self._turn.turn_id == cut:
                for caller in tuple(self.callers):
                    caller.taken_up()
            self._release_if_idle()
        except ConversationBusy:
            return
        except AgentError as error:
            level = logging.INFO if isinstance(error, UnknownConversation) else logging.ERROR  # deleting is nobody's fault
            logger.log(level, "%s cannot be continued: %s", self.id, error)
            self._letters.unread.clear()
            self._fail_callers(error)

    def _fail_callers(self, error: AgentError) -> None:
        for caller in tuple(self.callers):
            caller.fail(error)

    def _read_letters(self) -> None:
        """Ops that were left for this turn by other processes."""
        assert self._turn is not None
        ours = self._turn.turn_id
        for letter in answered(self._letters.waiting()):
            if self._task is None:  # ended by the letter before: this one is for the turn after it
                self._begin_with_letters()
                return
            if self._is_ending:
                self._letters_left = True
                self._tenure.mistrust()
                return
            self._letters.note_read(letter)
            match letter.op:
                case SendLetter(message=message):
                    self.tail.append(message, turn=ours)
                case InterruptLetter(turn=turn):
                    if turn in ("", ours):
                        self.interrupt()
                case DecideLetter(call_id=call_id, decision=decision, source=source, turn=turn):
                    self.decide(call_id, decision, source, turn or None)

    def _begin_with_letters(self) -> None:
        messages = answered(self._letters.unread_messages())
        if messages:
            self._begin(messages[-1], *messages[:-1])

    def _release_if_idle(self) -> None:
        if self.tail.idle:
            self._release()

    def _release(self) -> None:
        """All is written. Before the answer goes out, so that another process that acts on it is not refused."""
        if self._task is None and not self._deleted:
            self._tenure.release()

    # -- turns

    def setup(self) -> TurnSetup:
        """What the next turn would run with. Raises `ConfigError`."""
        return self._setup_for(self.state.overrides, self.state.pins)

    def _setup_for(self, overrides: Overrides, pins: Pins | None) -> TurnSetup:
        if self._setup is None or self._setup_of is not overrides:
            self._setup, self._setup_of = self._prepare(overrides, self.id, pins), overrides
        return self._setup

    def use_setup(self, setup: TurnSetup, overrides: Overrides) -> None:
        """What was prepared for these overrides already."""
        self._setup, self._setup_of = setup, overrides

    def _start(self, turn_id: str) -> None:
        assert self._setup is not None
        self._interrupt_asked = self._told_to_end = self._letters_left = False
        self.approvals.begin_turn()
        self._turn = Turn(turn_id, self.tail, self._setup, self._sandbox, self.approvals, self._read_letters)
        self._task = self._loop.create_task(self._run(self._turn), name=f"turn {turn_id} of {self.id}")
        self._on_turn_started(self)  # last: what there is to watch for is seen from the task

    async def _run(self, turn: Turn) -> None:
        ended = TurnEnded("failed", "internal error")
        try:
            ended = await turn.run()
        except asyncio.CancelledError:
            ended = _interrupted(turn, asked_for=self._interrupt_asked)
        except TurnAborted:
            ended = _interrupted(turn)
        except AgentError as error:
            logger.info("turn %s of %s failed: %s", turn.turn_id, self.id, error)
            ended = TurnEnded("failed", str(error), turn.unfinished or None)
        except Exception as error:  # a bug ends the turn, loudly; the calls that wait for it still get their answer
            ended = TurnEnded("failed", report_bug(logger, error, "in turn %s of %s", turn.turn_id, self.id))
        finally:
            if not turn.closed:
                self._task = self._turn = None
                if not self._abandoned:
                    self._close_turn(turn.turn_id, ended)
                    self._begin_what_waits()

    @property
    def _is_ending(self) -> bool:
        """Nothing that comes now is for the running turn."""
        return self._told_to_end or self.tail.failure is not None

    def _begin_what_waits(self) -> None:
        """Messages that came while a turn was ending begin one of their own, those from other processes first."""
        if self._letters_left and not self._stopped and not self._deleted:
            self._letters_left = False
            try:
                answered(self._tenure.take())
                self._begin_with_letters()
            except AgentError as error:  # they stay in the box: whoever sent them takes the conversation over, and is told
                logger.info("letters to %s wait: %s", self.id, error)
        for held in self._held.take_all():
            try:
                if self._stopped:
                    raise StoreError("the server is ending; the message was not taken")
                self._send(held.record)
            except AgentError as error:
                held.tell(error)
            except Exception as error:
                held.tell(AgentError(report_bug(logger, error, "in beginning a turn of %s", self.id)))
            else:
                for told in held.told:
                    self.when_accepted(told)

    def _stop_unrecorded(self) -> None:
        """The log cannot be written: nothing more may be done, for nothing done may go unrecorded."""
        if self.tail.failure is not None:
            self._held.fail(self.tail.failure)
        if self._task is not None:
            self._cancel(self._task)

    def _stop_without_claim(self) -> None:
        """The log could not keep the claim for us: another process may have the conversation, and write to it."""
        reason = f"the claim on conversation {self.id} was lost, so its turn was stopped; send again to continue the conversation"
        logger.error("%s", reason)
        self.tail.fail(Fenced(f"conversation store: {reason}"))

    def _cancel(self, task: asyncio.Task[None]) -> None:
        """A task that is cancelled before its first step never runs at all, and then nobody would close its turn."""
        self._loop.call_soon(task.cancel)

    def _close_turn(self, turn_id: str, ended: TurnEnded) -> None:
        """Whatever the turn left open is answered, and then it is over: exactly once, whichever way it went."""
        self.tail.append(*recovery.close_open_calls(self.state), ended, turn=turn_id)
        self.tail.flush()
        self.tail.when_committed(self._release_if_idle)

    def _settle_cut_turn(self, *, may_resume: bool = True) -> str | None:
        """After a crash: a turn that waits for an answer goes on (its id is returned), any other is closed as interrupted."""
        turn_id = self.state.turn
        if turn_id is None:
            return None
        if may_resume and recovery.can_go_on(self.state):
            return turn_id
        unfinished = answered(recovery.unfinished_text(self._log, self.id))
        self._close_turn(turn_id, TurnEnded("interrupted", recovery.INTERRUPTED, unfinished, cut_at=self.state.last_at))
        return None

    def _fork(self, parent_message_id: str) -> None:
        """Go on from the end of an earlier message's turn. The records after it stay in the log, on another path."""
        if parent_message_id not in self.state.message_ends:
            raise BadRequest(f"no message {parent_message_id} in this conversation")
        self._settle_cut_turn(may_resume=False)
        end = self.state.message_ends[parent_message_id]
        if end != self.state.head:
            stored = answered(self._log.read(self.id))
            unstored = [entry for entry in self.tail.broadcast.unpublished() if entry.seq > stored[-1].seq]
            self.tail.state = self.state.fork([*stored, *unstored], end)

    # -- ending

    async def ended(self) -> None:
        """Wait for the end of the running turn, if there is one."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def delete(self) -> None:
        """Forget it for good. Raises `ConversationBusy` while another process runs its turn."""
        if self._deleted:
            raise UnknownConversation(f"no conversation {self.id}")
        self._deleted = True
        try:
            if self._task is not None:
                self.interrupt()
                await self.ended()
            await self._take_from_whoever_finishes()
            done = self._loop.create_future()
            self._log.delete(self.id, lambda error: done.set_result(None) if error is None else done.set_exception(error))
            await done
        except BaseException:
            self._deleted = False
            raise
        finally:
            self._tenure.release()
        self.tail.broadcast.fail(UnknownConversation("the conversation was deleted"))

    async def _take_from_whoever_finishes(self) -> None:
        """Another process whose turn is over in the log is about to let go."""
        give_up = self._loop.time() + LETTING_GO_SECONDS
        while True:
            try:
                answered(self._tenure.take())
            except ConversationBusy:
                answered(self._tenure.catch_up())
                if self.state.turn is not None or self._loop.time() > give_up:
                    raise
                await asyncio.sleep(0.01)
            else:
                return

    async def stop(self) -> None:
        """The process ends: a turn is interrupted, unless it waits for an answer, which can still be given later."""
        self._stopped = True
        self._held.fail(StoreError("the server is ending; the message was not taken"))
        if self._task is None:
            return
        self._abandoned = recovery.can_go_on(self.state)
        task = self._task
        self._cancel(task)
        await asyncio.wait([task])


def _interrupted(turn: Turn, *, asked_for: bool = False) -> TurnEnded:
    return TurnEnded("interrupted", recovery.INTERRUPTED, turn.unfinished or None, asked_for=asked_for)


def _chosen(overrides: Overrides, *messages: UserMessage) -> Overrides:
    """What holds once these messages are recorded."""
    for message in messages:
        if message.overrides is not None:
            overrides = merge(overrides, message.overrides)
    return overrides
