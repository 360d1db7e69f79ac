"""When a budget is reached, what is asked then, and what an answer changes: by the log alone."""

import time
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.config.model import Config
from understudy.engine.log.ledger import Ledger
from understudy.engine.turn.budgets import BudgetKeeper
from understudy.errors import BudgetReached
from understudy.policy.question_text import amount, budget_question
from understudy.protocol.choices import ApprovalPolicy, Decision
from understudy.protocol.items import InputText, Message, Usage
from understudy.protocol.records import (
    ApprovalDecided,
    Budget,
    BudgetAsked,
    CommandApprovalAsked,
    Entry,
    Record,
    RequestSent,
    Terms,
    TokensCounted,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from understudy.tools.host import ApprovalAnswer

NONE = Budget()


class Limits:
    """Of the configuration, only what a keeper reads."""

    def __init__(self, budget: Budget, call_budget: Budget) -> None:
        self.budget, self.call_budget, self.model = budget, call_budget, "m"


class Turn:
    """A log with one turn under way, and a person who answers every question the same way."""

    def __init__(self, budget: Budget = NONE, call: Budget = NONE, *, own: Budget | None = None) -> None:
        self.turn_id = "1"
        self.approval_policy: ApprovalPolicy = "on-request"
        self.ledger = Ledger()
        self.decision: Decision = "approved"
        self.asked: list[BudgetAsked] = []
        self.now = time.time()
        self._seq = 0
        config = cast(Config, Limits(budget, call))
        self.keeper = BudgetKeeper(self, self.ledger, config, lambda usage: usage.total_tokens / 100)
        self.begin("1", own)

    def begin(self, turn: str, own: Budget | None = None) -> None:
        self.turn_id = turn
        terms = None if own is None else Terms(budget=own)
        self.add(UserMessage(f"m{turn}", Message("user", (InputText("go"),)), terms=terms), TurnStarted(turn))

    def add(self, *records: Record, after: float = 0.0) -> None:
        self.now += after
        for record in records:
            self._seq += 1
            if (count := Ledger.APPLIED_BY.get(type(record))) is not None:
                count(self.ledger, Entry(self._seq, self._seq - 1, self.turn_id, self.now, record), record)

    def answered(self, tokens: int) -> None:
        usage = Usage(tokens, 0, tokens)
        self.add(RequestSent(()), TokensCounted(usage, usage, tokens / 100))

    def record(self, *records: Record) -> None:
        self.add(*records)

    def open_budget_question(self) -> BudgetAsked | None:
        return None

    async def ask(self, question: BudgetAsked) -> ApprovalAnswer:
        self.asked.append(question)
        self.add(question)
        self.add(ApprovalDecided(question.call_id, self.decision, "client"), after=100.0)
        return ApprovalAnswer(self.decision, "client")


async def test_below_the_limit_nothing_is_asked() -> None:
    turn = Turn(Budget(tokens=100, requests=3, cost_usd=5.0), Budget(tokens=90))
    turn.answered(89)
    await turn.keeper.before_request()
    assert turn.asked == []


@pytest.mark.parametrize("limit", ["tokens", "cost_usd", "requests"])
async def test_a_limit_that_is_reached_is_raised_by_its_own_amount(limit: str) -> None:
    turn = Turn(Budget(**{limit: 2}))
    turn.answered(200)
    turn.answered(0)
    await turn.keeper.before_request()
    [asked] = turn.asked
    assert (asked.limit, asked.allowed, asked.message_id) == (limit, 2.0, None)
    assert asked.raised_to == (202.0 if limit == "tokens" else 4.0)
    await turn.keeper.before_request()
    assert len(turn.asked) == 1


async def test_a_refusal_ends_it() -> None:
    turn = Turn(Budget(requests=1))
    turn.answered(1)
    turn.decision = "denied"
    with pytest.raises(BudgetReached, match="1 of 1 requests, and it was not raised"):
        await turn.keeper.before_request()
    assert turn.ledger.raised == {}


async def test_under_never_nobody_is_asked() -> None:
    turn = Turn(Budget(requests=1))
    turn.answered(1)
    turn.approval_policy = "never"
    with pytest.raises(BudgetReached, match="policy `never`"):
        await turn.keeper.before_request()
    assert turn.asked == []


async def test_a_call_of_its_own_budget_wins_over_the_configured_one_name_by_name() -> None:
    turn = Turn(NONE, Budget(tokens=10, requests=1), own=Budget(tokens=1000))
    turn.answered(50)
    await turn.keeper.before_request()
    assert [asked.limit for asked in turn.asked] == ["requests"]


async def test_what_was_raised_for_a_call_ends_with_it_and_for_a_conversation_stays() -> None:
    turn = Turn(Budget(tokens=10), Budget(requests=1))
    turn.answered(10)
    await turn.keeper.before_request()
    assert turn.ledger.raised == {(None, "tokens"): 20.0, ("", "requests"): 2.0}
    turn.add(TurnEnded("completed", "done"))
    assert turn.ledger.raised == {(None, "tokens"): 20.0}
    turn.begin("2")
    await turn.keeper.before_request()
    assert len(turn.asked) == 2


async def test_seconds_count_while_it_works_and_not_while_a_person_is_asked() -> None:
    turn = Turn(Budget(seconds=10_000))
    turn.now = time.time()
    left = turn.keeper.seconds_left()
    assert left is not None
    assert 9_000 < left <= 10_000
    turn.add(CommandApprovalAsked("c", ("ls",), "/w"), after=4_000.0)
    assert turn.keeper.seconds_left() == pytest.approx(6_000, abs=60)
    turn.add(ApprovalDecided("c", "approved", "client"), after=50_000.0)
    turn.add(TurnEnded("completed", "done"), after=1_000.0)
    assert turn.ledger.total.seconds == pytest.approx(5_000, abs=60)


async def test_a_raised_limit_of_seconds_leaves_time() -> None:
    turn = Turn(Budget(seconds=10))
    turn.add(CommandApprovalAsked("c", ("ls",), "/w"), after=25.0)
    assert turn.keeper.seconds_left() == 0.0
    await turn.keeper.before_request()
    [asked] = turn.asked
    assert asked.raised_to == 30.0
    assert turn.keeper.seconds_left() == pytest.approx(5, abs=1)


@given(st.integers(1, 10**9), st.integers(0, 10**10))
async def test_a_raise_always_leaves_something(limit: int, used: int) -> None:
    turn = Turn(Budget(tokens=limit))
    turn.answered(used)
    await turn.keeper.before_request()
    assert len(turn.asked) == (used >= limit)
    for asked in turn.asked:
        assert asked.raised_to > used
        assert asked.raised_to % limit == 0


def test_people_are_told_what_a_yes_and_a_no_mean() -> None:
    asked = BudgetAsked("b", "cost_usd", 0.5, 0.25, 0.75, "m")
    assert budget_question(asked) == (
        "Go on? The budget of this call is used up: $0.5000 of $0.2500. If approved, the limit is raised to $0.7500; "
        "if denied, the turn stops here."
    )
    assert [amount("seconds", 0.5), amount("seconds", 90), amount("tokens", 12_345), amount("cost_usd", 1234.5)] == [
        "0.5 seconds",
        "90 seconds",
        "12,345 tokens",
        "$1,234.50",
    ]


@pytest.mark.parametrize(
    ("allowed", "left", "is_reached"), [(6, 0.001, True), (6, 1.0, False), (0.2, 0.001, True), (0.2, 0.15, False)]
)
async def test_no_request_is_put_for_a_moment_that_is_left(allowed: float, left: float, is_reached: bool) -> None:
    """A timer of the event loop may end an answer a moment before the time is over by the clock of the log."""
    turn = Turn(call=Budget(seconds=allowed))
    turn.answered(1)
    question = CommandApprovalAsked("c", ("ls",), "/w")
    turn.add(question, after=allowed - left)  # from here on a person is waited for, which does not count
    await turn.keeper.before_request()
    assert bool(turn.asked) == is_reached
