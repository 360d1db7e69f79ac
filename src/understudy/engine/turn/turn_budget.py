"""Checks before each request what a turn may use. `budgets` says what a limit means; few turns need it."""

import asyncio
from typing import TYPE_CHECKING

from understudy.engine.log.fold import State
from understudy.engine.setup.turn_setup import TurnSetup
from understudy.errors import OutOfTime
from understudy.models.model import Answer, ModelEvent
from understudy.protocol.records import Budget, BudgetAsked

if TYPE_CHECKING:
    from understudy.engine.turn.budgets import Asks, BudgetKeeper

NO_LIMITS = Budget()
UNTIL_CALL = "until-"  # begins the ids of the user's commands that say whether a turn is done


class TurnBudget:
    def __init__(self) -> None:
        self._keeper: BudgetKeeper | None = None  # None: no limit is known

    def keeper(self, turn: "Asks", setup: TurnSetup, state: State) -> "BudgetKeeper | None":
        """The keeper to ask before each request; None if nothing is limited."""
        if self._keeper is None and _is_limited(turn.turn_id, setup, state):
            from understudy.engine.turn.budgets import BudgetKeeper

            self._keeper = BudgetKeeper(turn, state.ledger, setup.config, setup.cost_of)
        return self._keeper

    def seconds_left(self) -> float | None:
        """How long the model may keep answering; None: without limit."""
        return None if self._keeper is None else self._keeper.seconds_left()

    def note_uncounted(self) -> None:
        """The provider gave an answer without its token count."""
        if self._keeper is not None:
            self._keeper.note_uncounted()


def _is_limited(turn_id: str, setup: TurnSetup, state: State) -> bool:
    work = state.ledger.turns.get(turn_id)
    config = setup.config
    return config.budget != NO_LIMITS or config.call_budget != NO_LIMITS or (work is not None and bool(work.allowances))


def open_budget_question(state: State) -> BudgetAsked | None:
    return next((each for each in state.questions.values() if isinstance(each, BudgetAsked)), None)


async def listen_within(seconds: float, answer: Answer) -> list[ModelEvent]:
    """Raises `OutOfTime`."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await answer.batch()
    except TimeoutError:
        if not limit.expired():  # a network timeout, which the budget must not hide: that request is repeated without a limit
            raise
        raise OutOfTime("the time that the budget allows has run out") from None
