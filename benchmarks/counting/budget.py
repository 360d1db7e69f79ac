"""`benchmarks/budget.json`: the most that each scenario may cost, `{scenario: {count: {limit, exact}}}`.

An `exact` count is the same in every run, and its limit is what it was. The others vary, so their limit is wider than what was
counted, by no more than they need: see `ALLOWANCES`.
"""

import fnmatch
import json
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

FILE = Path(__file__).resolve().parents[1] / "budget.json"
PYTHON = (3, 11)  # another version of the interpreter calls otherwise
CALLS = 1.03

Found = Mapping[str, Mapping[str, float]]


class Limit(TypedDict):
    limit: float
    exact: bool


Budget = dict[str, dict[str, Limit]]


@dataclass(frozen=True)
class Allowance:
    scenario: str  # shell patterns
    count: str
    factor: float  # 1: exact
    more: float = 0.0


# The first that fits counts. The reason for each that is wider than 3 %:
ALLOWANCES = (
    # How many records share a commit, and so how often a thread is woken, depends on who comes first.
    Allowance("crowd_reply", "*_calls", 1.12),
    Allowance("crowd_reply", "sys*", 1.5, 3),
    # A flood is read in as many pieces as the kernel hands out, and shown in as many.
    Allowance("output_*", "*_calls", 1.6),
    Allowance("output_*", "frames", 1.3),
    Allowance("output_*", "bytes", 1.15),
    Allowance("output_*", "sys.write", 1.6),  # the command's own too
    Allowance("output_*", "timers_a_mb", 1, 1.5),
    Allowance("output_*", "timer_ms_a_mb", 1, 20),
    # Deltas come in as many reads as the model is ahead of us; commands print into several, and end in several orders.
    Allowance("deltas_2000", "*_calls", 1.06),
    Allowance("shell", "*_calls", 1.08),
    Allowance("exec_command", "*_calls", 1.08),
    Allowance("read_file", "*_calls", 1.05),
    Allowance("patch", "*_calls", 1.06),
    Allowance("cancel", "*_calls", 1.06),
    # Threads are woken and the disk is waited for as often as the scheduler lets them overtake each other.
    Allowance("deltas_2000", "sys.futex", 3, 12),  # the thread that writes beside the one that reads: 35 to 80 were seen
    Allowance("*", "sys.futex", 1.6, 6),
    Allowance("*", "sys.fdatasync", 1.25, 1),
    Allowance("*", "syscalls", 1.25, 60),
    Allowance("*", "sys.execve", 1),
    # The cell for a later command is made in the background, sooner or later: once in any scenario, it may be found in this one.
    Allowance("*", "sys.mount", 1, 6),
    Allowance("*", "sys.landlock_add_rule", 1.05, 50),
    Allowance("*", "sys.openat", 1.15, 60),
    Allowance("*", "sys.*", 1.15, 2),
    # Times, ids and durations have more or fewer digits.
    Allowance("*", "bytes", 1.02, 250),
    Allowance("*", "bytes_to_model", 1.01, 40),
    Allowance("*", "frames", 1),
    Allowance("*", "modules*", 1),
    # Under valgrind everything takes fifty times as long, but for what is held back for a commit: more or fewer commits are made.
    Allowance("reply", "instructions_k", 1.08),
    Allowance("new_session", "instructions_k", 1.08),
    Allowance("*", "*", CALLS),
)


_WITH_COMMANDS = ("start", "shell", "exec_command", "output_10mb_shell", "output_10mb_exec_command")


def allowance(scenario: str, count: str) -> Allowance:
    return next(each for each in ALLOWANCES if fnmatch.fnmatch(scenario, each.scenario) and fnmatch.fnmatch(count, each.count))


def load(file: Path = FILE) -> Budget:
    return json.loads(file.read_text())


