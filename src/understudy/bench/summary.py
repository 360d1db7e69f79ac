"""What the runs show: each agent's solved tasks, tokens, cost and time, and the first agent compared with each other one, task by
task.

Intervals for small samples: Wilson's for a share, Newcombe's for the difference of two paired shares, a bootstrap for ratios.

Tasks are the sample. Repetitions of a task are averaged first, so counts may be fractions; that can only make intervals too wide.
"""

import math
import random
from collections.abc import Iterable, Sequence
from statistics import mean, median
from typing import Any, NamedTuple

import msgspec

from understudy.bench.results import TaskRun

Z = 1.959963984540054  # 95 %
RESAMPLES = 10_000
FEWEST_FOR_BOOTSTRAP = 5
SEED = 20_260_101  # so that the same results always give the same interval


class Interval(NamedTuple):
    low: float
    high: float


def wilson(solved: float, tasks: int) -> Interval:
    """For a share of `tasks`, from 0 to 1. Unlike the normal interval, valid for few tasks and for shares near 0 and 1."""
    if tasks == 0:
        return Interval(0.0, 1.0)
    share = solved / tasks
    spread = Z * math.sqrt(share * (1 - share) / tasks + Z * Z / (4 * tasks * tasks))
    centre, scale = share + Z * Z / (2 * tasks), 1 + Z * Z / tasks
    return Interval(max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale))


def paired_difference(both: float, first_only: float, second_only: float, neither: float) -> Interval:
    """Newcombe's interval (1998, method 10) for the first agent's share of solved tasks minus the second's."""
    total = both + first_only + second_only + neither
    tasks = round(total)
    if tasks == 0:
        return Interval(-1.0, 1.0)
    first, second = (both + first_only) / total, (both + second_only) / total
    low1, high1 = wilson(both + first_only, tasks)
    low2, high2 = wilson(both + second_only, tasks)
    correlation = _correlation(both, first_only, second_only, neither)

    def spread(one: float, other: float) -> float:
        return math.sqrt(max(0.0, one * one - 2 * correlation * one * other + other * other))

    difference = first - second
    low, high = difference - spread(first - low1, high2 - second), difference + spread(high1 - first, second - low2)
    return Interval(max(-1.0, low), min(1.0, high))


def _correlation(both: float, first_only: float, second_only: float, neither: float) -> float:
    """Of the two outcomes, with Newcombe's continuity correction, which can only weaken it."""
    product = (both + first_only) * (second_only + neither) * (both + second_only) * (first_only + neither)
    if product <= 0:
        return 0.0
    covariance = both * neither - first_only * second_only
    if covariance > 0:
        covariance = max(0.0, covariance - (both + first_only + second_only + neither) / 2)
    return covariance / math.sqrt(product)


def sign_test(wins: int, losses: int) -> float:
    """The exact chance of a split at least as uneven if both are equally good; with one repetition, this is McNemar's exact
    test."""
    decided = wins + losses
    if decided == 0:
        return 1.0
    tail = sum(math.comb(decided, count) for count in range(min(wins, losses) + 1)) / 2**decided
    return min(1.0, 2 * tail)


def ratio_of_sums(pairs: Sequence[tuple[float, float]]) -> tuple[float, Interval | None] | None:
    """The first sum divided by the second, and its interval by a paired bootstrap over tasks, if there are enough of them."""
    below = sum(second for _, second in pairs)
    if not pairs or below <= 0:
        return None
    ratio = sum(first for first, _ in pairs) / below
    if len(pairs) < FEWEST_FOR_BOOTSTRAP:
        return ratio, None
    chance = random.Random(SEED)
    ratios: list[float] = []
    for _ in range(RESAMPLES):
        drawn = chance.choices(pairs, k=len(pairs))
        under = sum(second for _, second in drawn)
        if under > 0:
            ratios.append(sum(first for first, _ in drawn) / under)
    ratios.sort()
    edge = int(len(ratios) * 0.025)
    return ratio, Interval(ratios[edge], ratios[-1 - edge])


