"""From messages to a running turn. First the remains of a crash are settled and an earlier message may be returned to; only then
are the messages recorded.

The log is read before anything is appended, so that a cancelled op leaves nothing behind.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from understudy.engine.conversation.letters import Letters
from understudy.engine.conversation.phases import LEAVING, Standing
from understudy.engine.conversation.running import Running
from understudy.engine.log import recovery
from understudy.engine.log.facts import merge
from understudy.engine.log.tail import Tail
from understudy.engine.setup.turn_setup import TurnSetup
from understudy.engine.turn.approvals import Approvals
from understudy.engine.turn.incoming_answer import TAKEN_BACK
from understudy.engine.turn.long_commands import LongCommands
from understudy.engine.turn.turn import Turn
from understudy.errors import BadRequest, StoreError
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Accepted
from understudy.protocol.records import Overrides, Pins, TurnEnded, TurnStarted, UserMessage
from understudy.store.log import EventLog
from understudy.tools.host import RunsCommands

if TYPE_CHECKING:
    from understudy.engine.workspaces.workspaces import Workspaces
    from understudy.tools.unsaved_texts import UnsavedTexts

NOTHING_TO_COMPACT = "there is nothing to sum up: the model has said nothing since the last summary, or nothing at all"
ENDING = "the server is ending; the message was not taken"

Prepare = Callable[[Overrides, ConversationId, Pins | None], TurnSetup]


class Beginning:
    def __init__(
        self,
        log: EventLog,
        tail: Tail,
        standing: Standing,
        letters: Letters,
        running: Running,
        approvals: Approvals,
        sandbox: RunsCommands,
        prepare: Prepare,
        read_letters: Callable[[], Awaitable[None]],
        long_commands: LongCommands,
    ) -> None:
        self.unsaved: UnsavedTexts | None = None  # of editors that have the conversation open
        self.workspaces: Callable[[], Workspaces] | None = None
        self._log = log
        self._tail = tail
        self._standing = standing
        self._letters = letters
        self._running = running
        self._approvals = approvals
        self._sandbox = sandbox
        self._prepare = prepare
        self._read_letters = read_letters
        self._long_commands = long_commands
        self._setup: TurnSetup | None = None
        self._setup_of: Overrides | None = None

    # -- setup

    def setup(self) -> TurnSetup:
        """The setup of the next turn. Raises `ConfigError`."""
        return self._setup_for(self._tail.state.overrides, self._tail.state.pins)

    def _setup_for(self, overrides: Overrides, pins: Pins | None) -> TurnSetup:
        if self._setup is None or self._setup_of is not overrides:
            self._setup, self._setup_of = self._prepare(overrides, self._tail.conversation_id, pins), overrides
        return self._setup

    def use_setup(self, setup: TurnSetup, overrides: Overrides) -> None:
        """Use a setup that has already been prepared for these overrides."""
        self._setup, self._setup_of = setup, overrides

    def check(self, record: UserMessage) -> None:
        """Check that a turn could run with the message's changes. Raises `ConfigError`."""
        if record.overrides is not None:
            self._prepare(merge(self._tail.state.overrides, record.overrides), self._tail.conversation_id, record.pins)

    # -- beginning; the caller holds the claim

    async def begin(self, record: UserMessage, *before: UserMessage, by: str, promised: bool = False) -> Accepted:
        """Start a turn with a message, after the messages that were left for a turn that had ended. If it raises, nothing is
        recorded.

        `by`: whose turn it is. `promised`: the caller was already told that there will be a turn.
        """
        tail = self._tail
        before_fork = tail.state
        try:
            if tail.state.overrides.workspace is not None and await self._have_workspace():
                record = self._pinned_anew(record)
            if record.parent_message_id is not None:
                await self._fork(record.parent_message_id)
            if tail.state.queued and record.message_id not in tail.state.queued and not self._goes_on:
                before = (*tail.state.queued.values(), *before)  # left by a process that ended
            pins = next((each.pins for each in (record, *reversed(before)) if each.pins is not None), tail.state.pins)
            chosen = _chosen(tail.state.overrides, *before, record)
            setup = self._setup_for(chosen, pins)  # raises before any of this is recorded
            if setup.pins != pins:  # the log predates pins, or the configuration has gained roots
                record = msgspec.structs.replace(record, pins=setup.pins)
            resumed = await self.settle_cut_turn() if self._has_something_cut else None
            self._check_that_all_is_well()
            if resumed is None and not promised and self._running.at_work is not None:
                self._running.check_room(by)
            turn_id = str(tail.state.submissions + len(before) + 1) if resumed is None else resumed
            started = () if resumed is not None else (TurnStarted(turn_id, window=setup.limits.window),)
            if self._letters.in_hand:
                self._letters.take_in_hand()
            tail.append(*before, record, *started, turn=turn_id)
        except BaseException:
            tail.state = before_fork
            self._letters.put_back()
            raise
        self.use_setup(setup, tail.state.overrides)
        self._start(turn_id, setup, by if resumed is None else tail.state.owner)
        return Accepted(record.message_id, turn_id)

    async def _have_workspace(self) -> bool:
        """Make the workspace available. True if it had to be made again: then it is pinned as it is now, and everybody is told.
        Raises `WorkspaceAway`.
        """
        tail = self._tail
        if self.workspaces is None:
            return False
        workspaces = self.workspaces()
        await workspaces.make_ready(tail.conversation_id, tail.state, partial(self._log.read, tail.conversation_id))
        moved = workspaces.moved(tail.conversation_id)
        if moved is None:
            return False
        self._setup = None
        now = self._prepare(tail.state.overrides, tail.conversation_id, None).pins
        tail.append(msgspec.structs.replace(moved, pins=now), turn="0")
        tail.when_committed(lambda: None if tail.failure else workspaces.noted(tail.conversation_id))
        return True

    def _pinned_anew(self, record: UserMessage) -> UserMessage:
        """The message with its folders pinned again, because they were pinned before the workspace was made again."""
        if record.pins is None:
            return record
        chosen = _chosen(self._tail.state.overrides, record)
        return msgspec.structs.replace(record, pins=self._prepare(chosen, self._tail.conversation_id, None).pins)

    async def begin_compaction(self, by: str) -> tuple[str, bool]:
        """Begin a turn that only summarises. If a turn waited for an answer when its process ended, resume it instead and return
        True.

        Raises `BadRequest` if there is nothing to summarise.
        """
        if (resumed := await self.resume()) is not None:
            return resumed, True
        state = self._tail.state
        if not state.history.can_be_summed_up:
            raise BadRequest(NOTHING_TO_COMPACT)
        setup = self.setup()
        self._check_that_all_is_well()
        self._running.check_room(by)
        turn_id = str(state.submissions + 1)
        self._tail.append(TurnStarted(turn_id, compacts=True, window=setup.limits.window), turn=turn_id)
        self._start(turn_id, setup, by, compacts=True)
        return turn_id, False

    async def resume(self) -> str | None:
        """Resume a turn that waited for an answer when its process ended; close any other turn that was cut off."""
        if self._tail.state.overrides.workspace is not None:
            await self._have_workspace()
        resumed = await self.settle_cut_turn()
        if resumed is not None:
            self._check_that_all_is_well()
            self._start(resumed, self.setup(), self._tail.state.owner)  # the log does not say who began it
        return resumed

    @property
    def _goes_on(self) -> bool:
        """Whether the open turn waited for an answer when its process ended: such a turn is resumed."""
        return self._tail.state.turn is not None and recovery.can_go_on(self._tail.state)

    @property
    def _has_something_cut(self) -> bool:
        state = self._tail.state
        return bool(state.turn is not None or state.sessions.running or state.undo.begun is not None or self._letters.ends_left)

    async def settle_cut_turn(self, *, may_resume: bool = True) -> str | None:
        """After a crash, close the turn that was cut off as interrupted. If it waits for an answer and nobody asked to interrupt
        it, return its id instead: it can go on.
        """
        tail = self._tail
        if tail.state.sessions.running:
            for turn, ended in recovery.lost_sessions(tail.state, self._long_commands.alive):
                tail.append(ended, turn=turn)
        if (cut := recovery.cut_undo(tail.state)) is not None:
            tail.append(cut[1], turn=cut[0])
        turn_id = tail.state.turn
        if turn_id is None:
            self._letters.forget_ends()
            return None
        resumes = may_resume and self._goes_on and not await self._letters.end_was_asked_of(turn_id)
        unfinished = await recovery.unfinished_text(self._log, tail.conversation_id)
        if resumes:
            # of an answer that broke off before the questions: the resumed turn does not know what was shown of it
            if unfinished or tail.broadcast.text.text():
                tail.append(TAKEN_BACK, turn=turn_id)
            return turn_id
        self._check_that_all_is_well()
        self._running.close(turn_id, TurnEnded("interrupted", recovery.INTERRUPTED, unfinished, cut_at=tail.state.last_at))
        self._letters.forget_ends()
        return None

    async def _fork(self, parent_message_id: str) -> None:
        """Continue from the end of an earlier message's turn. The later records stay in the log, on another path."""
        tail = self._tail
        if parent_message_id not in tail.state.message_ends:
            raise BadRequest(f"no message {parent_message_id} in this conversation")
        await self.settle_cut_turn(may_resume=False)
        end = tail.state.message_ends[parent_message_id]
        if end != tail.state.head:
            stored = await self._log.read(tail.conversation_id)
            unstored = [entry for entry in tail.broadcast.unpublished() if entry.seq > stored[-1].seq]
            tail.state = tail.state.fork([*stored, *unstored], end)

    def _check_that_all_is_well(self) -> None:
        """Raise if, while the log was read, the log failed, the claim was lost, or the process began to end."""
        if self._standing.phase is LEAVING:
            raise StoreError(ENDING)
        if self._tail.failure is not None:
            raise self._tail.failure

    def _start(self, turn_id: str, setup: TurnSetup, by: str, *, compacts: bool = False) -> None:
        self._approvals.begin_turn(setup.config.questions, setup.on_question)
        shared = (self._sandbox, self._approvals, self._read_letters, self._long_commands, lambda: self.unsaved)
        turn = Turn(turn_id, self._tail, setup, *shared, compacts=compacts, renew=self.setup)
        if self._letters.compaction_left:
            self._letters.compaction_left = False
            if not compacts:
                turn.compact_soon()
        self._running.start(turn, by)
        if self._letters.decisions_left:
            self._decide_with_letters(turn_id)

    def _decide_with_letters(self, turn_id: str) -> None:
        """Apply answers that a dead process left unread to the questions that this turn asks again."""
        decisions, self._letters.decisions_left = self._letters.decisions_left, []
        for op in decisions:
            if op.turn == turn_id and op.call_id in self._tail.state.questions:
                counts = self._approvals.decide(op, turn_id)
                if counts and op.decision == "abort":
                    self._running.note_told_to_end()


def _chosen(overrides: Overrides, *messages: UserMessage) -> Overrides:
    """The overrides in force once these messages are recorded."""
    for message in messages:
        if message.overrides is not None:
            overrides = merge(overrides, message.overrides)
    return overrides
