"""The only thing through which a front end uses a conversation: it submits ops and follows the log.

A handle is bound to a caller, whose name goes with every op. The handle checks what that caller may do and choose.
"""

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from understudy.config.model import Config
from understudy.engine.log.broadcast import LiveEntry
from understudy.engine.log.durable import Durable
from understudy.engine.log.facts import read_title, with_changes
from understudy.engine.log.ledger import BUDGET_CALL, Work
from understudy.engine.ops.table import OPS, way_of
from understudy.engine.setup.turn_setup import TurnSetup
from understudy.engine.viewers.following import Following
from understudy.engine.viewers.viewer import Outlet, Viewer
from understudy.errors import AgentError, ConfigError, LacksRight, UnknownConversation, report_bug
from understudy.protocol.callers import Caller, Right
from understudy.protocol.choices import ApprovalPolicy, SandboxMode
from understudy.protocol.ids import ConversationId, new_uuid
from understudy.protocol.items import FunctionCall, Message, Usage
from understudy.protocol.ops import Accepted, Compact, Decide, Op, Rename, Resume, Send, Undo
from understudy.protocol.records import (
    BudgetAsked,
    CommandStarted,
    Entry,
    Overrides,
    PatchStarted,
    Question,
    Terms,
    ToolCallBegan,
    UndoEnded,
    UserMessage,
    Workspace,
)
from understudy.store.log import GoingOn, RunningCommand, Store

if TYPE_CHECKING:
    from understudy.engine.conversation.answering import Outcome
    from understudy.engine.conversation.compacting import Compacting
    from understudy.engine.conversation.conversation import Conversation
    from understudy.engine.conversation.stopping import Stopped
    from understudy.engine.log.fold import State
    from understudy.engine.log.tail import Told
    from understudy.engine.services.observing import Observer
    from understudy.engine.steps import EagerTasks, Pace
    from understudy.tools.unsaved_texts import UnsavedTexts

logger = logging.getLogger(__name__)

if TYPE_CHECKING:

    class Owner(Protocol):
        """What a handle needs of the engine that hands it out."""

        @property
        def tasks(self) -> EagerTasks: ...
        @property
        def pace(self) -> Pace: ...
        @property
        def log(self) -> Store: ...
        @property
        def observer(self) -> Observer | None: ...
        @property
        def where_from(self) -> Callable[[], str]: ...
        def configure(self, overrides: Overrides) -> Config: ...
        def pinned(self, conversation: Conversation, op: Send) -> Send: ...
        async def admit(self, caller: Caller, terms: Terms | None) -> None: ...
        async def make_ready(self, conversation: Conversation) -> None: ...
        async def submit(
            self, conversation: Conversation, op: Op, following: Following | None = None, told: Told | None = None
        ) -> Accepted: ...


PATIENCE_SECONDS = 10.0  # for a turn that does not end, or a process that does not do what it was asked to


class Facts(msgspec.Struct, frozen=True, gc=False):
    """What front ends show of a conversation, as it is at this moment."""

    owner: str
    model: str
    cwd: str
    approval_policy: ApprovalPolicy | None
    sandbox: SandboxMode | None
    turn: str | None  # the turn that runs, here or elsewhere, or was cut off
    runs_here: bool
    questions: Mapping[str, Question]  # open questions by call id
    last_seq: int
    asked_at: Mapping[str, float] = {}  # when each question was asked, in seconds since the epoch
    usage: Usage | None = None  # of the whole conversation; None: no provider has reported any
    workspace: Workspace | None = None  # as it was chosen, but with its present host
    saved: str | None = None  # the turn after which its newest snapshot was taken


