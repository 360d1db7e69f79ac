"""`make agent-suite`: every task, played by a model that solves it, one that errs and repairs, and one that errs and boasts."""

from __future__ import annotations

import argparse
import asyncio
import fnmatch
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.agent_suite.playing import Played, play_all
from tests.agent_suite.scripts import load_scripts


def main() -> int:
    parser = argparse.ArgumentParser(prog="make agent-suite", description=__doc__)
    parser.add_argument("only", nargs="*", metavar="TASK", help="these only; may have * and ?")
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 2)
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for each task: requests and bytes sent to the model")
    options = parser.parse_args()
    scripts = [
        one for one in load_scripts() if not options.only or any(fnmatch.fnmatchcase(one.task.name, name) for name in options.only)
    ]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="agent-suite-", ignore_cleanup_errors=True) as folder:
        played = asyncio.run(play_all(scripts, Path(folder), at_once=options.at_once))
    for line in [*(map(_line, played) if options.verbose else ()), *complaints(played), *figures(played)]:
        print(line)
    print(f"{time.monotonic() - began:.0f} s")
    return 0 if all(one.right for one in played) else 1


def figures(played: Sequence[Played]) -> list[str]:
    by_variant = {variant: [one for one in played if one.script.variant == variant] for variant in ("solves", "repairs", "boasts")}
    solver, repair, boast = by_variant.values()
    claimed = sum(one.claimed and not one.solved for one in played)
    return [
        f"tasks: {len(solver)}",
        f"the model that solves the task solved it: {sum(one.solved for one in solver)} of {len(solver)}",
        f"the repair worked after the mistake: {sum(one.solved for one in repair)} of {len(repair)}",
        f"the mistake alone left the task unsolved: {sum(not one.solved for one in boast)} of {len(boast)}",
        f"success reported where hidden tests fail: {claimed} of {sum(not one.solved for one in played)}",
        f"told, reported and done agree: {sum(not one.problems for one in played)} of {len(played)} runs",
        f"sent to the model by the solvers: {sum(one.requests for one in solver)} requests, "
        f"{sum(one.bytes_sent for one in solver) / 1024:,.0f} KiB",
    ]


def complaints(played: Sequence[Played]) -> list[str]:
    found: list[str] = []
    for one in played:
        if not one.right:
            state = ("solved" if one.solved else "not solved") + (", success reported" if one.claimed else "")
            found.append(f"WRONG  {one.script.name} ({one.script.how or 'no mistake'}): {state}")
            found += [f"       {problem}" for problem in one.problems]
    return found


def _line(one: Played) -> str:
    state = "solved" if one.solved else "not solved"
    return f"{one.script.name:45} {state:10} {one.requests:3} requests {one.bytes_sent / 1024:8.1f} KiB"


if __name__ == "__main__":
    sys.exit(main())
