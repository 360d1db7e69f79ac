"""Which commit raised a line of the budget, and with which words. A line may be raised only by a commit that says so in a trailer:

    Budget: SCENARIO.COUNT REASON

SCENARIO or COUNT may be `*`. Read from git, where there is a history: a shallow clone has less to tell, and an unpacked source tree
nothing.
"""

import fnmatch
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.counting.budget import Budget, raised
from benchmarks.model.process import REPOSITORY

PATH = "benchmarks/budget.json"
_TRAILER = re.compile(r"^Budget: (\S+) +(\S.*)$", re.MULTILINE)


class Raise(NamedTuple):
    commit: str
    subject: str
    line: str  # SCENARIO.COUNT
    before: float
    after: float | None  # None: there is no limit any more
    reason: str  # empty: the commit gives none

    def __str__(self) -> str:
        after = "no limit" if self.after is None else f"{self.after:g}"
        return f"{self.commit[:9]} {self.line}: {self.before:g} -> {after}: {self.reason or 'NO REASON GIVEN'} ({self.subject})"


def raises(repository: Path = REPOSITORY) -> list[Raise] | None:
    """Every raise that the history here shows, newest first. None where there is no history to look at."""
    if not (repository / ".git").exists() or (commits := _git(repository, "log", "--format=%H", "--", PATH)) is None:
        return None
    return [each for commit in commits.split() for each in _of_commit(repository, commit)]


def uncommitted(repository: Path = REPOSITORY) -> list[str]:
    """The lines that are raised in the working tree, and so by no commit yet."""
    before = _budget_at(repository, "HEAD")
    file = repository / PATH
    if before is None or not file.exists():
        return []
    return raised(before, json.loads(file.read_text()))


def _of_commit(repository: Path, commit: str) -> Iterator[Raise]:
    """Against each parent that is there: a merge takes each line from one of them, unless it changed it itself."""
    after = _budget_at(repository, commit) or {}
    parents = (_git(repository, "rev-list", "--parents", "-n", "1", commit) or commit).split()[1:]
    budgets = [budget for parent in parents if (budget := _budget_at(repository, parent)) is not None]
    if not budgets:
        return
    lines = [line for line in raised(budgets[0], after) if all(line in raised(budget, after) for budget in budgets[1:])]
    if not lines:
        return
    subject, _, message = (_git(repository, "log", "-1", "--format=%s%n%B", commit) or "").partition("\n")
    trailers = _TRAILER.findall(message)
    for line in lines:
        reason = next((why for pattern, why in trailers if fnmatch.fnmatchcase(line, pattern)), "")
        scenario, _, count = line.partition(".")
        limit = after.get(scenario, {}).get(count)
        yield Raise(commit, subject, line, budgets[0][scenario][count]["limit"], limit["limit"] if limit else None, reason)


def _budget_at(repository: Path, commit: str) -> Budget | None:
    text = _git(repository, "show", f"{commit}:{PATH}")
    return None if text is None else json.loads(text)


def _git(repository: Path, *words: str) -> str | None:
    """What it says; None where it fails, or is not there."""
    try:
        done = subprocess.run(["git", "-C", str(repository), *words], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
