"""One turn: ask the model, run its tools, until it has nothing more to do.

The loop holds no state of its own that the log does not have, so a turn can be taken up again where its log ends.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from understudy.config.model import Config
from understudy.engine.approvals import Approvals
from understudy.engine.retelling import Retelling, cut_off
from understudy.engine.room import ContextLimits, Prefix, tokens_if_short
from understudy.engine.tail import Tail
from understudy.errors import AgentError, AnswerMisfit, ContextFull, ModelError, ModelUnavailable, OutOfTime, StreamLost, ToolError
from understudy.models.events import Answer as ModelAnswer
from understudy.models.events import Completed, Counted, ItemDone, Model, ModelEvent
from understudy.models.prompt import Prompt, ToolSpec
from understudy.models.retry import backoff, format_delay
from understudy.protocol.choices import ApprovalPolicy
from understudy.protocol.encodable import encode
from understudy.protocol.items import FunctionCall, FunctionCallOutput, Message, Reasoning, Usage
from understudy.protocol.records import (
    AnswerRejected,
    Budget,
    BudgetAsked,
    Delta,
    ItemReceived,
    Noticed,
    Pins,
    Question,
    ReasoningDelta,
    Record,
    RequestSent,
    TextDelta,
    TokensCounted,
    ToolAnswered,
    TurnEnded,
)
from understudy.tools.host import Answer, RunsCommands, ToolSettings
from understudy.tools.tool import Tool, ToolContext, ToolOutput

if TYPE_CHECKING:
    from understudy.engine.budgets import BudgetKeeper
    from understudy.engine.making_room import MakingRoom
    from understudy.tools.patch.turn_diff import TurnDiff

AT_ONCE = 256  # events of a model that are handled before others get their turn: about a millisecond's work
ANEW = Noticed("the model began its answer anew; the whole text follows when it is complete", withdraws=True)


NO_LIMITS = Budget()


class TurnAborted(Exception):
    """A person answered a question by ending the turn."""


class TurnSetup(msgspec.Struct, frozen=True):
    """All that a turn needs to know of the configuration, fixed while it runs."""

    model: Model
    instructions: str
    preamble: tuple[Message, ...]  # context that goes before the history
    find_tool: Callable[[str], Tool | None]
    offered: tuple[ToolSpec, ...]
    settings: Callable[[], ToolSettings]  # made when a tool is first called
    stream_retries: int
    show_raw_reasoning: bool
    config: Config  # what it was made from; front ends find in it how they are to show things
    pins: Pins | None = None  # the places it works on, for the log
    cost_of: Callable[[Usage], float | None] = lambda _: None  # USD for one answer; None: the model has no price
    limits: ContextLimits = ContextLimits()


class Turn:
    def __init__(
        self,
        turn_id: str,
        tail: Tail,
        setup: TurnSetup,
        sandbox: RunsCommands,
        approvals: Approvals,
        read_letters: Callable[[], Awaitable[None]],
        *,
        compacts: bool = False,
    ) -> None:
        """`compacts`: it was begun without a message, to have the model sum up what was before."""
        self.turn_id = turn_id
        self.sandbox = sandbox
        self.listens = False  # it waits for the model: nothing of it is under way here
        self.closed = False  # its end is recorded: nothing may follow
        self._diff: TurnDiff | None = None
        self._tail = tail
        self._setup = setup
        self._approvals = approvals
        self._read_letters = read_letters
        self._keeper: BudgetKeeper | None = None
        self._text = Retelling()
        self._reasoning = Retelling()
        self._raw_reasoning = Retelling()
        self._prefix = Prefix(setup.instructions, setup.offered, setup.preamble)
        self._making_room: MakingRoom | None = None
        self._compacts = compacts
        self._compaction_asked = False  # by somebody, while it runs

    @property
    def settings(self) -> ToolSettings:
        return self._setup.settings()

    @property
    def unfinished(self) -> str:
        """What the model has said of an answer that is not complete."""
        return cut_off(self._text.told)

    async def run(self) -> TurnEnded:
        state = self._tail.state
        for call in tuple(state.calls.values()):  # only a turn that is taken up again has any
            await self._run_call(call)
        if self._compacts:
            before = set(state.waiting)  # left by a turn that was cut off: for the next message's turn
            await self._room().when_asked(state)
            await self._read_letters()
            if before.issuperset(state.waiting):
                return TurnEnded("completed")
        while True:
            called = await self._ask_model()
            if called:
                continue
            await self._read_letters()  # all that has come goes into one request
            if state.waiting or not await self._answer_fits():
                continue
            if self._compaction_asked and not state.waiting:
                await self._compact()
            if not state.waiting:  # input that came meanwhile is read before the turn may end
                return TurnEnded("completed", state.answer)

    def compact_soon(self) -> None:
        """Before the next request, or at the end of the turn if there is none."""
        self._compaction_asked = True

    async def _compact(self) -> None:
        self._compaction_asked = False
        state = self._tail.state
        if state.history.can_be_summed_up:
            try:
                await self._room().when_asked(state)
            except ModelError as error:
                self.record(Noticed(str(error)))

    # -- the model

    async def _answer_fits(self) -> bool:
        """Whether the answer has the form that was asked for. False: the model was told what is wrong, and tries again."""
        work = self._tail.state.ledger.work(self.turn_id)
        if work is None or work.schema is None:
            return True
        from understudy.engine.answer_schema import Misfit, check_answer  # few callers ask for a form

        checked = await check_answer(work.schema, self._tail.state.answer or "")
        if not isinstance(checked, Misfit):
            await self._read_letters()  # checking took a while
            return True
        if work.rejections:
            raise AnswerMisfit(f"the model's answer does not fit the output schema, also after it was told why: {checked.problem}")
        self.record(AnswerRejected(checked.problem))
        return False

    # -- budgets

    async def _keep_to_budget(self) -> None:
        if self._keeper is None and self._is_limited():
            from understudy.engine.budgets import BudgetKeeper  # few turns have a limit

            self._keeper = BudgetKeeper(self, self._tail.state.ledger, self._setup.config, self._setup.cost_of)
        if self._keeper is not None:
            await self._keeper.before_request()

    def _is_limited(self) -> bool:
        work = self._tail.state.ledger.work(self.turn_id)
        config = self._setup.config
        return config.budget != NO_LIMITS or config.call_budget != NO_LIMITS or (work is not None and bool(work.allowances))

    @property
    def approval_policy(self) -> ApprovalPolicy:
        return self._setup.config.approval_policy

    def open_budget_question(self) -> BudgetAsked | None:
        return next((each for each in self._tail.state.questions.values() if isinstance(each, BudgetAsked)), None)

    # -- asking

    async def _ask_model(self) -> bool:
        """One answer of the model, however often it has to be asked. True when it called a tool."""
        state = self._tail.state
        if self._compaction_asked:
            await self._keep_to_budget()
            await self._compact()
        elif (used := tokens_if_short(state, self._setup.limits, self._prefix)) is not None:
            await self._keep_to_budget()
            await self._room().before_request(state, used)
        attempt = 0
        was_full = False
        while True:
            await self._keep_to_budget()
            self.record(RequestSent(tuple(state.waiting), self._new_context()))
            sent = len(state.items)
            try:
                await self._read_answer()
                return self._called_since(sent)  # calls of a broken attempt were part of what this one was sent
            except (StreamLost, ModelUnavailable) as error:
                attempt += 1
                await self.pause_before_retry(error, attempt)
            except ContextFull:
                if was_full or not await self._room().when_full(state):
                    raise
                was_full = True
            except OutOfTime:
                pass  # the budget is looked at before the request is put again
            for retelling in (self._text, self._reasoning, self._raw_reasoning):
                retelling.begin_again()

    async def pause_before_retry(self, error: StreamLost | ModelUnavailable, attempt: int) -> None:
        """Raises the error once it was tried often enough."""
        if attempt > self._setup.stream_retries:
            raise error
        lost = isinstance(error, StreamLost)
        delay = error.retry_after if lost and error.retry_after is not None else backoff(attempt)
        retry = f"retrying {attempt}/{self._setup.stream_retries} in {format_delay(delay)}…"
        self.record(Noticed(f"stream error: {error if lost else error.brief}; {retry}"))
        await asyncio.sleep(delay)

    def _new_context(self) -> tuple[Message, ...]:
        """What the model is told of its place, unless it has been told just that."""
        preamble = self._setup.preamble
        return () if preamble == self._tail.state.history.context else preamble

    def _room(self) -> "MakingRoom":
        if self._making_room is None:
            from understudy.engine.making_room import MakingRoom  # most turns have room

            self._making_room = MakingRoom(self, self._setup, self._prefix, self._tail.conversation_id)
        return self._making_room

    def _called_since(self, length: int) -> bool:
        return FunctionCallOutput in map(type, self._tail.state.items[length:])

    async def _read_answer(self) -> None:
        state = self._tail.state
        history = state.history
        items = (*history.prefix, *history.items)
        work = state.ledger.work(self.turn_id)
        schema = None if work is None else work.schema
        setup, asked = self._setup, history.requests - 1
        prompt = Prompt(setup.instructions, items, setup.offered, self._tail.conversation_id, asked, output_schema=schema)
        async with self._setup.model.stream(prompt) as answer:
            while events := await self.listen(answer):
                for start in range(0, len(events), AT_ONCE):
                    if start:
                        await asyncio.sleep(0)  # thousands may come at once; a ping is answered between them
                    for event in events[start : start + AT_ONCE]:
                        if type(event) is TextDelta:  # nearly all of them: no coroutine for each
                            self._hear_text(event)
                        elif await self._hear(event):
                            return
        raise StreamLost("stream disconnected before completion: stream closed before response.completed")

    async def listen(self, answer: ModelAnswer) -> list[ModelEvent]:
        self.listens = True
        left = None if self._keeper is None else self._keeper.seconds_left()
        try:
            return await (answer.batch() if left is None else _within(left, answer))
        finally:
            self.listens = False
            if self.closed:
                raise asyncio.CancelledError  # whatever has come since was not listened to any more

    async def _hear(self, event: ModelEvent) -> bool:
        """True when the answer is complete."""
        match event:
            case TextDelta():
                self._hear_text(event)
            case ReasoningDelta(text=text, raw=raw):
                self._hear_reasoning(text, raw)
            case ItemDone(item=item):
                await self._take(item)
            case Counted(usage=usage):
                self.count(usage)
            case Completed(usage=usage):
                self._withdraw_unfinished()
                if usage is None and self._keeper is not None:
                    self._keeper.note_uncounted()
                if usage is not None:
                    self.count(usage)
                return True
        return False

    def count(self, usage: Usage) -> None:
        before = self._tail.state.usage
        self.record(TokensCounted(usage, usage if before is None else before.plus(usage), self._setup.cost_of(usage)))

    def _hear_text(self, delta: TextDelta) -> None:
        more = self._text.hear(delta.text)
        if more:
            self._tail.emit(delta if more is delta.text else TextDelta(more), self.turn_id)
        elif self._text.strayed_now:
            self.record(ANEW)

    def _hear_reasoning(self, text: str, raw: bool) -> None:
        if raw and not self._setup.show_raw_reasoning:
            return
        more = (self._raw_reasoning if raw else self._reasoning).hear(text)
        if more:
            self.emit(ReasoningDelta(more, raw))

    async def _take(self, item: Message | Reasoning | FunctionCall) -> None:
        match item:
            case FunctionCall():
                call, _ = encode(item)  # as the log will have it: its id names the question, the command and the answer
                self.record(ItemReceived(call))
                await self._run_call(call)
            case Message():
                if self._text.falls_short:
                    self.record(ANEW)
                self.record(ItemReceived(item))
                self._text.finish()
            case Reasoning():
                self.record(ItemReceived(item, self._setup.show_raw_reasoning))
                self._reasoning.finish()
                self._raw_reasoning.finish()

    def _withdraw_unfinished(self) -> None:
        """A complete answer that lacks what was shown of it before: a retry left it out."""
        if self._text.told or self._reasoning.told or self._raw_reasoning.told:
            self.record(Noticed("the model took back what it had begun to say", withdraws=True))
        for retelling in (self._text, self._reasoning, self._raw_reasoning):
            retelling.finish()

    # -- tools

    async def _run_call(self, call: FunctionCall) -> None:
        tool = self._setup.find_tool(call.name)
        try:
            if tool is None:
                output = ToolOutput(f"unsupported call: {call.name}", success=False)
            else:
                output = await tool.run(call, ToolContext(self, call))
        except ToolError as error:
            output = ToolOutput(str(error), success=False)
        except AgentError as error:  # the act could not be contained or recorded: the model is told, unless the log itself is gone
            if self._tail.failure:
                raise
            output = ToolOutput(f"execution error: {error}", success=False)
        self.record(ToolAnswered(FunctionCallOutput(call.call_id, output.text, output.images), output.success))

    # -- what the acts of tools need of their turn (`ToolHost`)

    @property
    def diff(self) -> "TurnDiff":
        if self._diff is None:
            from understudy.tools.patch.turn_diff import TurnDiff  # only turns with patches have one

            self._diff = TurnDiff()
        return self._diff

    def record(self, *records: Record) -> None:
        self._tail.append(*records, turn=self.turn_id)

    async def committed(self) -> None:
        await self._tail.committed()

    def emit(self, delta: Delta) -> None:
        self._tail.emit(delta, self.turn_id)

    async def ask(self, question: Question) -> Answer:
        answer = await self._approvals.ask(question, self.turn_id)
        if answer.decision == "abort":
            raise TurnAborted
        return answer

    def open_question(self, call_id: str) -> Question | None:
        return self._tail.state.questions.get(call_id)

    def is_approved(self, key: Callable[[], str]) -> bool:
        approved = self._tail.state.approved
        return bool(approved) and key() in approved


async def _within(seconds: float, answer: ModelAnswer) -> list[ModelEvent]:
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await answer.batch()
    except TimeoutError:
        if not limit.expired():  # the network's own, which the budget must not hide: that is asked again without a bound
            raise
        raise OutOfTime("the time that the budget allows has run out") from None
