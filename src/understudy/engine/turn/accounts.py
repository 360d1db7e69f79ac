"""What people with a token of their own have used in a day, a week or a month, and whether they may use more.

The store counts for all processes. It is asked only after this process's own use has been counted, so that many concurrent turns of
one person exceed a limit by no more than the answers they are waiting for.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

from understudy.errors import BudgetReached, BudgetSpent
from understudy.policy.question_text import amount
from understudy.protocol.callers import PersonBudget
from understudy.protocol.choices import BUDGET_LIMITS, Period
from understudy.protocol.items import Usage
from understudy.protocol.records import Budget
from understudy.store.log import Spent, Store

NO_PRICE = "a budget of `cost_usd` cannot be kept with this model, because it has no price; ask whoever runs the server to set one"


class Account:
    """The account of one person, with their present budgets."""

    def __init__(self, name: str, budgets: tuple[PersonBudget, ...], accounts: "Accounts") -> None:
        self._name = name
        self._budgets = budgets
        self._accounts = accounts

    async def admit(self, wanted: Budget | None) -> None:
        """Check that a message may be sent. Raises `BudgetSpent`, also if it asks for more than is left."""
        for budget in self._budgets:
            left = budget.amount - await self._accounts.used(self._name, budget)
            if left <= 0:
                raise BudgetSpent(self._words(budget))
            asked = getattr(wanted, budget.limit) if wanted is not None and budget.limit in BUDGET_LIMITS else None
            if asked is not None and asked > left:
                raise BudgetSpent(
                    f"a budget of {amount(budget.limit, asked)} is more than is left: {amount(budget.limit, left)} of "
                    f"{amount(budget.limit, budget.amount)} this {budget.period}. Ask for that or less, or leave it out"
                )

    async def check(self, cost_of: Callable[[Usage], float | None]) -> None:
        """Called before each request to the model. Raises `BudgetReached`."""
        for budget in self._budgets:
            if budget.limit == "cost_usd" and cost_of(Usage(0, 0, 0)) is None:
                raise BudgetReached(NO_PRICE)
            if await self._accounts.used(self._name, budget) >= budget.amount:
                raise BudgetReached(self._words(budget))

    def count(self, usage: Usage, cost: float | None) -> None:
        """Count one answer of the model."""
        self._accounts.count(self._name, Spent(usage.total_tokens, cost or 0.0, 1))

    def _words(self, budget: PersonBudget) -> str:
        again = next_begin(budget.period, self._accounts.today())
        return (
            f"the budget of {self._name} is used up: {amount(budget.limit, budget.amount)} a {budget.period}. It begins anew on "
            f"{again.isoformat()} (UTC); whoever runs the server can raise it. What was begun is kept"
        )


class Accounts:
    def __init__(
        self,
        store: Callable[[], Store],
        budgets_of: Callable[[str], tuple[PersonBudget, ...]],
        today: Callable[[], date] = lambda: datetime.now(UTC).date(),
    ) -> None:
        self._store = store
        self._budgets_of = budgets_of
        self.today = today
        self._on_its_way: dict[str, set[asyncio.Future[None]]] = {}  # writes on their way to the store

    def find(self, name: str) -> Account | None:
        """None for a person without a budget."""
        budgets = self._budgets_of(name)
        return Account(name, budgets, self) if budgets else None

    async def used(self, name: str, budget: PersonBudget) -> float:
        if waiting := self._on_its_way.get(name):
            await asyncio.wait(waiting)
        since = begin(budget.period, self.today())
        return float(getattr(await self._store().spent(name, since.isoformat()), budget.limit))

    def count(self, name: str, spent: Spent) -> None:
        counted = asyncio.get_running_loop().create_future()
        waiting = self._on_its_way.setdefault(name, set())
        waiting.add(counted)

        def settled(_error: BaseException | None) -> None:
            waiting.discard(counted)
            if not counted.done():
                counted.set_result(None)

        self._store().spend(name, self.today().isoformat(), spent, settled)


def begin(period: Period, today: date) -> date:
    match period:
        case "day":
            return today
        case "week":
            return today - timedelta(days=today.weekday())
        case "month":
            return today.replace(day=1)


def next_begin(period: Period, today: date) -> date:
    match period:
        case "day":
            return today + timedelta(days=1)
        case "week":
            return begin("week", today) + timedelta(days=7)
        case "month":
            return (today.replace(day=1) + timedelta(days=32)).replace(day=1)
