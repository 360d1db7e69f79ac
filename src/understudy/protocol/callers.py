"""Who speaks to the engine, what they may do, and what they may choose.

`run`: send, interrupt, cancel, archive and delete. `approve`: answer questions. `read`: see a conversation at all.
`budget`: raise what is configured, by asking for more or by answering whether more may be used; anyone may ask for less.
"""

from typing import Literal

import msgspec

from understudy.protocol.choices import Period, PersonLimit, SandboxMode

Right = Literal["run", "approve", "read", "budget"]

ALL_RIGHTS: frozenset[Right] = frozenset({"run", "approve", "read", "budget"})
LOCAL_NAME = "local"


class PersonBudget(msgspec.Struct, frozen=True):
    """What somebody may use in a day, a week (from Monday) or a month, by the calendar of UTC."""

    limit: PersonLimit
    amount: float
    period: Period

    def __str__(self) -> str:
        amount = int(self.amount) if self.amount == int(self.amount) else self.amount
        return f"{self.limit}={amount}/{self.period}"


class Limits(msgspec.Struct, frozen=True):
    """What a caller may choose for a conversation: folders, sandboxes, and settings that harm nobody. `engine/caller_limits.py`
    judges by it.
    """

    roots: tuple[str, ...] | None  # folders in which the caller's agents work; None: anywhere
    modes: frozenset[SandboxMode]  # sandboxes that they may have
    budgets: tuple[PersonBudget, ...] = ()
    open_door: bool = False  # no token is asked for: everything may be chosen, but nothing that lets a command come to the door


class Caller(msgspec.Struct, frozen=True):
    """A name that records keep, and rights. `rights` hold for the caller's own conversations, `others` for everybody else's."""

    name: str
    rights: frozenset[Right] = ALL_RIGHTS
    others: frozenset[Right] = frozenset()
    door: str = ""  # by which they come: a decision says from where it was made
    limits: Limits | None = None  # None: everything may be chosen, as at a terminal

    def may(self, right: Right, owner: str) -> bool:
        """Whether the caller has this right on a conversation of that owner."""
        return right in (self.rights if owner == self.name else self.others)

    def rights_on(self, owner: str) -> frozenset[Right]:
        """All that the caller has on a conversation of that owner."""
        return self.rights if owner == self.name else self.others


LOCAL = Caller(LOCAL_NAME, ALL_RIGHTS, ALL_RIGHTS, "terminal")  # the user of this machine: stdio and the terminal


def by_door(caller: Caller, door: str) -> Caller:
    return msgspec.structs.replace(caller, door=door)
