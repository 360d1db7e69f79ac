"""What a decision is made of."""

from typing import Literal

import msgspec

from understudy.protocol.choices import NetworkMode

Action = Literal["allow", "ask", "deny"]


class Verdict(msgspec.Struct, frozen=True):
    """Whether to ask, whether to run, and whether to contain: three answers, none of which implies another.

    For `ask`, `contained` says how it runs once a person has agreed: an explicit approval lifts the containment of that one
    call. For a patch, contained means: held to the writable roots.
    """

    action: Action
    contained: bool
    reason: str  # for the person or the model that is told of it
    rule: str  # the name of the rule that said so
    justification: str | None = None  # the model's own words, to be shown as such
    network: NetworkMode | None = None  # what a rule lets the command reach inside the sandbox; None: what is configured
    network_rule: str | None = None  # the name of that rule
