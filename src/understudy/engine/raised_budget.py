"""Whether a message's own budget allows more than the configuration does, which takes a right."""

from understudy.config.model import Config
from understudy.errors import LacksRight
from understudy.policy.budget_words import amount
from understudy.protocol.callers import Caller
from understudy.protocol.choices import BUDGET_LIMITS
from understudy.protocol.records import Budget


def check_budget(caller: Caller, owner: str, wanted: Budget, config: Config) -> None:
    """Anyone may ask for less than what is configured. Raises `LacksRight` where more is asked for without the right to."""
    if caller.may("budget", owner) or (above := _first_above(wanted, config)) is None:
        return
    raise LacksRight(
        f"{caller.name} does not have the right `budget`, which a budget above the configured one takes: {above}. "
        "Ask for that or less, or leave it out",
        "budget",
        on_others=owner != caller.name,
    )


def _first_above(wanted: Budget, config: Config) -> str | None:
    """The first limit that is higher than a configured one, in words; None where none is."""
    for limit in BUDGET_LIMITS:
        asked = getattr(wanted, limit)
        for whose, configured in (("a call", config.call_budget), ("a conversation", config.budget)):
            allowed = getattr(configured, limit)
            if asked is not None and allowed is not None and asked > allowed:
                return f"{amount(limit, asked)}, where {whose} may have {amount(limit, allowed)}"
    return None
