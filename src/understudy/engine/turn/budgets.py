"""Budgets: whether a limit is reached before the next request, the question that is asked then, and whether a message may raise a
limit.
"""

import time
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from understudy.config.model import Config
from understudy.engine.log.ledger import BUDGET_CALL, Allowance, Ledger, Tally, Work
from understudy.errors import BudgetReached, ConfigError, LacksRight
from understudy.policy.question_text import amount, budget_state
from understudy.protocol.callers import Caller
from understudy.protocol.choices import BUDGET_LIMITS, ApprovalPolicy, BudgetLimit
from understudy.protocol.items import Usage
from understudy.protocol.records import Budget, BudgetAsked, Noticed, Record
from understudy.tools.host import ApprovalAnswer


def check_budget(caller: Caller, owner: str, wanted: Budget, config: Config) -> None:
    """Anyone may ask for less than is configured. Raises `LacksRight` for more without the right to it."""
    if caller.may("budget", owner) or (above := _first_above(wanted, config)) is None:
        return
    raise LacksRight(
        f"{caller.name} does not have the right `budget`, which a budget above the configured one takes: {above}. "
        "Ask for that or less, or leave it out",
        "budget",
        on_others=owner != caller.name,
    )


def _first_above(wanted: Budget, config: Config) -> str | None:
    """The first limit above the configured one, in words; None if there is none."""
    for limit in BUDGET_LIMITS:
        asked = getattr(wanted, limit)
        for whose, configured in (("a call", config.call_budget), ("a conversation", config.budget)):
            allowed = getattr(configured, limit)
            if asked is not None and allowed is not None and asked > allowed:
                return f"{amount(limit, asked)}, where {whose} may have {amount(limit, allowed)}"
    return None


NOTHING = Usage(0, 0, 0)
LEAST_SECONDS = 0.05
NO_PRICE = (
    "a budget of `cost_usd` needs a price, and there is none for the model `{model}`\n"
    'Give it one under [understudy.prices."{model}"] (`input` and `output`, USD per million tokens), or limit `tokens` instead.'
)
HOW_TO_GO_ON = "Nothing is lost: raise the limit in [understudy.budget] or with the argument `budget`, and continue the session."
UNCOUNTED = (
    "the provider reports no tokens, so that a budget of `tokens` or `cost_usd` cannot be kept\n"
    "Limit `requests` or `seconds` instead."
)


class Asks(Protocol):
    """What a budget needs of its turn."""

    turn_id: str

    @property
    def approval_policy(self) -> ApprovalPolicy: ...

    def open_budget_question(self) -> BudgetAsked | None:
        """A question that was asked before a restart and is still open."""
        ...

    def record(self, *records: Record) -> None: ...

    async def ask(self, question: BudgetAsked) -> ApprovalAnswer: ...


class _Meter(msgspec.Struct, frozen=True):
    """One budget, and how much of it is used."""

    message_id: str | None  # None: the conversation's; empty: of the call that began the turn
    budget: Budget
    used: Callable[[BudgetLimit], float]


