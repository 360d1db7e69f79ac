"""What the runs say: solved, tokens, cost and time of each agent, and the first beside each other one, task by task."""

from collections.abc import Iterable, Sequence
from statistics import mean, median
from typing import Any

import msgspec

from understudy.bench.intervals import Interval, paired_difference, ratio_of_sums, sign_test, wilson
from understudy.bench.results import TaskRun


class AgentFigures(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    agent: str
    tasks: int  # that were judged
    runs: int
    solved_runs: int
    solved: float  # the mean over tasks of the share of runs that solved it, times tasks
    share: float
    interval: tuple[float, float]  # of the share, 95 %, Wilson
    tokens: int | None = None  # where every run told
    cost_usd: float | None = None
    seconds: float = 0.0
    median_seconds: float = 0.0
    timeouts: int = 0
    failed: int = 0
    unjudged: int = 0


class Comparison(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first agent beside another, on the tasks that both were judged on."""

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
    """Repetition by repetition: the first try of one beside the first try of the other."""
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
    """None where a single one is not known: a sum of the rest would look like less."""
    return None if not values or None in values else round(sum(values), 6)
