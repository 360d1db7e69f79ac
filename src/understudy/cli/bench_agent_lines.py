"""What `bench-agent` prints: a line as each run ends, and the figures at the end."""

from collections.abc import Iterable, Sequence

from understudy.bench.results import TaskRun
from understudy.bench.summary import AgentFigures, BenchSummary, Comparison
from understudy.bench.tasks import Task
from understudy.policy.visible import strip_terminal_escapes

LONGEST_REASON = 160


def task_lines(tasks: Sequence[Task]) -> list[str]:
    width = max(len(task.name) for task in tasks)
    return [f"{task.name:{width}}  {', '.join(task.tags)}".rstrip() for task in tasks]


def run_line(run: TaskRun, count: int, total: int) -> str:
    parts = [f"{count}/{total}", run.agent, run.task, _outcome(run), f"{run.seconds:.1f} s"]
    if run.tokens is not None:
        parts.append(f"{run.tokens:,} tokens")
    why = run.unjudged or run.reason
    return "  ".join(parts) + (f"  ({_short(why)})" if why else "")


def summary_lines(summary: BenchSummary, runs: Sequence[TaskRun]) -> list[str]:
    rows = [("agent", "solved", "share", "95 % interval", "tokens", "cost", "time", "median"), *map(_row, summary.agents)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += [line for comparison in summary.comparisons for line in _comparison(comparison)]
    lines += [line for figures in summary.agents for line in _remarks(figures, runs)]
    return [*lines, summary.methods]


def _row(figures: AgentFigures) -> tuple[str, ...]:
    solved = f"{figures.solved_runs} of {figures.runs}"
    low, high = figures.interval
    return (
        figures.agent,
        solved if figures.runs == figures.tasks else f"{solved} runs, {figures.tasks} tasks",
        f"{figures.share:.0%}",
        f"{low:.0%} to {high:.0%}",
        "-" if figures.tokens is None else f"{figures.tokens:,}",
        "-" if figures.cost_usd is None else f"${figures.cost_usd:.4f}",
        f"{figures.seconds:.1f} s",
        f"{figures.median_seconds:.1f} s",
    )


def _comparison(one: Comparison) -> list[str]:
    low, high = one.interval
    lines = [
        f"{one.first} against {one.second}, {one.tasks} tasks in pairs: {_points(one.difference)}, 95 % from {_points(low)} to "
        f"{_points(high)}; ahead in {one.only_first}, behind in {one.only_second} (p = {one.p_value:.3g})"
    ]
    for name, found in (("tokens", one.tokens_ratio), ("cost", one.cost_ratio), ("time", one.seconds_ratio)):
        if found is None:
            continue
        within = found.get("interval")
        lines.append(f"  {name}: {found['ratio']:.2f} x" + (f", 95 % from {within[0]:.2f} to {within[1]:.2f}" if within else ""))
    return lines


def _points(share: float) -> str:
    return f"{100 * share:+.1f} points"


def _remarks(figures: AgentFigures, runs: Iterable[TaskRun]) -> list[str]:
    """Why runs failed that failed, the most frequent reason: a wrong key looks like a bad agent otherwise."""
    found: list[str] = []
    if figures.timeouts:
        found.append(f"{figures.agent}: {figures.timeouts} ran out of time")
    reasons = [_short(run.reason) for run in runs if run.agent == figures.agent and run.reason]
    if reasons:
        found.append(f"{figures.agent}: {len(reasons)} failed, mostly: {max(reasons, key=reasons.count)}")
    unjudged = [_short(run.unjudged) for run in runs if run.agent == figures.agent and run.unjudged]
    if unjudged:
        found.append(f"{figures.agent}: {len(unjudged)} could not be judged and do not count: {unjudged[0]}")
    return found


def _outcome(run: TaskRun) -> str:
    if run.unjudged is not None:
        return "not judged"
    if run.solved:
        return "solved"
    return {"completed": "not solved", "failed": "failed", "timeout": "out of time"}[run.ending]


def _short(text: str) -> str:
    line = " ".join(strip_terminal_escapes(text).split())
    return line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 1] + "…"
