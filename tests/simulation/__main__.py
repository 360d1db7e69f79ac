"""Plays seeds: `--seeds 2000`, or one with its history: `--seed 17`. Exits 1 where a rule does not hold."""

from __future__ import annotations

import argparse
import os
import random
import sys

from tests.simulation.faults import FAULTS
from tests.simulation.plan import draw_plan
from tests.simulation.playing import keep, kept, play, play_many, quickly, read, shrink


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="how many")
    parser.add_argument("--first", default="0", help="the first of them, or `random`")
    parser.add_argument("--seed", help="only this one, or the name of a kept one, with its history")
    parser.add_argument("--all", action="store_true", help="go on after the first that fails, and only name what fails")
    parser.add_argument("--history", action="store_true", help="with --seed: also of one in which nothing goes wrong")
    parser.add_argument("--keep", metavar="NAME", help="with --seed: write the shrunk plan to tests/simulation/seeds")
    parser.add_argument("--rule", default="", help="with --seed: make it shorter as long as a line with these words stays")
    parser.add_argument("--fault", choices=FAULTS, help="with --seeds: put into the engine; exits 0 once a seed has found it")
    chosen = parser.parse_args()
    if chosen.seed is not None:
        if chosen.history:
            with quickly():
                print(play(draw_plan(int(chosen.seed)), tells=True).history)
            return 0
        return _play_one(chosen.seed, chosen.rule, chosen.keep)
    first = random.randrange(10**9) if chosen.first == "random" else int(chosen.first)
    if chosen.fault is not None:
        return _find_fault(chosen.fault, range(first, first + chosen.seeds))
    failed = 0
    for played in play_many(range(first, first + chosen.seeds), draw_plan):
        failed += 1
        for line in played.found:
            print(f"SEED={played.plan.seed} {line}", flush=True)
        if not chosen.all:
            return _tell(str(played.plan.seed), "", None)
    print(f"{chosen.seeds} seeds from {first}: {failed} failed")
    return 1 if failed else 0


def _find_fault(name: str, seeds: range) -> int:
    FAULTS[name]()
    for played in play_many(seeds, draw_plan):
        print(f"{name} is found by SEED={played.plan.seed}: {played.found[0]}")
        return 0
    print(f"{name} is found by none of {len(seeds)} seeds from {seeds.start}")
    return 1


def _play_one(name: str, rule: str, keep_as: str | None) -> int:
    if not name.isdigit():
        plan = next(read(path) for path in kept() if path.stem == name)
        with quickly():
            played = play(plan)
        print("\n".join([played.history, f"{plan}", *(f"SEED={name} {line}" for line in played.found)]))
        return 1 if played.found else 0
    return _tell(name, rule, keep_as)


def _tell(name: str, rule: str, keep_as: str | None) -> int:
    with quickly():
        whole = play(draw_plan(int(name)))
        if not whole.found:
            print(f"SEED={name}: nothing wrong")
            return 0
        kind = _kind(next(line for line in whole.found if rule in line))
        plan = shrink(whole.plan, lambda plan: any(_kind(line) == kind for line in play(plan).found))
        short = play(plan)
    print(short.history)
    print(f"{plan}")
    for line in short.found:
        print(f"SEED={name} {line}")
    if keep_as is not None:
        print(f"kept as {keep(plan, keep_as)}")
    return 1


def _kind(line: str) -> str:
    """The rule that does not hold, without numbers and names."""
    return " ".join(word for word in line.split(" (at ")[0].split() if word.isalpha())


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of names have one order then
        os.execve(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main())
