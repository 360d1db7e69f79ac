"""The runs: every task by every agent, as often as wanted, several at once, each in a new folder."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from understudy.bench.attempts import Agent
from understudy.bench.judging import TaskJudge, TaskVerdict, lay_out
from understudy.bench.results import TaskRun, run_of
from understudy.bench.tasks import Task
from understudy.errors import BadRequest

ASIDE = "aside"  # what is judged, with hidden tests, and logs


async def run_all(
    agents: Sequence[Agent],
    tasks: Sequence[Task],
    judge: TaskJudge,
    *,
    repetitions: int,
    jobs: int,
    done: frozenset[tuple[str, str, int]],
    scratch: Path,
    keep: Path | None,
    on_run: Callable[[TaskRun], None],
) -> None:
    """Run what is not `done` yet, in folders below `scratch`: those of the agents, and one (`ASIDE`) that no agent should read.

    Calls `on_run` as each ends. Agents take turns in going first, so that disturbances of the machine affect all alike.
    """
    due: list[tuple[Agent, Task, int]] = []
    for repetition in range(1, repetitions + 1):
        for number, task in enumerate(tasks):
            turned = (number + repetition) % len(agents)
            order = (*agents[turned:], *agents[:turned])
            due += [(agent, task, repetition) for agent in order if (agent.name, task.name, repetition) not in done]
    waiting = iter(due)

    async def work() -> None:
        for agent, task, repetition in waiting:
            on_run(await _run(agent, task, repetition, judge, scratch, keep))

    async with asyncio.TaskGroup() as workers:
        for _ in range(min(jobs, len(due))):
            workers.create_task(work())


async def _run(agent: Agent, task: Task, repetition: int, judge: TaskJudge, scratch: Path, keep: Path | None) -> TaskRun:
    work = Path(tempfile.mkdtemp(prefix=f"{task.name}-", dir=_made(scratch)))
    aside = Path(tempfile.mkdtemp(prefix=f"{task.name}-", dir=_made(scratch / ASIDE)))
    copy = aside / "judged"
    try:
        lay_out(work, task.files)
        attempt = await agent.attempt(task, work, aside)
        verdict: TaskVerdict | str
        try:
            verdict = await judge.judge(task, work, copy)
        except BadRequest as error:
            verdict = str(error)
        if keep is not None:
            _keep(work, aside, keep / agent.name / f"{task.name}-{repetition}")
        return run_of(agent.name, task, repetition, attempt, verdict)
    finally:
        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(aside, ignore_errors=True)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _keep(work: Path, aside: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(aside, target)
    shutil.move(work, target / "work")
