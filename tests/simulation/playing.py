"""A plan is played and judged; one that fails is made shorter, kept as a file, and played again from there."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.simulation.plan import Plan
from tests.simulation.rules import judge
from tests.simulation.world import World

KEPT = Path(__file__).parent / "seeds"
MOST_TRIES = 300  # to make a plan shorter
PLANS_BETWEEN_COLLECTIONS = 50


class Played(NamedTuple):
    plan: Plan
    found: list[str]  # what did not hold
    history: str


def play(plan: Plan, *, tells: bool = False) -> Played:
    world = World(plan)
    world.run()
    found = judge(world.history.events)
    return Played(plan, found, world.history.tell() if found or tells else "")


def shrink(plan: Plan, fails: Callable[[Plan], bool]) -> Plan:
    """With fewer steps, fewer processes and less trouble, as long as it still fails."""
    tries = 0

    def still_fails(candidate: Plan) -> bool:
        nonlocal tries
        tries += 1
        return tries <= MOST_TRIES and fails(candidate)

    size = max(1, len(plan.steps) // 2)
    while size:
        at = 0
        while at < len(plan.steps):
            shorter = msgspec.structs.replace(plan, steps=plan.steps[:at] + plan.steps[at + size :])
            if shorter.steps and still_fails(shorter):
                plan = shorter
            else:
                at += size
        size //= 2
    for name, value in (("stalls", 0.0), ("breaks", 0.0), ("fails", 0.0), ("slow_commits", 0.0), ("reads", 0.0), ("calls", 0.0)):
        calmer = msgspec.structs.replace(plan, **{name: value})
        if calmer != plan and still_fails(calmer):
            plan = calmer
    return plan


def keep(plan: Plan, name: str) -> Path:
    path = KEPT / f"{name}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n")
    return path


def kept() -> list[Path]:
    return sorted(KEPT.glob("*.json"))


def read(path: Path) -> Plan:
    return msgspec.json.decode(path.read_bytes(), type=Plan)


def _ignore(_: object) -> None:
    pass


@contextmanager
def quickly() -> Generator[None]:
    """What is left of a process that was killed is no news: coroutines that never ran, errors that nobody saw."""
    hook, sys.unraisablehook = sys.unraisablehook, _ignore
    collects = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            yield
            gc.collect()
    finally:
        sys.unraisablehook = hook
        if collects:
            gc.enable()


def play_many(seeds: range, draw: Callable[[int], Plan]) -> Generator[Played]:
    """Those that fail."""
    with quickly():
        for number, seed in enumerate(seeds):
            played = play(draw(seed))
            if number % PLANS_BETWEEN_COLLECTIONS == 0:
                gc.collect()
            if played.found:
                yield played