class AgentFigures(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    agent: str
    tasks: int  # that were judged
    runs: int
    solved_runs: int
    solved: float  # the mean over tasks of the share of runs that solved it, times tasks
    share: float
    interval: tuple[float, float]  # of the share, 95 %, Wilson
    tokens: int | None = None  # if every run reported it
    cost_usd: float | None = None
    seconds: float = 0.0
    median_seconds: float = 0.0
    timeouts: int = 0
    failed: int = 0
    unjudged: int = 0


class Comparison(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first agent compared with another, on the tasks for which both were judged."""

    first: str
    second: str
    tasks: int
    difference: float  # of the shares
    interval: tuple[float, float]  # 95 %, Newcombe
    only_first: int  # tasks solved more often by the first
    only_second: int
    p_value: float  # exact McNemar (sign test over tasks)
    seconds_ratio: dict[str, Any] | None = None
    tokens_ratio: dict[str, Any] | None = None
    cost_ratio: dict[str, Any] | None = None


class BenchSummary(msgspec.Struct, frozen=True, kw_only=True):
    agents: list[AgentFigures]
    comparisons: list[Comparison]
    methods: str = (
        "95 % intervals: Wilson's for the share of tasks solved, Newcombe's (1998, method 10) for the paired difference, "
        "the percentiles of a paired bootstrap over tasks for ratios of totals; p by McNemar's exact test. Repetitions of a "
        "task are averaged first."
    )


def summarise(agents: Sequence[str], runs: Iterable[TaskRun]) -> BenchSummary:
    all_runs = list(runs)
    by_agent = {agent: [run for run in all_runs if run.agent == agent] for agent in agents}
    figures = [_figures(agent, mine) for agent, mine in by_agent.items()]
    first, *others = agents
    return BenchSummary(agents=figures, comparisons=[_compare(first, by_agent[first], other, by_agent[other]) for other in others])


def _figures(agent: str, runs: Sequence[TaskRun]) -> AgentFigures:
    judged = [run for run in runs if run.unjudged is None]
    shares = [mean(run.solved for run in mine) for mine in _by_task(judged).values()]
    solved = sum(shares)
    low, high = wilson(solved, len(shares))
    return AgentFigures(
        agent=agent,
        tasks=len(shares),
        runs=len(judged),
        solved_runs=sum(run.solved for run in judged),
        solved=round(solved, 4),
        share=round(solved / len(shares), 4) if shares else 0.0,
        interval=(round(low, 4), round(high, 4)),
        tokens=_total([run.tokens for run in judged]),
        cost_usd=_total([run.cost_usd for run in judged]),
        seconds=round(sum(run.seconds for run in judged), 3),
        median_seconds=round(median(run.seconds for run in judged), 3) if judged else 0.0,
        timeouts=sum(run.ending == "timeout" for run in judged),
        failed=sum(run.ending == "failed" for run in judged),
        unjudged=len(runs) - len(judged),
    )


def _compare(first: str, ours: Sequence[TaskRun], second: str, theirs: Sequence[TaskRun]) -> Comparison:
    """Repetition by repetition: the first attempt of one with the first attempt of the other."""
    pairs = _pairs(ours, theirs)
    both = only_first = only_second = neither = 0.0
    wins = losses = 0
    for tries in pairs.values():
        weight = 1 / len(tries)
        for mine, other in tries:
            both += weight * (mine.solved and other.solved)
            only_first += weight * (mine.solved and not other.solved)
            only_second += weight * (other.solved and not mine.solved)
            neither += weight * (not mine.solved and not other.solved)
        ahead = sum(mine.solved - other.solved for mine, other in tries)
        wins, losses = wins + (ahead > 0), losses + (ahead < 0)
    interval = paired_difference(both, only_first, only_second, neither)
    return Comparison(
        first=first,
        second=second,
        tasks=len(pairs),
        difference=round((only_first - only_second) / len(pairs), 4) if pairs else 0.0,
        interval=(round(interval.low, 4), round(interval.high, 4)),
        only_first=wins,
        only_second=losses,
        p_value=round(sign_test(wins, losses), 4),
        seconds_ratio=_ratio(pairs, "seconds"),
        tokens_ratio=_ratio(pairs, "tokens"),
        cost_ratio=_ratio(pairs, "cost_usd"),
    )


def _pairs(ours: Sequence[TaskRun], theirs: Sequence[TaskRun]) -> dict[str, list[tuple[TaskRun, TaskRun]]]:
    other = {(run.task, run.repetition): run for run in theirs if run.unjudged is None}
    pairs: dict[str, list[tuple[TaskRun, TaskRun]]] = {}
    for run in ours:
        beside = other.get((run.task, run.repetition))
        if run.unjudged is None and beside is not None:
            pairs.setdefault(run.task, []).append((run, beside))
    return pairs


def _ratio(pairs: dict[str, list[tuple[TaskRun, TaskRun]]], name: str) -> dict[str, Any] | None:
    values: list[tuple[float, float]] = []
    for tries in pairs.values():
        mine, other = [getattr(run, name) for run, _ in tries], [getattr(run, name) for _, run in tries]
        if None in mine or None in other:
            return None
        values.append((mean(mine), mean(other)))
    found = ratio_of_sums(values)
    if found is None:
        return None
    ratio, interval = found
    return {"ratio": round(ratio, 4)} | ({} if interval is None else {"interval": _rounded(interval)})


def _rounded(interval: Interval) -> list[float]:
    return [round(interval.low, 4), round(interval.high, 4)]


def _by_task(runs: Iterable[TaskRun]) -> dict[str, list[TaskRun]]:
    found: dict[str, list[TaskRun]] = {}
    for run in runs:
        found.setdefault(run.task, []).append(run)
    return found


def _total(values: Sequence[Any]) -> Any:
    """None if a single value is unknown, because the sum of the others would look too small."""
    return None if not values or None in values else round(sum(values), 6)
