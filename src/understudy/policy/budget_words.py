"""What a person is told of a budget that is used up. All of it is ours: nothing of the model's stands in it."""

from understudy.protocol.choices import BudgetLimit
from understudy.protocol.records import BudgetAsked


def budget_question(asked: BudgetAsked) -> str:
    """On one line, with what a yes and a no mean."""
    return (
        f"Go on? {budget_state(asked).capitalize()}. If approved, the limit is raised to {amount(asked.limit, asked.raised_to)}; "
        "if denied, the turn stops here."
    )


def budget_state(asked: BudgetAsked) -> str:
    """`the budget of this conversation is used up: 1,050 of 1,000 tokens`."""
    whose = "this conversation" if asked.message_id is None else "this call"
    used, allowed = amount(asked.limit, asked.used), amount(asked.limit, asked.allowed)
    return f"the budget of {whose} is used up: {used.split()[0]} of {allowed}"


def amount(limit: BudgetLimit, value: float) -> str:
    match limit:
        case "cost_usd":
            return f"${value:,.2f}" if value >= 1 else f"${value:,.4f}"
        case "seconds":
            return f"{value:,.0f} seconds" if value >= 10 else f"{value:.1f} seconds"
        case "tokens" | "requests":
            return f"{value:,.0f} {limit}"