class BudgetKeeper:
    """The budgets of one turn."""

    def __init__(self, asks: Asks, ledger: Ledger, config: Config, cost_of: Callable[[Usage], float | None]) -> None:
        self._asks = asks
        self._ledger = ledger
        self._config = config
        self._cost_of = cost_of
        self._uncounted = False  # an answer came without its token count

    async def before_request(self) -> None:
        """Ask for as long as a limit is reached.

        Raises `BudgetReached` if nobody raises the limit, and `ConfigError` if a budget cannot be enforced.
        """
        self._check_that_it_can_be_kept()
        while (question := self._asks.open_budget_question() or self._reached()) is not None:
            if self._asks.approval_policy == "never":
                raise BudgetReached(f"{budget_state(question)}. Nobody is asked under the approval policy `never`. {HOW_TO_GO_ON}")
            answer = await self._asks.ask(question)
            if answer.decision not in ("approved", "approved_for_session"):
                why = "" if answer.source == "client" else f" ({answer.source})"
                raise BudgetReached(f"{budget_state(question)}, and it was not raised{why}. {HOW_TO_GO_ON}")

    def seconds_left(self) -> float | None:
        """How long the model may keep answering; None: without limit."""
        left = [
            self._allowed(meter, "seconds") - meter.used("seconds") for meter in self._meters() if meter.budget.seconds is not None
        ]
        return max(0.0, min(left)) if left else None

    def note_uncounted(self) -> None:
        """The provider gave an answer without its token count."""
        if not self._uncounted and self._counts_tokens():
            self._asks.record(Noticed(UNCOUNTED.splitlines()[0]))
        self._uncounted = True

    def _counts_tokens(self) -> bool:
        return any(meter.budget.tokens is not None or meter.budget.cost_usd is not None for meter in self._meters())

    def _check_that_it_can_be_kept(self) -> None:
        costs = any(meter.budget.cost_usd is not None for meter in self._meters())
        if costs and self._cost_of(NOTHING) is None:
            raise ConfigError(NO_PRICE.format(model=self._config.model))
        if self._uncounted and self._counts_tokens():
            raise BudgetReached(UNCOUNTED)

    def _reached(self) -> BudgetAsked | None:
        for meter in self._meters():
            for limit in BUDGET_LIMITS:
                if getattr(meter.budget, limit) is None:
                    continue
                allowed, used = self._allowed(meter, limit), meter.used(limit)
                if used >= allowed - _too_little(limit, allowed):
                    return self._question(meter, limit, used, allowed)
        return None

    def _question(self, meter: _Meter, limit: BudgetLimit, used: float, allowed: float) -> BudgetAsked:
        step = float(getattr(meter.budget, limit))
        raised_to = allowed + step
        if raised_to <= used:  # one request used more than the whole limit: choose the next multiple that leaves something
            raised_to = allowed + step * (int((used - allowed) // step) + 1)
        call_id = f"{BUDGET_CALL}{self._asks.turn_id}-{limit}-{raised_to:g}"
        return BudgetAsked(call_id, limit, used, allowed, raised_to, meter.message_id)

    def _allowed(self, meter: _Meter, limit: BudgetLimit) -> float:
        return max(float(getattr(meter.budget, limit)), self._ledger.raised.get((meter.message_id, limit), 0.0))

    def _meters(self) -> Iterator[_Meter]:
        total = self._ledger.total
        yield _Meter(None, self._config.budget, lambda limit: _used(total, limit) + self._running(limit))
        work = self._ledger.work(self._asks.turn_id)
        if work is None:
            return
        began, joined = _of_calls(work, self._config.call_budget)
        yield _Meter("", began, lambda limit: _used(work.spent, limit) + self._running(limit))
        for allowance in joined:
            before = allowance.before
            yield _Meter(
                allowance.message_id,
                allowance.budget,
                lambda limit, before=before: _used(total, limit) - _used(before, limit) + self._running(limit),
            )

    def _running(self, limit: BudgetLimit) -> float:
        """Seconds of the running turn that are not yet counted."""
        since = self._ledger.working_since()
        return max(0.0, time.time() - since) if limit == "seconds" and since is not None else 0.0


def _of_calls(work: Work, default: Budget) -> tuple[Budget, list[Allowance]]:
    """The budget of the call that began the turn, and those of the calls that joined it."""
    began = [each for each in work.allowances if each.began]
    own = began[-1].budget if began else Budget()
    merged = {name: getattr(default if getattr(own, name) is None else own, name) for name in BUDGET_LIMITS}
    return Budget(**merged), [each for each in work.allowances if not each.began]


def _too_little(limit: BudgetLimit, allowed: float) -> float:
    """Too little for another request. The timer that cut an answer off may have fired slightly early by this clock."""
    return min(LEAST_SECONDS, allowed / 20) if limit == "seconds" else 0.0


def _used(tally: Tally, limit: BudgetLimit) -> float:
    match limit:
        case "tokens":
            return tally.tokens
        case "cost_usd":
            return tally.known_usd
        case "seconds":
            return tally.seconds
        case "requests":
            return tally.requests
