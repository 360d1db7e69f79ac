"""Results: one record per run, kept in a file that a later call continues. Reveals nothing about the hidden tests."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from understudy.bench.attempts import Attempt, Ending
from understudy.bench.judging import TaskVerdict
from understudy.bench.tasks import Task
from understudy.errors import BadRequest

FORMAT = 1


class TaskRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    agent: str
    task: str
    repetition: int  # from 1
    solved: bool
    ending: Ending
    seconds: float
    tokens: int | None = None
    usage: dict[str, int] | None = None
    cost_usd: float | None = None
    reason: str | None = None  # why the agent failed
    unjudged: str | None = None  # why its work could not be judged; such a run does not count
    check_exit_code: int | None = None
    check_output: str = ""  # the end of the hidden tests' output
    tests_passed: bool | None = None  # of the last test run, according to our report
    answer: str = ""

    @property
    def key(self) -> tuple[str, str, int]:
        return self.agent, self.task, self.repetition


class BenchSetup(msgspec.Struct, frozen=True, kw_only=True):
    tasks: dict[str, str]  # name and digest
    agents: dict[str, dict[str, Any]]
    format: int = FORMAT


class Results(msgspec.Struct, kw_only=True):
    setup: BenchSetup
    runs: list[TaskRun]


def run_of(agent: str, task: Task, repetition: int, attempt: Attempt, verdict: TaskVerdict | str) -> TaskRun:
    """A verdict that is a text is the reason why there is none."""
    judged = verdict if isinstance(verdict, TaskVerdict) else None
    return TaskRun(
        agent=agent,
        task=task.name,
        repetition=repetition,
        solved=judged is not None and judged.passed and attempt.ending != "timeout",
        ending=attempt.ending,
        seconds=round(attempt.seconds, 3),
        tokens=attempt.tokens,
        usage=attempt.usage,
        cost_usd=attempt.cost_usd,
        reason=attempt.reason,
        unjudged=verdict if isinstance(verdict, str) else None,
        check_exit_code=judged.exit_code if judged else None,
        check_output=judged.output if judged else "",
        tests_passed=attempt.tests_passed,
        answer=attempt.answer,
    )


def make_setup(tasks: Sequence[Task], agents: Mapping[str, Mapping[str, Any]]) -> BenchSetup:
    return BenchSetup(
        tasks={task.name: task.digest for task in tasks}, agents={name: dict(about) for name, about in agents.items()}
    )


def continue_results(path: Path, setup: BenchSetup) -> Results:
    """Earlier results for the same tasks and agents, or empty ones. Raises `BadRequest` if the file belongs to other tasks or
    agents."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Results(setup=setup, runs=[])
    except OSError as error:
        raise BadRequest(f"cannot read {path}: {error.strerror}") from None
    try:
        before = msgspec.json.decode(data, type=Results)
    except msgspec.DecodeError as error:
        raise BadRequest(f"{path} is there and holds no results of `bench-agent` ({error}); name another file") from None
    differs = _difference(before.setup, setup)
    if differs:
        raise BadRequest(f"{path} has results of another run: {differs}. Name another file, or remove it")
    runs = [run for run in before.runs if run.unjudged is None]  # unjudged runs are repeated
    tasks, agents = {**before.setup.tasks, **setup.tasks}, {**before.setup.agents, **setup.agents}
    return Results(setup=BenchSetup(tasks=tasks, agents=agents), runs=runs)


def _difference(before: BenchSetup, now: BenchSetup) -> str | None:
    if before.format != now.format:
        return "its format is another"
    for name, about in now.agents.items():
        if name in before.agents and before.agents[name] != about:
            return f"the agent {name} was {before.agents[name]} and is {about}"
    changed = [name for name, digest in now.tasks.items() if before.tasks.get(name, digest) != digest]
    return f"the task {changed[0]} has changed since" if changed else None
