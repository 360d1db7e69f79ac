"""Who speaks to the engine, what they may do, and what they may choose.

`run`: send, interrupt, cancel, archive and delete. `approve`: answer questions. `read`: see a conversation at all. `budget`: exceed
the configured budget, by asking for more or by answering whether more may be used; anyone may ask for less.
"""

from typing import Literal

import msgspec

from understudy.protocol.choices import Period, PersonLimit, SandboxMode

Right = Literal["run", "approve", "read", "budget"]

ALL_RIGHTS: frozenset[Right] = frozenset({"run", "approve", "read", "budget"})
LOCAL_NAME = "local"


class PersonBudget(msgspec.Struct, frozen=True):
    """What a person may use in a day, a week (from Monday) or a month, by the calendar of UTC."""

    limit: PersonLimit
    amount: float
    period: Period

    def __str__(self) -> str:
        amount = int(self.amount) if self.amount == int(self.amount) else self.amount
        return f"{self.limit}={amount}/{self.period}"


class Limits(msgspec.Struct, frozen=True):
    """What a caller may choose for a conversation: folders, sandboxes, and settings that harm nobody. `engine/caller_limits.py`
    enforces it.
    """

    roots: tuple[str, ...] | None  # folders in which the caller's agents may work; None: anywhere
    modes: frozenset[SandboxMode]  # allowed sandbox modes
    budgets: tuple[PersonBudget, ...] = ()
    open_door: bool = False  # no token is needed: everything may be chosen except what would let a command reach the door


class Caller(msgspec.Struct, frozen=True):
    """A name that records keep, and rights. `rights` hold for the caller's own conversations, `others` for everybody else's."""

    name: str
    rights: frozenset[Right] = ALL_RIGHTS
    others: frozenset[Right] = frozenset()
    door: str = ""  # the door through which they connect; decisions record it
    limits: Limits | None = None  # None: everything may be chosen, as at a terminal

    def may(self, right: Right, owner: str) -> bool:
        """Whether the caller has this right on a conversation of that owner."""
        return right in (self.rights if owner == self.name else self.others)

    def rights_on(self, owner: str) -> frozenset[Right]:
        """All rights of the caller on a conversation of that owner."""
        return self.rights if owner == self.name else self.others


LOCAL = Caller(LOCAL_NAME, ALL_RIGHTS, ALL_RIGHTS, "terminal")  # the user of this machine: stdio and the terminal


def by_door(caller: Caller, door: str) -> Caller:
    return msgspec.structs.replace(caller, door=door)
