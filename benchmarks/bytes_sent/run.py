"""Every task by every agent, and the table of what each sent."""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bytes_sent.agents import Contender
from benchmarks.bytes_sent.tasks import FILES, TASKS, Task
from benchmarks.client import BenchError
from benchmarks.run import scratch_folder
from understudy.testing import Entry, ReceivedRequest, ScriptedModel, say, status

USAGE = (1000, 10)  # far from any limit, so that nobody sums up


@dataclass(frozen=True)
class Sent:
    requests: int
    total: int  # bytes of the bodies
    first: int  # the first request with tools
    aside: int  # bytes of requests without tools: titles and the like


class _Playing:
    """Answers by the steps of a task; a request without tools is one that the agent makes for itself."""

    def __init__(self, task: Task, contender: Contender) -> None:
        self._answers: list[Entry] = []
        for turn in task.turns:
            self._answers += [contender.spell(command, f"call_{at}") for at, command in enumerate(turn.commands)]
            self._answers.append(say(turn.answer, usage=USAGE))
        self._given = 0

    def answer(self, request: ReceivedRequest) -> Entry:
        if request.body is None:
            return status(404, "there is nothing here")
        if not request.body.get("tools"):
            return say("A title", usage=USAGE)
        if self._given == len(self._answers):
            return status(400, "the script has no more answers")
        self._given += 1
        return self._answers[self._given - 1]


def run_bytes(contenders: Sequence[Contender], path: Path) -> int:
    results: dict[str, dict[str, Sent]] = {}
    failures: list[str] = []
    for task in TASKS:
        for contender in contenders:
            name = f"{contender.name} ({contender.wire})"
            try:
                results.setdefault(task.name, {})[name] = asyncio.run(_measure(task, contender))
            except (BenchError, AssertionError) as error:
                failures.append(f"{name}, {error}")
                print(f"{name}: {error}", file=sys.stderr)
    path.parent.mkdir(parents=True, exist_ok=True)
    plain: dict[str, Any] = {task: {name: vars(sent) for name, sent in row.items()} for task, row in results.items()}
    path.write_text(json.dumps({"at": time.strftime("%Y-%m-%d"), "bytes": plain, "failures": failures}, indent=1))
    print(*table([f"{one.name} ({one.wire})" for one in contenders], results), sep="\n")
    print(f"\nsamples: {path}")
    return 1 if failures else 0


async def _measure(task: Task, contender: Contender) -> Sent:
    playing = _Playing(task, contender)
    model = ScriptedModel(playing.answer)
    with scratch_folder() as folder:
        (folder / "work").mkdir()
        for name, text in FILES.items():
            (folder / "work" / name).write_text(text)
        async with model.serving():
            await contender.talk(task, model, folder)
    sizes = [(int(one.headers.get("content-length", "0")), bool(one.body.get("tools"))) for one in model.received if one.body]
    main = [size for size, with_tools in sizes if with_tools]
    if len(main) != task.requests:
        raise BenchError(f"{task.name}: {len(main)} requests instead of {task.requests}")
    total = sum(size for size, _ in sizes)
    return Sent(len(sizes), total, main[0], total - sum(main))


def table(names: Sequence[str], results: dict[str, dict[str, Sent]]) -> list[str]:
    """In KB of 1,000 bytes; the number of requests behind it where it is not one per answer."""
    rows = [["task", *names], ["---"] * (len(names) + 1)]
    rows += [[task, *(_cell(row.get(name)) for name in names)] for task, row in results.items()]
    first = results.get(TASKS[0].name, {})
    rows.append(["the first request alone", *(f"{first[name].first / 1000:,.1f}" if name in first else "-" for name in names)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(names) + 1)]
    return ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows]


def _cell(sent: Sent | None) -> str:
    if sent is None:
        return "failed"
    aside = f", {sent.aside / 1000:,.1f} of it aside" if sent.aside else ""
    return f"{sent.total / 1000:,.1f}{aside}"
