"""What clients and misfortunes do in a simulated world, and when: drawn from a seed; data, that can be kept and shrunk."""

from __future__ import annotations

from random import Random
from typing import Literal

import msgspec

OPS = {  # what clients do, and how often
    "call": 30,
    "send": 12,
    "own_turn": 8,
    "stream": 14,
    "leave": 6,
    "interrupt": 8,
    "cancel": 6,
    "decide": 14,
    "compact": 4,
    "rename": 4,
    "undo": 2,
    "archive": 2,
    "delete": 2,
    "fork": 3,
    "list": 2,
}
HARMS = {"crash": 10, "stand_still": 8, "close": 3, "lose": 6, "clock": 4}


class Step(msgspec.Struct, frozen=True):
    at: float  # seconds from the beginning
    what: str
    slot: int = 0  # the process: which of those that run at a time
    conversation: int = 0  # one after the other, as they are first used
    drawn: float = 0.0  # for whatever else has to be chosen


class Plan(msgspec.Struct, frozen=True):
    seed: int
    slots: int
    steps: tuple[Step, ...]
    reads: float = 0.0
    fails: float = 0.0
    slow_commits: float = 0.0
    calls: float = 0.4
    breaks: float = 0.1
    stalls: float = 0.05
    asks: float = 0.6
    answers: Literal["some", "all", "none"] = "some"  # questions, by those who watch


def draw_plan(seed: int) -> Plan:
    random = Random(f"plan {seed}")
    slots = random.choice((1, 2, 2, 2, 3))
    conversations = random.choice((1, 1, 1, 2))
    steps: list[Step] = [Step(0.0, "call", random.randrange(slots))]
    at = 0.0
    for _ in range(random.randint(3, 14)):
        if random.random() < 0.65:
            at += random.random() ** 3 * 4.0  # else in one breath with the one before
        harmful = random.random() < 0.2
        table = HARMS if harmful else OPS
        what = random.choices(tuple(table), tuple(table.values()))[0]
        steps.append(Step(round(at, 4), what, random.randrange(slots), random.randrange(conversations), round(random.random(), 4)))
    return Plan(
        seed,
        slots,
        tuple(steps),
        reads=random.choice((0.0, 0.0, 0.01, 0.3)),
        fails=random.choice((0.0, 0.0, 0.0, 0.03)),
        slow_commits=random.choice((0.0, 0.0, 0.1, 0.4)),
        calls=random.choice((0.0, 0.4, 0.6)),
        breaks=random.choice((0.0, 0.1, 0.4)),
        stalls=random.choice((0.0, 0.0, 0.1)),
        asks=random.choice((0.3, 0.7)),
        answers=random.choice(("some", "some", "all", "none")),
    )
