"""`python -m benchmarks programs`: an answer and a command, by each agent in a process of its own, in rotating order.

CPU is that of the process and of all that it waited for, memory the largest size of one of them.
"""

import asyncio
import json
import os
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.client import BenchError
from benchmarks.processes import MB
from benchmarks.report import machine
from benchmarks.run import scratch_folder
from benchmarks.whole_tasks.agents import Agent, environment
from benchmarks.whole_tasks.app_servers import AppServer, Served, measure_server, servers_table
from understudy.testing import Entry, ReceivedRequest, ScriptedModel, say, status

SECONDS = 120.0
ANSWER, COMMAND = "Everything is done.", "echo hi"
TASKS = ("one answer", "one command")
USAGE = (1000, 10)


@dataclass(frozen=True)
class Sample:
    cpu: float  # milliseconds
    wall: float
    peak: float  # megabytes
    sent: float  # KB of 1,000 bytes, in all requests


class _Model:
    """Answers with the command where the task is one, then with the answer; a request without tools is the agent's own."""

    def __init__(self, agent: Agent, task: str) -> None:
        self._left: list[Entry] = [agent.spell(COMMAND)] if task == "one command" else []
        self._left.append(say(ANSWER, usage=USAGE))

    def answer(self, request: ReceivedRequest) -> Entry:
        if request.body is None:
            return status(404, "there is nothing here")
        if not request.body.get("tools"):
            return say("A title", usage=USAGE)
        return self._left.pop(0) if self._left else status(400, "the script has no more answers")


def run_programs(agents: Sequence[Agent], servers: Sequence[AppServer], repetitions: int, path: Path) -> int:
    """The first run of each warms its files, and does not count."""
    samples: dict[str, dict[str, list[Sample]]] = {task: {agent.name: [] for agent in agents} for task in TASKS}
    served: dict[str, list[Served]] = {server.name: [] for server in servers}
    failures: list[str] = []
    print(machine())
    with scratch_folder() as folder:
        for repetition in range(repetitions + 1):
            turned = repetition % len(agents)
            for agent in (*agents[turned:], *agents[:turned]):
                for task in TASKS:
                    try:
                        sample = asyncio.run(_measure(agent, task, folder / agent.name.replace(" ", "-")))
                    except BenchError as error:
                        failures.append(f"{agent.name}, {task}: {error}")
                        continue
                    if repetition:
                        samples[task][agent.name].append(sample)
            for server in servers:
                try:
                    found = measure_server(server, folder / server.name.replace(" ", "-"))
                except BenchError as error:
                    failures.append(f"{server.name}: {error}")
                    continue
                if repetition:
                    served[server.name].append(found)
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = {task: {name: [asdict(each) for each in found] for name, found in row.items()} for task, row in samples.items()}
    kept = {name: [asdict(each) for each in found] for name, found in served.items()}
    at = time.strftime("%Y-%m-%d")
    path.write_text(json.dumps({"at": at, "programs": plain, "servers": kept, "failures": failures}, indent=1))
    print(*_table(samples), "", *servers_table(served), sep="\n")
    print(*dict.fromkeys(failures), f"\nsamples: {path}", sep="\n")
    return 1 if failures else 0


async def _measure(agent: Agent, task: str, folder: Path) -> Sample:
    home, work = folder / "home", folder / "work"
    for each in (home, work):
        each.mkdir(parents=True, exist_ok=True)
    model = ScriptedModel(_Model(agent, task).answer)
    async with model.serving():
        start = agent.start(model.url, "Do it.", home)
        ended = await asyncio.to_thread(_run, start.words, environment(start, home), work)
    if ANSWER not in ended.said or ended.code:
        raise BenchError(f"it ended with {ended.code} and said {ended.said[-300:]!r}")
    sent = sum(int(each.headers.get("content-length", "0")) for each in model.received if each.body is not None)
    return Sample(ended.cpu, ended.wall, ended.peak, sent / 1000)


@dataclass(frozen=True)
class _Ended:
    code: int
    said: str
    cpu: float
    wall: float
    peak: float


def _run(words: list[str], env: dict[str, str], work: Path) -> _Ended:
    began = time.perf_counter()
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=work, env=env)
    assert process.stdout is not None
    said = process.stdout.read()
    _, code, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(code)
    process.stdout.close()
    cpu = used.ru_utime + used.ru_stime
    return _Ended(process.returncode, said.decode(errors="replace"), cpu * 1e3, wall * 1e3, used.ru_maxrss * 1024 / MB)


def _table(samples: dict[str, dict[str, list[Sample]]]) -> list[str]:
    """Medians."""
    lines = ["| one process a task | " + " | ".join(f"{task}: CPU, wall ms, peak MB, sent KB" for task in samples) + " |"]
    lines.append("| --- |" + " --- |" * len(samples))
    names = samples[TASKS[0]]
    return [*lines, *(f"| {name} | " + " | ".join(_cell(row[name]) for row in samples.values()) + " |" for name in names)]


def _cell(found: list[Sample]) -> str:
    if not found:
        return "failed"
    columns = zip(*(tuple(asdict(each).values()) for each in found), strict=True)
    cpu, wall, peak, sent = map(statistics.median, columns)
    return f"{cpu:,.0f}, {wall:,.0f}, {peak:,.0f}, {sent:,.1f}"
