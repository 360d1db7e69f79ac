"""One conversation: ops come in, records go to its log, at most one turn runs at a time.

A turn belongs to its conversation, not to whoever began it. An idle conversation has no task and no claim.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence

import msgspec

from understudy.engine.approvals import Approvals
from understudy.engine.feed import Feed
from understudy.engine.fold import State, merge
from understudy.engine.turn import Turn, TurnAborted, TurnSetup
from understudy.errors import AgentError, BadRequest, ConversationBusy, UnknownConversation
from understudy.protocol.choices import Decision
from understudy.protocol.ids import ConversationId
from understudy.protocol.items import FunctionCallOutput, Message
from understudy.protocol.records import (
    CommandEnded,
    CommandStarted,
    Entry,
    Opened,
    Overrides,
    PatchEnded,
    ToolAnswered,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from understudy.store.log import Claim, DecideLetter, EventLog, InterruptLetter, Letter, SendLetter
from understudy.tools.tool import RunsCommands

logger = logging.getLogger(__name__)

INTERRUPTED = "Turn interrupted"
OUTCOME_UNKNOWN = "the server stopped while this ran; whether it took effect is not known"
NOT_RUN = "aborted"


class Sent(msgspec.Struct, frozen=True):
    """A message was accepted. `turn` is the turn that will read it, here or in another process."""

    message_id: str
    turn: str
    joined: bool


class Conversation:
    def __init__(
        self,
        conversation_id: ConversationId,
        log: EventLog,
        sandbox: RunsCommands,
        prepare: Callable[[Overrides, ConversationId], TurnSetup],
        loop: asyncio.AbstractEventLoop,
        on_turn_started: Callable[[], None],
    ) -> None:
        self.id = conversation_id
        self.feed = Feed(conversation_id, log, loop)
        self.feed.on_failure = self._stop_unrecorded
        self.approvals = Approvals(self.feed)
        self._log = log
        self._sandbox = sandbox
        self._prepare = prepare
        self._on_turn_started = on_turn_started
        self._loop = loop
        self._claim: Claim | None = None
        self._turn: Turn | None = None
        self._task: asyncio.Task[None] | None = None
        self._interrupt_asked = False
        self._abandoned = False
        self._letters_read = 0
        self._posted = False  # a letter of ours may be unread
        self._setup: TurnSetup | None = None
        self._setup_of: Overrides | None = None

    @property
    def state(self) -> State:
        return self.feed.state

    @property
    def is_running(self) -> bool:
        return self._task is not None

    @property
    def is_quiet(self) -> bool:
        """Nothing runs, nothing waits for the disk, nobody watches: it may be forgotten until it is asked for again."""
        return self._task is None and self._claim is None and not self.feed.followers and self.feed.idle

    # -- beginning

    def open(self, overrides: Overrides, model: str, provider: str) -> None:
        """The first record of a new conversation."""
        self._claim = self._log.claim(self.id)
        self.feed.begin()
        self.feed.append(Opened(self.id, model, overrides, provider), turn="0")
        self.feed.when_committed(self._release_if_idle)

    def load(self) -> None:
        """Read what the store has. Raises `UnknownConversation`."""
        position = self._log.position(self.id)
        if position is None:
            raise UnknownConversation(f"no conversation {self.id}")
        self.feed.load(State.read(self._log.read(self.id)), position.epoch)
        self.feed.published = max(self.feed.published, self.feed.state.last_seq) if not self.feed.followers else self.feed.published

    def read(self, after: int, limit: int | None = None) -> Sequence[Entry]:
        """Entries that viewers may be shown, from the store."""
        return [entry for entry in self._log.read(self.id, after, limit) if entry.seq <= self.feed.published]

    # -- ops

    def send(self, message: Message, overrides: Overrides | None = None, parent_message_id: str | None = None) -> Sent:
        """Accept input: it joins the running turn, or begins one. Raises `AgentError` with nothing recorded."""
        record = UserMessage(str(uuid.uuid4()), message, overrides, parent_message_id)
        if self._task is not None:
            if parent_message_id is not None:
                raise BadRequest("a turn is running: interrupt it, or wait for its end, before continuing from an earlier message")
            if overrides is not None:
                self._prepare(
                    merge(self.state.overrides, overrides), self.id
                )  # raises where they cannot be had; they hold from the next turn on
            assert self._turn is not None
            self.feed.append(record, turn=self._turn.turn_id)
            return Sent(record.message_id, self._turn.turn_id, joined=True)
        try:
            self._take()
        except ConversationBusy:
            self._log.post(self.id, SendLetter(record))
            self._posted = True
            self._on_turn_started()
            self.look()
            return Sent(record.message_id, self.state.turn or "", joined=True)
        return self._begin(record, *self._unread_messages())

    def _begin(self, record: UserMessage, *before: UserMessage) -> Sent:
        """Start a turn with a message, and with those that were left for a turn that had ended."""
        before_fork = self.state
        try:
            if record.parent_message_id is not None:
                self._fork(record.parent_message_id)
            chosen = self.state.overrides if record.overrides is None else merge(self.state.overrides, record.overrides)
            setup = self._setup_for(chosen)  # raises before anything of the message is recorded
            resumed = self._settle_cut_turn()
        except BaseException:
            self.feed.state = before_fork
            self._release_if_idle()
            raise
        turn_id = str(self.state.submissions + len(before) + 1) if resumed is None else resumed
        self.feed.append(*before, record, turn=turn_id)
        if resumed is None:
            self.feed.append(TurnStarted(turn_id), turn=turn_id)
        self.use_setup(setup, self.state.overrides)
        self._start(turn_id)
        return Sent(record.message_id, turn_id, joined=False)

    def resume(self) -> str | None:
        """Take up a turn that waited for an answer when its process ended; close any other that was cut off."""
        if self._task is not None:
            return self._turn.turn_id if self._turn else None
        self._take()
        resumed = self._settle_cut_turn()
        if resumed is None:
            self._release_if_idle()
            return None
        self._setup_for(self.state.overrides)
        self._start(resumed)
        return resumed

    def interrupt(self) -> bool:
        """End the running turn. False when none runs."""
        if self._task is None:
            if self._log.is_claimed(self.id):
                self._log.post(self.id, InterruptLetter())
                return True
            return False
        self._interrupt_asked = True
        self._task.cancel()
        return True

    def decide(self, call_id: str, decision: Decision, source: str) -> bool:
        """Answer a question. False when it was not open any more."""
        if self._turn is None:
            if self._log.is_claimed(self.id):
                self._log.post(self.id, DecideLetter(call_id, decision, source))
                return True
            if call_id not in self.state.questions or self.resume() is None:
                return False
            # the turn that waits has been taken up: it asks again on its first step, and this is the answer
            self._loop.call_soon(self.decide, call_id, decision, source)
            return True
        return self.approvals.decide(call_id, decision, source, self._turn.turn_id)

    # -- the claim

    def _take(self) -> None:
        """Become the one who may append, with the newest state. Raises `ConversationBusy`."""
        if self._claim is not None:
            return
        claim = self._log.claim(self.id)
        if claim is None:
            raise ConversationBusy(f"conversation {self.id} has a turn running in another process")
        self._claim = claim
        try:
            self._refresh()
        except BaseException:
            self._claim = None
            claim.release()
            raise

    def _refresh(self) -> None:
        position = self._log.position(self.id)
        if position is None:
            raise UnknownConversation(f"no conversation {self.id}")
        if position.last_seq != self.state.last_seq or self.feed.failure:
            missed = self._log.read(self.id, self.feed.published) if self.feed.followers else ()
            self.load()
            self.feed.publish_foreign(missed)
        else:
            self.feed.load(self.state, position.epoch)

    @property
    def needs_watching(self) -> bool:
        """Another process may have something for whoever follows here, or for the turn that runs here."""
        return self._task is not None or self._posted or bool(self.feed.followers)

    def look(self) -> None:
        """See what other processes have written: letters to a turn of ours, or a turn of theirs."""
        if self._claim is not None:
            if self._task is not None:
                self._read_letters()
            return
        missed = self._log.read(self.id, self.feed.published)
        if missed:
            self.load()
            self.feed.publish_foreign(missed)
        if self._posted and not self._log.is_claimed(self.id):
            self._deliver_letters()
        if self.state.turn is not None and self.feed.followers:
            said = self._log.partial(self.id)
            if said is not None and said.after >= self.feed.published:
                self.feed.publish_partial(said, self.state.turn)

    def _new_letters(self) -> Sequence[Letter]:
        letters = [letter for letter in self._log.letters(self.id) if letter.number > self._letters_read]
        if letters:
            self._letters_read = letters[-1].number
            self.feed.take_letters(self._letters_read)  # gone from the box with the batch that holds what they said
        return letters

    def _unread_messages(self) -> list[UserMessage]:
        """Messages for a turn that had ended before it read them. Other ops for it mean nothing any more."""
        return [letter.op.message for letter in self._new_letters() if isinstance(letter.op, SendLetter)]

    def _deliver_letters(self) -> None:
        """The turn that our message was left for has ended without it: run one ourselves."""
        try:
            self._take()
        except ConversationBusy:
            return
        self._posted = False
        messages = self._unread_messages()
        if not messages:
            self._release_if_idle()
            return
        try:
            self._begin(messages[-1], *messages[:-1])
        except AgentError as error:
            logger.error("messages left for %s cannot be read: %s", self.id, error)

    def _read_letters(self) -> None:
        """Ops that were left for this turn by other processes."""
        for letter in self._new_letters():
            match letter.op:
                case SendLetter(message=message):
                    assert self._turn is not None
                    self.feed.append(message, turn=self._turn.turn_id)
                case InterruptLetter():
                    self.interrupt()
                case DecideLetter(call_id=call_id, decision=decision, source=source):
                    self.decide(call_id, decision, source)

    def _release_if_idle(self) -> None:
        if self._task is None and self._claim is not None and self.feed.idle:
            self._claim.release()
            self._claim = None

    # -- turns

    def setup(self) -> TurnSetup:
        """What the next turn would run with. Raises `ConfigError`."""
        return self._setup_for(self.state.overrides)

    def _setup_for(self, overrides: Overrides) -> TurnSetup:
        if self._setup is None or self._setup_of is not overrides:
            self._setup, self._setup_of = self._prepare(overrides, self.id), overrides
        return self._setup

    def use_setup(self, setup: TurnSetup, overrides: Overrides) -> None:
        """What was prepared for these overrides already."""
        self._setup, self._setup_of = setup, overrides

    def _start(self, turn_id: str) -> None:
        assert self._setup is not None
        self._interrupt_asked = False
        self._on_turn_started()
        self._turn = Turn(turn_id, self.feed, self._setup, self._sandbox, self.approvals, self._read_letters)
        self._task = self._loop.create_task(self._run(self._turn), name=f"turn {turn_id} of {self.id}")

    async def _run(self, turn: Turn) -> None:
        ended = TurnEnded("failed", "internal error")
        try:
            ended = await turn.run()
        except asyncio.CancelledError:
            ended = TurnEnded("interrupted", INTERRUPTED, turn.unfinished or None, asked_for=self._interrupt_asked)
        except TurnAborted:
            ended = TurnEnded("interrupted", INTERRUPTED, turn.unfinished or None)
        except AgentError as error:
            ended = TurnEnded("failed", str(error))
        except Exception:  # a bug ends the turn, loudly; the calls that wait for it still get their answer
            logger.exception("bug in turn %s of %s", turn.turn_id, self.id)
        finally:
            self._task = self._turn = None
            if not self._abandoned:
                self._close_turn(turn.turn_id, ended, NOT_RUN)

    def _stop_unrecorded(self) -> None:
        """The log cannot be written: nothing more may be done, for nothing done may go unrecorded."""
        if self._task is not None:
            self._task.cancel()

    def _close_turn(self, turn_id: str, ended: TurnEnded, unanswered: str) -> None:
        """Whatever the turn left open is answered, and then it is over: exactly once, whichever way it went."""
        for call_id in tuple(self.state.calls):
            self.feed.append(ToolAnswered(FunctionCallOutput(call_id, unanswered), success=False), turn=turn_id)
        self.feed.append(ended, turn=turn_id)
        self.feed.flush()
        self.feed.when_committed(self._release_if_idle)

    def _settle_cut_turn(self, *, may_resume: bool = True) -> str | None:
        """After a crash: a turn that waits for an answer goes on (its id is returned), any other is closed as interrupted."""
        turn_id = self.state.turn
        if turn_id is None:
            return None
        if may_resume and self.state.questions and not self.state.running:
            return turn_id
        for call_id, begun in tuple(self.state.running.items()):
            if isinstance(begun, CommandStarted):
                self.feed.append(CommandEnded(call_id, "", OUTCOME_UNKNOWN, -1, 0.0), turn=turn_id)
            else:
                self.feed.append(PatchEnded(call_id, "", OUTCOME_UNKNOWN, success=False), turn=turn_id)
            self.feed.append(
                ToolAnswered(FunctionCallOutput(call_id, f"interrupted: {OUTCOME_UNKNOWN}"), success=False), turn=turn_id
            )
        said = self._log.partial(self.id)
        unfinished = said.text if said is not None and said.text else None
        self._close_turn(turn_id, TurnEnded("interrupted", INTERRUPTED, unfinished), NOT_RUN)
        return None

    def _fork(self, parent_message_id: str) -> None:
        """Go on from the end of an earlier message's turn. The records after it stay in the log, on another path."""
        if parent_message_id not in self.state.message_ends:
            raise BadRequest(f"no message {parent_message_id} in this conversation")
        self._settle_cut_turn(may_resume=False)
        end = self.state.message_ends[parent_message_id]
        if end != self.state.head:
            stored = self._log.read(self.id)
            unstored = [entry for entry in self.feed.unpublished() if entry.seq > stored[-1].seq]
            self.feed.state = self.state.fork([*stored, *unstored], end)

    # -- ending

    async def ended(self) -> None:
        """Wait for the end of the running turn, if there is one."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def delete(self) -> None:
        """Forget it for good. Raises `ConversationBusy` while another process runs its turn."""
        self.interrupt()
        await self.ended()
        self._take()
        done = self._loop.create_future()
        self._log.delete(self.id, lambda error: done.set_result(None) if error is None else done.set_exception(error))
        try:
            await done
        finally:
            if self._claim is not None:
                self._claim.release()
                self._claim = None

    async def stop(self) -> None:
        """The process ends: a turn is interrupted, unless it waits for an answer, which can still be given later."""
        if self._task is None:
            return
        self._abandoned = bool(self.state.questions) and not self.state.running
        task = self._task
        task.cancel()
        await asyncio.wait([task])
