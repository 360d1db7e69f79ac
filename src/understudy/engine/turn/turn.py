"""One turn: ask the model and run its tools until there is nothing more to do.

The loop has no state that the log lacks, so a turn can be resumed where its log ends. Reading the model is in `incoming_answer`,
limits are in `turn_budget`, and keeping the context within the window is in `compaction`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from understudy.engine.compaction.keeping import ContextKeeper
from understudy.engine.log.fold import State
from understudy.engine.log.tail import Tail
from understudy.engine.setup.turn_setup import TurnSetup
from understudy.engine.turn.approvals import Approvals
from understudy.engine.turn.incoming_answer import IncomingAnswer
from understudy.engine.turn.long_commands import LongCommands
from understudy.engine.turn.tool_calls import ToolCalls
from understudy.engine.turn.turn_budget import TurnBudget, listen_within, open_budget_question
from understudy.errors import ContextFull, ImagesRefused, ModelError, ModelUnavailable, OutOfTime, StreamLost
from understudy.models.failures import backoff
from understudy.models.model import Answer as ModelAnswer
from understudy.models.model import ModelEvent, Prompt, ToolSpec
from understudy.protocol.choices import ApprovalPolicy
from understudy.protocol.items import FunctionCallOutput, Message, Usage
from understudy.protocol.records import (
    BudgetAsked,
    Delta,
    Noticed,
    Question,
    Record,
    RequestSent,
    RetryScheduled,
    TokensCounted,
    TurnEnded,
)
from understudy.tools.host import ApprovalAnswer, RunsCommands, ToolSettings

if TYPE_CHECKING:
    from understudy.engine.hooks.of_conversation import ConversationHooks
    from understudy.engine.hooks.turn_hooks import TurnHooks
    from understudy.engine.log.ledger import Work
    from understudy.engine.services.observing import ModelTiming, Observer
    from understudy.engine.turn.accounts import Account
    from understudy.engine.turn.other_servers import ConversationServers
    from understudy.engine.turn.turn_tools import TurnTools
    from understudy.tools.mcp.servers import Servers
    from understudy.tools.patch.turn_diff import TurnDiff
    from understudy.tools.session import Sessions
    from understudy.tools.unsaved_texts import UnsavedTexts


class TurnAborted(Exception):
    """A person answered a question by ending the turn."""


class _Blocked(Exception):
    """Hooks blocked every message before the model was asked anything."""


class Turn:
    def __init__(
        self,
        turn_id: str,
        tail: Tail,
        setup: TurnSetup,
        sandbox: RunsCommands,
        approvals: Approvals,
        read_letters: Callable[[], Awaitable[None]],
        long_commands: LongCommands,
        unsaved: "Callable[[], UnsavedTexts | None]",
        *,
        compacts: bool = False,
        renew: Callable[[], TurnSetup],
    ) -> None:
        """`compacts`: the turn was begun without a message, to summarise the earlier history. `renew`: makes the setup again after
        the user has chosen another mode.
        """
        self.turn_id = turn_id
        self.sandbox = sandbox
        self.listens = False  # suspended in the model's stream: nothing of the turn runs here
        self.account: Account | None = None  # the account of whoever began the turn, if they have a budget
        self.closed = False  # its end is recorded: nothing may follow
        self._diff: TurnDiff | None = None
        self._tail = tail
        self._setup = setup
        self._approvals = approvals
        self._read_letters = read_letters
        self._long_commands = long_commands
        self._unsaved = unsaved
        self._compacts = compacts
        self._requests_before = tail.state.history.requests
        self._renew = renew
        self._tries = 0  # runs of the command that must succeed
        self._left_before = set(tail.state.waiting)  # messages left by a turn that was cut off; later ones are for this turn
        self._budget = TurnBudget()
        self._standing: str | None = None  # an answer without the requested form, used if there is no better one
        self._timing: ModelTiming | None = None  # the current request's, if somebody observes
        self._context = ContextKeeper(tail, setup)
        self._tools = None if setup.servers is None else _tools_of(setup, setup.servers, self.record)
        self._hooks = None if setup.hooks is None else _hooks_of(setup.hooks, self)
        at_calls = self._hooks if self._hooks is not None and self._hooks.sees_calls else None
        self.calls = ToolCalls(turn_id, tail, setup.find_tool if self._tools is None else self._tools.find, at_calls)
        self._incoming = IncomingAnswer(tail, turn_id, show_raw_reasoning=setup.show_raw_reasoning)

    @property
    def unfinished(self) -> str:
        """What the model has said of an answer that is not complete."""
        return self._incoming.unfinished

    async def run(self) -> TurnEnded:
        try:
            return await (self._run() if self._tools is None else self._run_with(self._tools))
        finally:
            if self._hooks is not None:
                self._hooks.end()
            if self.calls.reads:
                await self.calls.stop_reads()

    async def _run_with(self, tools: "TurnTools") -> TurnEnded:
        try:
            await tools.begin()
            self._offer(tools.offered)
            return await self._run()
        finally:
            tools.rest()

    async def _run(self) -> TurnEnded:
        state = self._tail.state
        if self._hooks is not None:
            await self._hooks.begin()
        if state.calls:  # only a resumed turn has any
            for call in tuple(state.calls.values()):
                await self.calls.make_way(call)
                await self.calls.run(call, self)
            await self.calls.finish_reads()
        if self._compacts:
            await self._context.sum_up(self)
            await self._read_letters()
            if self._left_before.issuperset(state.waiting):  # those are for the next message's turn
                return TurnEnded("completed")
        if state.questions and self._setup.config.plans and not await self._plan_is_settled(taken_up=True):
            return TurnEnded("completed", state.answer)
        while True:
            try:
                called = await self._ask_model()
            except _Blocked as blocked:
                return TurnEnded("completed", str(blocked))
            except ModelError as error:
                if self._standing is None:
                    raise
                self.record(Noticed(f"the model could not be asked again, so its answer stands as it is: {error}"))
                return TurnEnded("completed", self._standing)
            if self._hooks is not None and self._hooks.stopped is not None:
                return TurnEnded("completed", self._hooks.stopped)
            if called:
                continue
            await self._read_letters()  # everything that has come goes into one request
            if self._hooks is not None and state.waiting:
                await self._hooks.judge_messages()
            work = state.ledger.turns.get(self.turn_id)
            if state.waiting or (work is not None and work.schema is not None and not await self._answer_fits()):
                self._standing = None if state.waiting or self._insists else state.answer
                continue
            if self._context.asked and not state.waiting:
                await self._context.when_asked(self)
            if self._hooks is not None and not state.waiting and not await self._hooks.may_stop(state.answer):
                continue
            if not state.waiting and self._setup.config.plans and await self._plan_is_settled():
                continue
            if work is not None and work.until and not state.waiting and not await self._is_done(work):
                continue
            if not state.waiting:  # input that came meanwhile is read before the turn may end
                return TurnEnded("completed", state.answer)

    async def _is_done(self, work: "Work") -> bool:
        """Whether the command that must succeed did. False: the model was told its output."""
        from understudy.engine.turn.until import try_until  # few turns have one

        self._tries += 1
        return await try_until(self, self.turn_id, self._tries, work.until, has_budget=bool(work.allowances))

    async def _plan_is_settled(self, *, taken_up: bool = False) -> bool:
        """In plan mode: whether the user has decided about the plan, so that the turn continues."""
        from understudy.engine.planning.review import review_plan, waits_for_review  # few turns only plan

        if taken_up and not waits_for_review(self._tail.state):
            return True  # it waits for something else
        if not await review_plan(self._tail.state, self.turn_id, self.ask, self.record):
            return False
        self._setup = msgspec.structs.replace(self._renew(), offered=self._setup.offered)
        self._context.use(self._setup)
        return True

    def notify(self, ended: TurnEnded) -> None:
        """The turn's end is appended: tell the user's program, if any, once that is on disk."""
        notify = self._setup.notify
        if notify is None or ended.reason != "completed" or self.turn_id not in self._tail.state.turn_messages:
            return
        from understudy.engine.services.notifying import completed_turn  # few users have such a program

        tail, cwd = self._tail, str(self._setup.config.cwd)
        turn = completed_turn(tail.state, tail.conversation_id, self.turn_id, cwd, ended.message)
        tail.when_committed(lambda: None if tail.failure else notify(turn))

    @property
    def _insists(self) -> bool:
        """Whether the turn fails rather than give an answer without that form."""
        work = self._tail.state.ledger.turns.get(self.turn_id)
        return work is None or work.insists

    async def _answer_fits(self) -> bool:
        """Whether the answer has that form. False: the model was told what is wrong, and tries again."""
        work = self._tail.state.ledger.turns.get(self.turn_id)
        if work is None or work.schema is None:
            return True
        from understudy.engine.turn.answer_form import answer_fits  # few callers ask for a form

        return await answer_fits(self.turn_id, work, work.schema, self._tail, self._read_letters)

    def compact_soon(self) -> None:
        """Make a summary before the next request, or at the end of the turn."""
        self._context.asked = True

    # -- asking the model

    async def _ask_model(self) -> bool:
        """Get one answer of the model, retrying if needed. True if it called a tool."""
        if self._tools is not None and await self._tools.before_request():
            self._offer(self._tools.offered)
        state, setup, budget = self._tail.state, self._setup, self._budget
        if self._context.is_due(state):
            if (keeper := budget.keeper(self, setup, state)) is not None:
                await keeper.before_request()
            await self._context.before_request(self)
        attempt = 0
        was_full = False
        while True:
            if (keeper := budget.keeper(self, setup, state)) is not None:
                await keeper.before_request()
            if self._hooks is not None:
                blocked = await self._hooks.judge_messages()
                if blocked is not None and not state.waiting and state.requests == self._requests_before:
                    raise _Blocked(blocked)
            if self.account is not None:
                await self.account.check(setup.cost_of)
            self.record(RequestSent(tuple(state.waiting), self._new_context(), setup.given(state.waiting.values())))
            sent = len(state.history.items)
            try:
                await self._read_answer()
                self._context.note_answer()
                return self._called_since(sent)  # calls of a broken attempt were part of this request
            except (StreamLost, ModelUnavailable) as error:
                attempt += 1
                await self.pause_before_retry(error, attempt)
            except ContextFull as error:
                if was_full or not await self._context.when_full(self):
                    raise self._context.still_full(error) from None
                was_full = True
            except ImagesRefused as error:
                if not self._context.leave_out_images(self, error):
                    raise
            except OutOfTime:
                pass  # the budget is checked before the request is repeated
            self._incoming.begin_again()

    def _offer(self, tools: tuple[ToolSpec, ...]) -> None:
        self._setup = msgspec.structs.replace(self._setup, offered=tools)
        self._context.use(self._setup)

    async def pause_before_retry(self, error: StreamLost | ModelUnavailable, attempt: int) -> None:
        """Raises the error after enough attempts."""
        lost = isinstance(error, StreamLost)
        if attempt > self._setup.stream_retries or self._standing is not None or (not lost and error.lasting):
            raise error
        delay = error.retry_after if lost and error.retry_after is not None else backoff(attempt)
        why = str(error) if lost else error.brief
        self.record(RetryScheduled(attempt, self._setup.stream_retries, delay, why, error.status))
        await asyncio.sleep(delay)

    def _new_context(self) -> tuple[Message, ...]:
        """What the model is told of its environment, unless it was told exactly that."""
        preamble, before = self._setup.preamble, self._tail.state.history.context
        if preamble == before:
            return ()
        if not before:
            return preamble
        from understudy.engine.planning.words import PLAN_MODE, PLAN_OVER  # the context seldom changes

        if PLAN_MODE in before and PLAN_MODE not in preamble:
            return (*preamble, PLAN_OVER)
        return () if before == (*preamble, PLAN_OVER) else preamble

    def _called_since(self, length: int) -> bool:
        return FunctionCallOutput in map(type, self._tail.state.history.items[length:])

    async def _read_answer(self) -> None:
        state = self._tail.state
        history = state.history
        items = (*history.prefix, *history.items)
        work = state.ledger.turns.get(self.turn_id)
        schema = None if work is None else work.schema
        setup, asked = self._setup, history.requests - 1
        prompt = Prompt(
            setup.instructions,
            items,
            setup.offered,
            self._tail.conversation_id,
            asked,
            output_schema=schema,
            may_retry=self._standing is None,
        )
        if (observer := self._tail.observer) is not None:
            await self._read_timed(prompt, observer)
            return
        async with setup.model.stream(prompt) as answer:
            await self._read(answer)

    async def _read(self, answer: ModelAnswer) -> None:
        try:
            await self._incoming.read(answer, self)
        except ModelError:  # calls before the break are part of the next request
            await self.calls.finish_reads()
            raise

    async def _read_timed(self, prompt: Prompt, observer: "Observer") -> None:
        from understudy.engine.services.observing import ModelTiming  # few processes are observed

        config = self._setup.config
        timing = self._timing = ModelTiming(config.model, config.model_provider)
        observer.model_asked(self._tail.conversation_id, self.turn_id, timing)
        try:
            async with self._setup.model.stream(prompt) as answer:
                await self._read(answer)
        except BaseException as error:
            timing.fail(error)
            raise
        finally:
            timing.end()
            self._timing = None
            observer.model_answered(self._tail.conversation_id, self.turn_id, timing)

    async def listen(self, answer: ModelAnswer) -> list[ModelEvent]:
        self.listens = not self.calls.reads
        left = self._budget.seconds_left()
        if self._timing is not None:
            self._timing.listen()
        try:
            heard = await (answer.batch() if left is None else listen_within(left, answer))
            if self._timing is not None:
                self._timing.hear()
            return heard
        finally:
            self.listens = False
            if self.closed:
                raise asyncio.CancelledError  # later events were not listened to any more

    def count(self, usage: Usage, *, cut: bool = False) -> None:
        before = self._tail.state.usage
        cost = self._setup.cost_of(usage)
        self.record(TokensCounted(usage, usage if before is None else before.plus(usage), cost, cut))
        if self.account is not None:
            self.account.count(usage, cost)

    def note_uncounted(self) -> None:
        self._budget.note_uncounted()

    @property
    def state(self) -> State:
        return self._tail.state

    async def may_compact(self, trigger: str) -> str | None:
        return None if self._hooks is None else await self._hooks.may_compact(trigger)

    # -- for budgets (`Asks`)

    @property
    def approval_policy(self) -> ApprovalPolicy:
        return self._setup.config.approval_policy

    def open_budget_question(self) -> BudgetAsked | None:
        return open_budget_question(self._tail.state)

    # -- for the acts of tools (`ToolHost`)

    @property
    def settings(self) -> ToolSettings:
        return self._setup.settings()

    @property
    def sessions(self) -> "Sessions":
        return self._long_commands.sessions()

    @property
    def servers(self) -> "Servers | None":
        return None if self._tools is None else self._tools.servers

    @property
    def diff(self) -> "TurnDiff":
        if self._diff is None:
            from understudy.tools.patch.turn_diff import TurnDiff  # only turns with patches have one

            self._diff = TurnDiff()
        return self._diff

    @property
    def owner(self) -> str:
        return self._tail.state.owner

    @property
    def unsaved(self) -> "UnsavedTexts | None":
        return self._unsaved()

    def record(self, *records: Record) -> None:
        self._tail.append(*records, turn=self.turn_id)

    async def committed(self) -> None:
        await self._tail.committed()

    def emit(self, delta: Delta) -> None:
        self._tail.emit(delta, self.turn_id)

    async def ask(self, question: Question) -> ApprovalAnswer:
        answer = await self._approvals.ask(question, self.turn_id)
        if answer.decision == "abort":
            raise TurnAborted
        return answer

    def open_question(self, call_id: str) -> Question | None:
        return self._tail.state.questions.get(call_id)

    def is_approved(self, key: Callable[[], str]) -> bool:
        approved = self._tail.state.approved
        return bool(approved) and key() in approved


def _hooks_of(hooks: "ConversationHooks", turn: Turn) -> "TurnHooks":
    from understudy.engine.hooks.turn_hooks import TurnHooks  # only if the user, or a folder that they trust, has any

    return TurnHooks(hooks, turn)


def _tools_of(setup: TurnSetup, servers: "ConversationServers", record: Callable[[Record], None]) -> "TurnTools":
    from understudy.engine.turn.turn_tools import TurnTools  # only if other MCP servers are configured

    return TurnTools(setup, servers, record)
