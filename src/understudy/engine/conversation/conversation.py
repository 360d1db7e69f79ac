"""One conversation: ops come in, records go to its log, at most one turn runs at a time.

A turn belongs to its conversation, not to the caller who began it. An idle conversation has no task and no claim. While a turn runs
here, ops never wait, so the turn and the current op never touch the state at the same time.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from understudy.engine.conversation.beginning import ENDING, Beginning, Prepare
from understudy.engine.conversation.elsewhere import Elsewhere, TakenUp
from understudy.engine.conversation.phases import FORGOTTEN, MAY_BE_FORGOTTEN, OURS, Given
from understudy.engine.conversation.shell import Shell
from understudy.engine.log.tail import CommitDelay, Told
from understudy.engine.ops.sending import begin_what_waits
from understudy.engine.ops.table import READ, way_of
from understudy.engine.setup.turn_setup import TurnSetup
from understudy.engine.steps import EagerTasks, Pace
from understudy.engine.turn.long_commands import LEAVING, UNRECORDED
from understudy.errors import AgentError, Fenced, StoreError, UnknownConversation
from understudy.protocol.callers import LOCAL_NAME
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Accepted, Op
from understudy.protocol.records import Opened, Overrides, Pins
from understudy.store.log import Attendance, EventLog, Position
from understudy.tools.host import RunsCommands

if TYPE_CHECKING:
    from understudy.engine.conversation.waiters import Waiter
    from understudy.engine.ops import Way
    from understudy.engine.services.observing import Observer
    from understudy.engine.services.turns_at_work import TurnsAtWork
    from understudy.engine.turn.accounts import Accounts
    from understudy.engine.viewers.shared_pages import SharedPages
    from understudy.engine.workspaces.workspaces import Workspaces
    from understudy.tools.unsaved_texts import UnsavedTexts

logger = logging.getLogger(__name__)

_NO_QUESTIONS: frozenset[tuple[str, float]] = frozenset()


class Conversation(Shell):
    """Takes ops and performs the effects of everything that happens. Front ends hold a `Handle`."""

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
        super().__init__(conversation_id, log, sandbox, loop, tasks, commit_delay, pace)
        self._pages: SharedPages | None = None
        self.tail.on_failure = self._on_failure
        self.tail.on_all_written = self._release
        if log.is_remote:
            self.tail.gives_back = self._give_back
        self.claim.runs_something = self._runs_something
        self._elsewhere = Elsewhere(self)
        self.beginning = Beginning(
            log,
            self.tail,
            self.standing,
            self.letters,
            self.running,
            self.approvals,
            sandbox,
            prepare,
            self._elsewhere.read_letters,
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
        self._wanted_by = 0  # callers who need the log outside the queue: to have it read, deleted or archived
        self.on_watch_needed = on_watch_needed
        self._attendance = log.attendance if log.is_remote else None
        self._denying = _NO_QUESTIONS  # call ids and times of questions that are to be denied unless somebody can be asked

    @property
    def is_shared(self) -> bool:
        return self._log.shared

    @property
    def is_forgotten(self) -> bool:
        """Whether it has left memory: callers must get it again from the engine."""
        return self.standing.phase is FORGOTTEN

    @property
    def loaded(self) -> bool:
        """Whether its log has been read: every log has at least one record."""
        return self.tail.state.last_seq > 0

    @property
    def is_quiet(self) -> bool:
        """Nothing runs, nothing waits for the disk, nobody watches: it may leave memory."""
        if self.standing.phase not in MAY_BE_FORGOTTEN or self._wanted_by or self.queue.busy or self.needs_watching:
            return False
        return not self.claim.is_held and self.tail.idle

    @property
    def needs_watching(self) -> bool:
        """Whether another process may have news for followers here, or for the turn that runs here."""
        return bool(self.running.turn or self.long_commands or self.tail.broadcast.followers or self.letters.unread)

    @property
    def is_at_rest(self) -> bool:
        """Nothing runs, waits or has failed. A `look` would find nothing unless the log has grown."""
        under_way = self.running or self.waiting or self.letters.unread or self.tail.failure or self.long_commands
        return self.tail.state.turn is None and not under_way

    def is_observed_by(self, observer: "Observer | None", at_work: "TurnsAtWork | None", accounts: "Accounts | None") -> None:
        self.tail.observer = observer
        self.running.at_work, self.running.accounts = at_work, accounts

    def works_in(self, workspaces: "Callable[[], Workspaces]") -> None:
        """Where to get the workspaces that this conversation may use; they are loaded when first needed."""
        self.beginning.workspaces = self.running.workspaces = workspaces

    @property
    def is_busy(self) -> bool:
        """Whether an op runs or waits."""
        return self.queue.busy

    @property
    def attendance(self) -> Attendance | None:
        """Set where people who could answer questions may be on other machines."""
        return self._attendance

    def begin_denying(self, question: tuple[str, float]) -> bool:
        """Note that the question is to be denied unless somebody can be asked. False if that is noted already."""
        if question in self._denying:
            return False
        self._denying |= {question}
        return True

    def end_denying(self, question: tuple[str, float]) -> None:
        self._denying -= {question}

    @property
    def questions_wait(self) -> bool:
        """Whether a question of the turn running here stays open although nobody can be asked."""
        return self.approvals.waits

    def unsaved_texts(self) -> "UnsavedTexts":
        """Where an editor that has the conversation open can offer its unsaved texts."""
        from understudy.tools.unsaved_texts import UnsavedTexts  # no other front end has unsaved texts

        if self.beginning.unsaved is None:
            self.beginning.unsaved = UnsavedTexts()
        return self.beginning.unsaved

    # -- beginning

    def use_setup(self, setup: TurnSetup, overrides: Overrides) -> None:
        """Use a setup that has already been prepared for these overrides."""
        self.beginning.use_setup(setup, overrides)

    async def open(
        self,
        overrides: Overrides,
        model: str,
        provider: str,
        pins: Pins | None,
        owner: str = LOCAL_NAME,
        thread_source: str | None = None,
    ) -> None:
        """Write the first record of a new conversation."""
        await self.queue.run(self._open(Opened(self.id, model, overrides, provider, pins, owner, thread_source)))

    async def _open(self, opened: Opened) -> None:
        await self.claim.begin()
        self.tail.begin()
        self.tail.append(opened, turn="0")
        self.standing.note(Given.OPENED)

    async def load(self) -> None:
        """Read the stored log, unless it is in memory. Raises `UnknownConversation`."""
        if self.loaded:
            return
        self._wanted_by += 1
        try:
            await self.queue.run(self._load())
        finally:
            self._wanted_by -= 1

    async def _load(self) -> None:
        if self.loaded:  # a concurrent caller has loaded it
            return
        position = (await self._log.positions([self.id])).get(self.id)
        if position is None:
            raise UnknownConversation(f"no conversation {self.id}")
        from understudy.engine.log.forking import folded, read_whole  # a new conversation has nothing to read

        entries = await read_whole(self._log, self.id, self.pace, position.last_seq)
        self.tail.load(await folded(entries), position.epoch)
        self.tail.broadcast.published = self.state.last_seq
        self.standing.note(Given.LOADED)

    @property
    def pages(self) -> "SharedPages":
        """Pages of the log that many viewers share."""
        if self._pages is None:
            from understudy.engine.viewers.shared_pages import SharedPages, read_shown  # nobody reads back a new conversation

            self._pages = SharedPages(self.loop, self.pace, partial(read_shown, self._log, self.tail))
        return self._pages

    # -- ops

    async def submit(self, op: Op, following: "Waiter | None" = None, told: Told | None = None) -> Accepted:
        """Raises `AgentError` if the op is refused. `following` learns where a message went in the same step in which it is
        accepted.

        `told` is called once the accepted op is durable, or with the error if it failed. If no turn runs, a refusal or the answer
        that there was nothing to do waits until its cause is in the log, such as the end of a turn that the op closed. While a turn
        runs, the answer comes while it still runs.
        """
        way = READ.get(type(op)) or way_of(op)
        if way.outside:
            return await self._do_outside(way, op)
        try:
            accepted = await self.queue.run(self._accept(way, op, following, told))
        except AgentError:
            if not self.running:
                with suppress(AgentError):
                    await self.committed()
            raise
        if not (accepted.effective or self.running):
            await self.committed()
        return accepted

    async def _accept(self, way: "Way[Any]", op: Op, following: "Waiter | None", told: Told | None) -> Accepted:
        accepted = await way.here(self, op)
        if following is not None and accepted.message_id:
            following.follow_message(accepted)
        if told is not None:
            in_our_log = self.claim.is_held and not accepted.held  # otherwise it is a letter, or waits for the end of the turn
            (self.tail if in_our_log else self).when_durable(told)
        return accepted

    async def _do_outside(self, way: "Way[Any]", op: Op) -> Accepted:
        self._wanted_by += 1
        try:
            return await way.here(self, op)
        finally:
            self._wanted_by -= 1

    # -- what other processes do

    def watch(self) -> None:
        self.on_watch_needed(self)

    async def look(self, position: Position | None = None) -> None:
        """See what other processes have done. `position`: the store's position of the log, if the caller knows it."""
        await self._elsewhere.look(position)

    async def take_up(self) -> TakenUp:
        """On the conversation's host: do what was left for it, if no process has it."""
        return await self._elsewhere.take_up()

    def look_soon(self) -> None:
        self._elsewhere.look_soon()

    async def note_deleted(self) -> None:
        """The store no longer has the conversation."""
        await self._elsewhere.note_deleted()

    # -- effects

    def _watch_turn(self) -> None:
        self._letters_left = False
        self.on_watch_needed(self)

    def _go_on(self) -> None:
        if self.held or self._letters_left or self.tail.state.queued:
            self.queue.put(begin_what_waits(self), first=True)
        else:
            self.release_if_idle()

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
        """The log could not keep our claim: another process may have the conversation and write to it."""
        reason = f"the claim on conversation {self.id} was lost, so its turn was stopped; send again to continue the conversation"
        logger.error("%s", reason)
        self.tail.fail(Fenced(f"conversation store: {reason}"))

    def _give_back(self) -> bool:
        """Give the claim back with the batch that is handed over now: nothing more is written under it. The next claimant, even in
        this process, gets its answer from the log once that batch is written.
        """
        if self.standing.phase is not OURS or self.held or self._letters_left or self.state.queued or self.state.turn is not None:
            return False
        if self.queue.busy or self.long_commands:
            return False
        return self.claim.give_back()

    # -- ending

    async def stop(self) -> None:
        """The process ends: refuse the waiting ops, and interrupt the turn unless it waits for an answer."""
        reason = StoreError(ENDING)
        self.standing.note(Given.LEAVE)
        self.held.fail(reason)
        await self.queue.close(reason)
        await self.running.leave()
        await self.long_commands.end_all(LEAVING)

    def flush(self) -> None:
        """Hand everything to the log; nothing is saved later."""
        self.tail.close()
        self.tail.flush()

    def forget(self) -> None:
        """Leave memory. Breaks all reference cycles, so that the object is freed at once and not by the garbage collector."""
        self.standing.note(Given.FORGET)
        self.tail.close()
        if self._pages is not None:
            self._pages.close()
        self.tail.on_failure = self.tail.on_all_written = self.tail.gives_back = self.claim.runs_something = None
        self.standing.effects = ()
        self.fixes = None
        del self.queue, self._elsewhere, self.beginning, self.long_commands  # they refer back to this conversation