class Handle:
    """One conversation in the name of one caller. What it reports of the conversation is current at that moment."""

    def __init__(self, engine: "Owner", conversation: "Conversation", caller: Caller) -> None:
        """Raises `UnknownConversation` for a caller who may not read it, so that they do not learn that it exists."""
        self.id: ConversationId = conversation.id
        self.caller = caller
        self.tasks = engine.tasks  # for the front end's own work
        self.pace = engine.pace  # for a front end's long work
        self._engine = engine
        self._conversation = conversation
        self._tail = conversation.tail
        if not caller.may("read", self._tail.state.owner):
            raise UnknownConversation(f"no conversation {conversation.id}")
        if engine.observer is not None:
            engine.observer.reached(conversation.id)

    # -- ops

    def message(
        self,
        message: Message,
        overrides: Overrides | None = None,
        parent_message_id: str | None = None,
        terms: Terms | None = None,
        *,
        own_turn: bool = False,
    ) -> Send:
        """The op that sends a message. `overrides` hold from this message on, `terms` only for its turn."""
        return Send(UserMessage(new_uuid(), message, overrides, parent_message_id, terms=terms), self.caller.name, own_turn)

    def pinned(self, op: Send) -> Send:
        """The op with the folders that its message changes to pinned as they are now, so that the folders judged are the folders
        used.

        Raises `ConfigError`.
        """
        return self._engine.pinned(self._conversation, op)

    async def submit(self, op: Op, following: Following | None = None, durable: Durable | None = None) -> Accepted:
        """Submit an op to the conversation. If it raises `AgentError`, nothing is recorded.

        `following` learns where a message went in the same step, before it can be shown any of it; `durable` is told when all of it
        is durable.
        """
        op = self._checked(op)
        if isinstance(op, Send | Compact | Resume | Undo):
            await self.make_ready()
        if self.caller.limits is not None:
            op = await way_of(op).judge(self.caller.limits, self, op)
            if isinstance(op, Send):
                await self._engine.admit(self.caller, op.message.terms)
        if self._engine.observer is not None and isinstance(op, Send):
            self._engine.observer.sent(self.id, op.message.message_id)
        return await self._engine.submit(self._conversation, op, following, None if durable is None else durable.tell)

    async def make_ready(self) -> None:
        """Make the workspace available before work begins in it. Raises `WorkspaceAway`."""
        if self._conversation.state.overrides.workspace is not None:
            await self._engine.make_ready(self._conversation)

    def _checked(self, op: Op) -> Op:
        self.check_right(OPS[type(op)].right)
        if type(op) is Send:
            if op.message.terms is not None:
                self._check_budget(op.message)
        elif isinstance(op, Undo):
            op = msgspec.structs.replace(op, approves=self.caller.may("approve", self._tail.state.owner))
        elif isinstance(op, Decide):
            if op.decision in ("approved", "approved_for_session") and self._asks_for_budget(op.call_id):
                self.check_right("budget")
            op = msgspec.structs.replace(op, door=self.caller.door, address=self._engine.where_from())
        return op if op.by == self.caller.name else msgspec.structs.replace(op, by=self.caller.name)

    def _check_budget(self, message: UserMessage) -> None:
        """Raises `LacksRight` if the message asks for more than is configured without the right to, and `ConfigError`."""
        owner = self._tail.state.owner
        if message.terms is None or message.terms.budget is None or self.caller.may("budget", owner):
            return
        from understudy.engine.turn.budgets import check_budget  # few messages have a budget

        config = self.config_with(message.overrides or Overrides())
        check_budget(self.caller, owner, message.terms.budget, config)

    def _asks_for_budget(self, call_id: str) -> bool:
        question = self._tail.state.questions.get(call_id)
        if question is None:  # another process may have asked it, and this one has not seen it yet
            return call_id.startswith(BUDGET_CALL)
        return isinstance(question, BudgetAsked)

    def check_right(self, right: Right) -> None:
        """Raises `LacksRight`."""
        if not self.caller.may(right, owner := self._tail.state.owner):
            reason = f"{self.caller.name} does not have the right to {right} on conversation {self.id}"
            raise LacksRight(reason, right, on_others=owner != self.caller.name)

    async def interrupt(self, seconds: float = PATIENCE_SECONDS) -> "Stopped":
        """Tell the running turn to end, and wait until it is over. Raises `AgentError` if the log can no longer say so."""
        from understudy.engine.conversation.stopping import stop_turn

        return await stop_turn(self._conversation, self.submit, seconds)

    async def decide(self, op: Decide, durable: Durable, seconds: float = PATIENCE_SECONDS) -> "Outcome":
        """Answer a question, and wait until it is known whether the answer counts, whichever process asked."""
        from understudy.engine.conversation.answering import answer_question

        submit = partial(self.submit, durable=durable)
        return await answer_question(self._conversation, submit, op, seconds)

    async def compact(self) -> "Compacting":
        """Have the model summarise the earlier history. Raises `AgentError` if the op is refused."""
        from understudy.engine.conversation.compacting import begin_compacting

        return await begin_compacting(self._conversation, self.submit)

    async def undo(self, turn: str = "", seconds: float = PATIENCE_SECONDS) -> UndoEnded:
        """Take back the patches of a turn (by default the last one that changed files), and wait until a process has done so.

        Raises `AgentError` with the reason if it is not done.
        """
        from understudy.engine.conversation.done_elsewhere import submit_and_wait  # rarely used

        op = Undo(new_uuid(), turn)
        found = await submit_and_wait(self._conversation, self.submit, op, seconds)
        assert isinstance(found, UndoEnded)
        return found

    async def rename(self, title: str, seconds: float = PATIENCE_SECONDS) -> str:
        """Set the title, wait until it is on disk, and return it. Raises `AgentError` if it is not done."""
        from understudy.engine.conversation.done_elsewhere import submit_and_wait  # rarely used

        op = Rename(read_title(title))
        await submit_and_wait(self._conversation, self.submit, op, seconds)
        return op.title

    def submit_soon(self, op: Op) -> None:
        """Submit without waiting for the outcome. A refusal is logged."""
        self.tasks.run(self._submit_unheard(self.submit(op), op))

    async def _submit_unheard(self, submitted: Coroutine[Any, Any, object], op: Op) -> None:
        try:
            await submitted
        except AgentError as error:
            logger.info("%s of %s was not taken: %s", type(op).__name__, self.id, error)
        except Exception as error:
            report_bug(logger, error, "in %s of %s", type(op).__name__, self.id)

    def deny_unasked(self, call_id: str, reason: str, turn: str) -> None:
        """Let the rules answer no, because nobody can be asked. It is not the caller's decision: they may lack the right to
        approve.

        The question stays open instead if `unasked = "wait"` is configured, if this caller may only look, or while somebody in
        another process of a database could answer it.
        """
        if self.questions_wait or self.only_looks:
            return
        op = Decide(call_id, "denied", reason, turn, self.caller.name)
        submit = partial(self._engine.submit, self._conversation, op)
        if (attendance := self._conversation.attendance) is not None:
            from understudy.engine.conversation.unattended import deny_if_unattended  # others may be on other machines

            submit = partial(deny_if_unattended, self._conversation, attendance, op, submit)
        self.tasks.run(self._submit_unheard(submit(), op))

    def durable(self) -> Durable:
        """Becomes done once it is known whether everything accepted so far is durable, in whichever process."""
        durable = Durable()
        self._conversation.when_durable(durable.tell)
        return durable

    async def committed(self) -> None:
        """Wait until all records so far are committed, so that the log agrees with `facts`. Raises `AgentError`."""
        await self._conversation.committed()

    # -- following

    def follow(
        self,
        viewer: Viewer,
        *,
        after: int | None = None,
        outlet: Outlet | None = None,
        only_its_turn: bool = False,
        hides_reasoning: bool = False,
    ) -> Following:
        """The viewer's place in the conversation. It shows nothing before `go_live`, or before the viewer's message is accepted.

        `after`: begin after this record; by default, skip what was shown before. `only_its_turn`: show only the turn of the
        viewer's message. `outlet`: lets a slow client fall behind.
        """
        rights = self.caller.rights_on(self._tail.state.owner)
        return Following(
            self._conversation,
            viewer,
            after=after,
            outlet=outlet,
            only_its_turn=only_its_turn,
            hides_reasoning=hides_reasoning,
            may_answer="approve" in rights,
            may_raise="budget" in rights,
            name=self.caller.name,
        )

    def unsaved_texts(self) -> "UnsavedTexts":
        """Where an editor that has the conversation open can offer its unsaved texts."""
        return self._conversation.unsaved_texts()

    @property
    def facts(self) -> Facts:
        state = self._tail.state
        overrides = state.overrides
        return Facts(
            state.owner,
            state.model,
            overrides.cwd or "",
            overrides.approval_policy,
            overrides.sandbox,
            state.turn,
            self._conversation.turn_runs,
            dict(state.questions),
            state.last_seq,
            dict(state.asked_at),
            state.usage,
            _where_it_is(state),
            None if state.saved is None else state.saved.turn,
        )

    @property
    def running_turn(self) -> str | None:
        return self._tail.state.turn

    @property
    def queued(self) -> tuple[UserMessage, ...]:
        """Messages that wait for turns of their own."""
        return tuple(self._tail.state.queued.values())

    def has_message(self, message_id: str) -> bool:
        """Whether the message is in the log, as far as this process knows."""
        return message_id in self._tail.state.message_ends

    async def find_message(self, is_it: Callable[[str], bool], after: int) -> str | None:
        """The id of a sent message, even if no turn has read it yet. The search begins behind record `after`."""
        from understudy.engine.conversation.looking_back import seek_message  # only tasks are found by such marks

        return await seek_message(self._conversation, self._engine.log, is_it, after)

    def open_question(self, call_id: str) -> Question | None:
        return self._tail.state.questions.get(call_id)

    def asked_at(self, call_id: str) -> float:
        """When the open question was asked. An answer carries this time as `Decide.asked_at`, so that it cannot hit a later
        question.
        """
        return self._tail.state.asked_at.get(call_id, 0.0)

    @property
    def questions_wait(self) -> bool:
        """Whether a question stays open although nobody can be asked; of a turn elsewhere our configuration says so."""
        if self._conversation.turn_runs:
            return self._conversation.questions_wait
        try:
            return self._engine.configure(Overrides()).questions.unasked == "wait"
        except ConfigError:
            return False

    @property
    def asks_for_turn(self) -> bool:
        """Whether its questions are ours to deny: it runs here, or each process knows whether another one could ask somebody."""
        return self._conversation.turn_runs or self._conversation.attendance is not None

    @property
    def only_looks(self) -> bool:
        """Whether the caller cannot influence the turns."""
        return not self.caller.may("run", self._tail.state.owner)

    def can_be_answered(self) -> bool:
        """Whether any follower could answer a question."""
        return any(follower.can_answer for follower in self._conversation.followers)

    def message_of_turn(self, turn: str) -> str | None:
        """The id of the message that began the turn."""
        return self._tail.state.turn_messages.get(turn)

    def turn_of_message(self, message_id: str) -> str | None:
        """The turn that the message began; None if the message joined another turn or has not begun one yet."""
        return next((turn for turn, message in self._tail.state.turn_messages.items() if message == message_id), None)

    def going_on(self) -> GoingOn:
        return GoingOn(self.running_turn, self.commands_going_on())

    def commands_going_on(self) -> tuple[RunningCommand, ...]:
        return sessions.commands() if (sessions := self._tail.state.sessions).running else ()

    def under_way(self) -> tuple[CommandStarted | PatchStarted | ToolCallBegan, ...]:
        """Calls of the model that have begun and not ended."""
        return tuple(self._tail.state.running.values())

    def not_begun(self) -> tuple[FunctionCall, ...]:
        """Calls of the model that wait for their turn, or for the answer to a question."""
        state = self._tail.state
        return tuple(call for call in state.calls.values() if call.call_id not in state.running)

    @property
    def last_turn(self) -> str | None:
        """The last turn that has begun, whether or not it is over."""
        return next(reversed(self._tail.state.ledger.turns), None)

    def work_of(self, turn: str) -> Work | None:
        """What a turn did; None if it is too old: `read_work` looks further back."""
        return self._tail.state.ledger.turns.get(turn)

    async def read_work(self, turn: str) -> Work | None:
        """What any turn did; None if there is no such turn."""
        if (work := self.work_of(turn)) is not None:
            return work
        from understudy.engine.conversation.looking_back import read_past_work  # rarely used

        return await read_past_work(self._conversation, turn)

    def with_changes(self, overrides: Overrides) -> Overrides:
        """The overrides that a message with these overrides would run with."""
        return with_changes(self._tail.state.overrides, overrides)

    def config_with(self, overrides: Overrides) -> Config:
        """The configuration of such a message. Raises `ConfigError`."""
        return self._engine.configure(self.with_changes(overrides))

    def setup(self) -> TurnSetup:
        """The setup of the next turn. Raises `ConfigError`."""
        return self._conversation.setup()

    @property
    def published(self) -> int:
        """The last record that may be shown."""
        return self._tail.broadcast.published

    async def read(self, after: int, limit: int | None = None) -> Sequence[Entry]:
        """Entries that may be shown, from the store."""
        return await self._conversation.read(after, limit)

    async def read_shared(self, after: int, last: int) -> Sequence[LiveEntry]:
        """Entries that may be shown, with the encodings that viewers have cached: many viewers may want the same entries."""
        return await self._conversation.pages.between(after, last, self.published)


def _where_it_is(state: "State") -> Workspace | None:
    workspace = state.overrides.workspace
    if workspace is None or state.moved is None:
        return workspace
    return msgspec.structs.replace(workspace, host=state.moved.host)
