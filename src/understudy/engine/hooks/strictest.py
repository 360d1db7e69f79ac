"""Chooses the strictest of several answers: a no before a question before anything else; among equals, the first in file order.
Pure.
"""

from collections.abc import Sequence

import msgspec

from understudy.engine.hooks.answers import Decision
from understudy.engine.hooks.of_conversation import Said

MOST_ROUNDS = 8  # rounds in which hooks see each other's changes


class Verdict(msgspec.Struct, frozen=True):
    decision: Decision
    reason: str = ""
    hook: str = ""
    failed: bool = False


def strictest(said: Sequence[Said]) -> Verdict:
    for decision in ("deny", "ask"):
        for each in said:
            if each.answer.decision == decision:
                hook, answer = each.meant.hook, each.answer
                return Verdict(decision, answer.reason or f"{hook.event} hook", hook.name, answer.status == "failed")
    return Verdict("none")
