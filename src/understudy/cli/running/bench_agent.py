"""`understudy bench-agent`: how much of a folder of tasks our agent solves, alone or beside others. The work is in `bench/`.

What `bench-agent` prints: a line as each run ends, and the figures at the end.
"""

import asyncio
import fnmatch
import json
import os
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from understudy.bench.attempts import Agent
from understudy.bench.command_agent import read_command
from understudy.bench.judging import TaskJudge
from understudy.bench.our_agent import OurAgent
from understudy.bench.results import Results, TaskRun, continue_results, make_setup
from understudy.bench.running import ASIDE, run_all
from understudy.bench.summary import AgentFigures, BenchSummary, Comparison, summarise
from understudy.bench.tasks import SHIPPED, Task, load_tasks
from understudy.cli.conversations.output_file import is_stdout, new_file, refuse_unless_writable
from understudy.cli.ending import ending_tidily
from understudy.cli.parsing import wrong_usage
from understudy.cli.settings import read_config, read_overrides
from understudy.errors import BadRequest
from understudy.protocol.records import Overrides
from understudy.text import strip_terminal_escapes

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
    """The most frequent reason of failed runs: otherwise a wrong key looks like a bad agent."""
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


def run(options: Namespace) -> int:
    folder = Path(options.tasks).absolute() if options.tasks else SHIPPED
    tasks = _choose(load_tasks(folder), options.only)
    if options.list:
        print(*task_lines(tasks), sep="\n")
        return 0
    keep = _folder_to_keep(options, folder)
    with ending_tidily(), tempfile.TemporaryDirectory(prefix="understudy-bench-", ignore_cleanup_errors=True) as made:
        scratch = Path(made)
        agents = _agents(options, [folder, scratch / ASIDE, *([keep] if keep else [])])
        return _bench(options, tasks, agents, scratch, keep)


def _bench(options: Namespace, tasks: list[Task], agents: list[Agent], scratch: Path, keep: Path | None) -> int:
    judge = TaskJudge(_sandbox_flags(options), cwd=Path.cwd(), env=os.environ)
    file = None if options.json is None or is_stdout(options.json) else Path(options.json).absolute()
    setup = make_setup(tasks, {agent.name: agent.describe() for agent in agents})
    if file is not None:
        refuse_unless_writable(file, may_replace=True)
    results = continue_results(file, setup) if file is not None else Results(setup=setup, runs=[])
    asyncio.run(_run(options, tasks, agents, judge, results, file, scratch, keep))
    return _tell(options, tasks, agents, results)


async def _run(
    options: Namespace,
    tasks: list[Task],
    agents: list[Agent],
    judge: TaskJudge,
    results: Results,
    file: Path | None,
    scratch: Path,
    keep: Path | None,
) -> None:
    names = [agent.name for agent in agents]
    done = frozenset(run.key for run in results.runs)
    total = len(agents) * len(tasks) * options.repetitions
    wanted = {(agent, task.name, number) for agent in names for task in tasks for number in range(1, options.repetitions + 1)}
    count = len(done & wanted)
    if count:
        _say(f"{count} of {total} runs are in {file} already")
    if count < total:
        await judge.make_sure(scratch)

    def on_run(run: TaskRun) -> None:
        nonlocal count
        count += 1
        results.runs.append(run)
        if file is not None:
            _save(file, names, results)
        _say(run_line(run, count, total))

    await run_all(
        agents,
        tasks,
        judge,
        repetitions=options.repetitions,
        jobs=options.jobs,
        done=done,
        scratch=scratch,
        keep=keep,
        on_run=on_run,
    )
    if file is not None:
        _save(file, names, results)


def _tell(options: Namespace, tasks: Sequence[Task], agents: Sequence[Agent], results: Results) -> int:
    """Only the results of this call: a file may contain more tasks and repetitions."""
    chosen = {task.name for task in tasks}
    runs = [run for run in results.runs if run.task in chosen and run.repetition <= options.repetitions]
    names = [agent.name for agent in agents]
    lines = summary_lines(summarise(names, runs), runs)
    if options.json is not None and is_stdout(options.json):
        print(json.dumps(_as_json(names, Results(setup=results.setup, runs=runs)), indent=1))
        print(*lines, sep="\n", file=sys.stderr)
    else:
        print(*lines, sep="\n")
    return 1 if any(run.unjudged is not None for run in runs) else 0


def _as_json(names: Sequence[str], results: Results) -> dict[str, object]:
    summary = msgspec.to_builtins(summarise(names, results.runs))
    return {"setup": msgspec.to_builtins(results.setup), "summary": summary, "runs": msgspec.to_builtins(results.runs)}


def _save(file: Path, names: Sequence[str], results: Results) -> None:
    with new_file(file, may_replace=True) as part:
        part.write_bytes(json.dumps(_as_json(names, results), indent=1).encode() + b"\n")


def _choose(tasks: list[Task], patterns: Sequence[str]) -> list[Task]:
    for pattern in patterns:
        if not any(_fits(task, pattern) for task in tasks):
            raise BadRequest(f"no task is called {pattern!r}, and none has it as a tag; `--list` lists them")
    return [task for task in tasks if not patterns or any(_fits(task, pattern) for pattern in patterns)]


def _fits(task: Task, pattern: str) -> bool:
    return fnmatch.fnmatchcase(task.name, pattern) or pattern in task.tags


def _agents(options: Namespace, unreadable: Sequence[Path]) -> list[Agent]:
    """Ours first; the others are compared with it."""
    agents: list[Agent] = []
    if not options.without_ours:
        agents.append(
            OurAgent(options.model, _sandbox_flags(options), _fixed_flags(options, unreadable), cwd=Path.cwd(), env=os.environ)
        )
    agents += [read_command(text, options.model, os.environ) for text in options.agent]
    if not agents:
        wrong_usage("`--without-ours` leaves nobody: name another agent with `--agent COMMAND`")
    names = [agent.name for agent in agents]
    if twice := [name for name in names if names.count(name) > 1]:
        raise BadRequest(f"two agents are called {twice[0]}: give one another name with `--agent NAME=COMMAND`")
    return agents


def _fixed_flags(options: Namespace, unreadable: Sequence[Path]) -> list[str]:
    """Ask nobody, store nothing, and keep the agent from reading the hidden tests."""
    config = read_config(options, Overrides(model=options.model))
    given = {key for key, _ in read_overrides(options)}
    masked = list(dict.fromkeys(str(path) for path in (*config.sandbox.mask, *unreadable)))
    flags = [f"understudy.sandbox.mask={json.dumps(masked)}", 'history.persistence="none"']
    if "approval_policy" not in given:
        flags.append('approval_policy="never"')
    return flags


def _sandbox_flags(options: Namespace) -> list[str]:
    given = {key for key, _ in read_overrides(options)}
    return [*options.overrides, *([] if "sandbox_mode" in given else ['sandbox_mode="workspace-write"'])]


def _folder_to_keep(options: Namespace, folder: Path) -> Path | None:
    if options.keep is None:
        return None
    keep = Path(options.keep).absolute()
    if keep.exists() and not keep.is_dir():
        raise BadRequest(f"cannot keep folders in {keep}: it is not a folder")
    if keep.resolve().is_relative_to(folder.resolve()):
        raise BadRequest(f"{keep} is within the folder of the tasks, which no agent can read; name another place")
    return keep


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
