"""`python -m benchmarks.counting`: what is counted, against `benchmarks/budget.json`.

`check` fails where something costs more than its limit; `update` writes the limits anew from what is counted now; `raised` tells
which commits raised a line, with their reasons, and fails where one gave none.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.client import BenchError
from benchmarks.counting import instructions
from benchmarks.counting.budget import FILE, compare, dump, from_found, holds_here, least_of, load, merged, raised
from benchmarks.counting.measure import NAMES, measure
from benchmarks.counting.scenarios import Found, Run
from benchmarks.counting.trailers import raises
from benchmarks.model.process import Model

MOST_RECOUNTS = 4  # of a scenario that is over: what it has to cost is the least of them
SCRATCH = "/var/tmp"  # a name of the same length everywhere: the model is told it


def main() -> int:
    options = _parser().parse_args()
    try:
        return options.act(options)
    except BenchError as error:
        print(f"budget: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.counting", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, act, does in (("check", _check, "compare with the limits"), ("update", _update, "write the limits anew")):
        command = commands.add_parser(name, help=does)
        command.add_argument("--only", action="append", metavar="SCENARIO", choices=NAMES)
        command.add_argument(
            "--instructions", action="store_true", help="count machine instructions instead, by valgrind (minutes)"
        )
        command.add_argument("--source", type=Path, metavar="FOLDER", help="the `src` of another version, run by this environment")
        command.add_argument("--runs", type=int, default=1 if act is _check else 3, metavar="N", help="count N times (%(default)s)")
        command.add_argument("--json", type=Path, metavar="FILE", help="save what was counted")
        if act is _update:
            told = "take limits down, and only those of these counts (a shell pattern)"
            command.add_argument("--lower", action="append", metavar="COUNT", help=told)
        command.set_defaults(act=act)
    told = commands.add_parser("raised", help="which commits raised a line, and why")
    told.set_defaults(act=_raised)
    return parser


def _count(options: argparse.Namespace, runs: int) -> tuple[Found, Found, list[str]]:
    """The least and the most of so many runs, and what was left out."""
    least: dict[str, dict[str, float]] = {}
    most: dict[str, dict[str, float]] = {}
    left_out: list[str] = []
    for _ in range(runs):
        run = _run(options)
        for scenario, counts in run.found.items():
            for count, value in counts.items():
                for kept, better in ((least, min), (most, max)):
                    known = kept.setdefault(scenario, {})
                    known[count] = better(value, known.get(count, value))
        left_out = run.left_out
    if options.json is not None:
        options.json.write_text(json.dumps({"least": least, "most": most}, indent=1))
    return least, most, left_out


def _run(options: argparse.Namespace) -> Run:
    with (
        Model() as model,
        tempfile.TemporaryDirectory(prefix="understudy-budget-", dir=SCRATCH, ignore_cleanup_errors=True) as folder,
    ):
        source = None if options.source is None else options.source.resolve()
        run = Run(Path(folder), model, source, frozenset(options.only or ()))
        if not options.instructions:
            measure(run)
        elif instructions.available():
            instructions.measure_instructions(run)
        else:
            run.left_out.append("instructions: there is no valgrind here")
        return run


def _check(options: argparse.Namespace) -> int:
    began = time.monotonic()
    budget = load()
    found, _, left_out = _count(options, options.runs)
    compared, reasons = _comparable(found)
    over, lower = compare(budget, compared)
    for _ in range(MOST_RECOUNTS):
        again = [each.scenario for each in over if each.may_be_chance]
        if not again:
            break
        print(f"counted again, since the scheduler has a part in it: {', '.join(dict.fromkeys(again))}")
        found, _, _ = _count(argparse.Namespace(**vars(options) | {"only": again, "json": None}), 1)
        compared = least_of(compared, _comparable(found)[0])
        over, lower = compare(budget, compared)
    for finding in over:
        print(f"OVER   {finding}")
    for finding in lower:
        print(f"lower  {finding}: `make budget-update` takes the limit down")
    for reason in dict.fromkeys([*left_out, *reasons]):
        print(f"left out: {reason}")
    number = sum(len(counts) for counts in compared.values())
    print(f"{number} counts in {time.monotonic() - began:.0f} s, {len(over)} over their limits")
    if over:
        print("If that is worth it: `make budget-update`, and a trailer `Budget: SCENARIO.COUNT REASON` in the commit message.")
    return 1 if over else 0


def _comparable(found: Found) -> tuple[Found, list[str]]:
    reasons: list[str] = []
    kept: dict[str, dict[str, float]] = {}
    for scenario, counts in found.items():
        for count, value in counts.items():
            if (reason := holds_here(scenario, count)) is None:
                kept.setdefault(scenario, {})[count] = value
            else:
                reasons.append(reason)
    return kept, reasons


def _update(options: argparse.Namespace) -> int:
    _, most, left_out = _count(options, options.runs)
    compared, reasons = _comparable(most)
    before = load() if FILE.exists() else {}
    after = merged(before, from_found(compared), lower=options.lower)
    FILE.write_text(dump(after))
    for reason in dict.fromkeys([*left_out, *reasons]):
        print(f"left as it was: {reason}")
    lines = raised(before, after)
    print(f"{FILE}: {len(lines)} lines raised")
    for line in lines:
        print(f"Budget: {line} (say why: the commit message needs this line, or one with `*` that covers it)")
    return 0


def _raised(_: argparse.Namespace) -> int:
    found = raises()
    if found is None:
        print("there is no git history here to read")
        return 0
    for each in found:
        print(each)
    unexplained = [each for each in found if not each.reason]
    print(f"{len(found)} lines raised, {len(unexplained)} of them without a trailer `Budget: SCENARIO.COUNT REASON`")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