def dump(budget: Budget) -> str:
    """One line for each limit, so that a change of one is a change of one line."""
    scenarios: list[str] = []
    for scenario, counts in budget.items():
        lines = ",\n".join(f"    {json.dumps(count)}: {json.dumps(limit)}" for count, limit in counts.items())
        scenarios.append(f"  {json.dumps(scenario)}: {{\n{lines}\n  }}")
    return "{\n" + ",\n".join(scenarios) + "\n}\n"


def limit_of(scenario: str, count: str, value: float) -> Limit:
    allowed = allowance(scenario, count)
    exact = allowed.factor == 1 and not allowed.more
    wide = value * allowed.factor + allowed.more
    return {"limit": value if exact else math.ceil(wide) if wide >= 20 else round(wide, 1), "exact": exact}


def from_found(found: Found) -> Budget:
    return {
        scenario: {count: limit_of(scenario, count, value) for count, value in counts.items()} for scenario, counts in found.items()
    }


@dataclass(frozen=True)
class Finding:
    scenario: str
    count: str
    limit: float
    value: float
    exact: bool = False

    @property
    def over(self) -> bool:
        return self.value > self.limit

    @property
    def may_be_chance(self) -> bool:
        """A busy machine adds to what varies, and never takes away: the least of several runs is what it has to cost."""
        return not self.exact

    def __str__(self) -> str:
        more = f" ({self.value / self.limit - 1:+.0%})" if self.limit else ""
        return f"{self.scenario}.{self.count}: {self.value:g}, limit {self.limit:g}{more}"


def compare(budget: Budget, found: Found) -> tuple[list[Finding], list[Finding]]:
    """What is over its limit, and what has become so much less that its limit should follow."""
    over: list[Finding] = []
    lower: list[Finding] = []
    for finding in _findings(budget, found):
        if finding.over:
            over.append(finding)
        elif limit_of(finding.scenario, finding.count, finding.value)["limit"] < 0.9 * finding.limit - 2:
            lower.append(finding)
    return over, lower


def _findings(budget: Budget, found: Found) -> Iterable[Finding]:
    for scenario, limits in budget.items():
        for count, limit in limits.items():
            if count in found.get(scenario, {}):
                yield Finding(scenario, count, limit["limit"], found[scenario][count], limit["exact"])


def least_of(one: Found, other: Found) -> Found:
    """Of each scenario counted in both, the least of each count."""
    return {
        scenario: {count: min(value, other.get(scenario, {}).get(count, value)) for count, value in counts.items()}
        for scenario, counts in one.items()
    }


def merged(before: Budget, counted: Budget, *, lower: "Sequence[str] | None") -> Budget:
    """The limits with those that were counted anew. `lower`: only these go down and none goes up, whatever else moved by chance."""
    after: Budget = {scenario: dict(limits) for scenario, limits in before.items()}
    for scenario, limits in counted.items():
        known = after.setdefault(scenario, {})
        for count, limit in limits.items():
            meant = lower is None or any(fnmatch.fnmatch(count, pattern) for pattern in lower)
            if meant and (lower is None or limit["limit"] < known.get(count, limit)["limit"]):
                known[count] = limit
    return after


def raised(before: Budget, after: Budget) -> list[str]:
    """The lines, as `SCENARIO.COUNT`, that allow more afterwards: the limit is higher, not exact any more, or gone."""
    lines: list[str] = []
    for scenario, limits in before.items():
        for count, old in limits.items():
            new = after.get(scenario, {}).get(count)
            if new is None or new["limit"] > old["limit"] or (old["exact"] and not new["exact"]):
                lines.append(f"{scenario}.{count}")
    return lines


def holds_here(scenario: str, count: str) -> str | None:
    """Why this count cannot be compared here; None where it can."""
    calls = count.endswith("_calls") or count.startswith(("calls", "modules", "instructions"))
    if calls and sys.version_info[:2] != PYTHON:
        return f"the limits of calls and modules hold for Python {'.'.join(map(str, PYTHON))}"
    if count.startswith("sys") and os.geteuid() != 0 and scenario in _WITH_COMMANDS:
        return "the limits of the system calls of commands hold for root, whose commands are contained by other calls"
    return None
