"""Plays a script: the real server as a child process, the scripted model over HTTP, and the hidden tests on what is left.

A script says what the model must be told; what it was told otherwise, and what the report says that is not so, are problems.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tests.agent_suite.scripts import Script, Step, answer_of
from understudy.bench.judging import copy_work, lay_out
from understudy.bench.tasks import Task
from understudy.testing import Call, Entry, McpProcess, Question, ReceivedRequest, ScriptedModel, ServerDied, status
from understudy.testing.script import Wire
from understudy.testing.waiting import WAIT_SECONDS

WIRES: tuple[Wire, ...] = ("chat", "responses", "anthropic")
LONGEST = 6 * WAIT_SECONDS
CONTAINED = {"approval_policy": "never", "sandbox_mode": "workspace-write", "understudy.events": "codex/event"}


@dataclass
class Played:
    script: Script
    solved: bool = False  # by the hidden tests
    claimed: bool = False  # the report says that the last test run passed
    problems: list[str] = field(default_factory=list[str])
    requests: int = 0
    bytes_sent: int = 0

    @property
    def right(self) -> bool:
        """The solver and the repair solve it, the boaster does not, and nothing that was said or reported is otherwise."""
        return not self.problems and self.solved == (self.script.variant != "boasts") and not (self.claimed and not self.solved)


async def play(script: Script, folder: Path) -> Played:
    played = Played(script)
    work = folder / "work"
    lay_out(work, script.task.files)
    before = _digests(work)
    player = _Player(script, played)
    model = ScriptedModel(player.answer, wait_seconds=LONGEST)
    async with model.serving():
        try:
            result = await _Stage(script, folder, work, model, player).perform()
        except (AssertionError, ServerDied) as error:
            played.problems.append(str(error)[-2000:])
        else:
            played.problems += _faults(script, result)
            report = result.get("structuredContent", {}).get("report", {})
            played.problems += _disagreements(report, work, before)
            runs = [run["passed"] for run in report.get("tests", ()) if "passed" in run]
            played.claimed = bool(runs) and runs[-1]
    if player.left:
        played.problems.append(f"{player.left} steps of the script were never asked for")
    played.requests = len(model.received)
    played.bytes_sent = sum(int(request.headers.get("content-length", "0")) for request in model.received)
    played.solved = await asyncio.to_thread(_judge, script.task, work, folder / "judged")
    return played


class _Player:
    """Answers each request by the next step, and looks at what the request holds."""

    def __init__(self, script: Script, played: Played) -> None:
        self._steps = [step for step in script.steps if step.user is None]
        self._played = played
        self._next = 0
        self._seen = 0
        self.reached: dict[int, asyncio.Event] = {id(step): asyncio.Event() for step in self._steps}

    @property
    def left(self) -> int:
        return len(self._steps) - self._next

    def answer(self, request: ReceivedRequest) -> Entry:
        items = cast(list[Any], request.body.get("messages") or request.body.get("input") or [])
        new = _text([item for item in (items[self._seen :] if len(items) > self._seen else items) if not _is_models(item)])
        self._seen = len(items)
        if self._next >= len(self._steps):
            self._played.problems.append(f"the model was asked once more than its script has answers; new: {new[-300:]}")
            return status(400, "no more answers")
        step = self._steps[self._next]
        self._next += 1
        self._look(step, new, _text(request.body))
        self.reached[id(step)].set()
        return answer_of(step, self._next)

    def _look(self, step: Step, new: str, everything: str) -> None:
        for wishes, text, wanted in (
            (step.sees, new, True),
            (step.sees_not, new, False),
            (step.knows, everything, True),
            (step.knows_not, everything, False),
        ):
            for wish in [wishes] if isinstance(wishes, str) else wishes:
                if wish and (wish in text) != wanted:
                    said = "was not told" if wanted else "was told"
                    self._played.problems.append(f"before step {self._next} the model {said} {wish!r}; new: {new[-600:]}")


class _Stage:
    """One conversation, in as many servers as the script kills."""

    def __init__(self, script: Script, folder: Path, work: Path, model: ScriptedModel, player: _Player) -> None:
        self._script = script
        self._folder = folder
        self._work = work
        self._model = model
        self._player = player
        self._decisions = iter(script.decide)

    async def perform(self) -> dict[str, Any]:
        """The result of the last call."""
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(self._server())
            turn = server.codex(self._script.task.prompt, {"cwd": str(self._work), **self._script.arguments})
            thread: str | None = None
            for step in self._script.steps:
                if step.user is None and step.interrupt is None and step.kill is None:
                    continue
                thread = thread or str((await server.event("session_configured", turn))["session_id"])
                if step.kill is not None:
                    await self._reached(step, turn)
                    await server.kill()
                    server = await stack.enter_async_context(self._server())
                elif step.interrupt is not None:
                    await self._reached(step, turn)
                    await server.cancel(turn)
                    await turn
                else:
                    await turn
                turn = server.reply(thread, str(step.user or step.interrupt or step.kill))
            return await turn

    def _server(self) -> McpProcess:
        home = self._folder / "user" / ".codex"
        home.mkdir(parents=True, exist_ok=True)
        number = int(hashlib.sha256(self._script.task.name.encode()).hexdigest(), 16)
        wire = WIRES[(number + ("solves", "repairs", "boasts").index(self._script.variant)) % 3]
        places = {"{work}": str(self._work), "{python}": sys.executable, "{outside}": str(self._folder)}
        config = cast(dict[str, Any], _filled({**CONTAINED, **self._script.config}, places))
        decide = self._decide if self._script.decide else None
        return McpProcess(self._model, cwd=self._work, home=home, wire=wire, config=config, decide=decide, wait_seconds=LONGEST)

    def _decide(self, question: Question) -> Any:
        return next(self._decisions, "denied")

    async def _reached(self, step: Step, turn: Call) -> None:
        async with asyncio.timeout(LONGEST):
            await self._player.reached[id(step)].wait()


def _filled(value: Any, places: dict[str, str]) -> Any:
    match value:
        case str():
            return re.sub("|".join(map(re.escape, places)), lambda found: places[found[0]], value)
        case dict():
            return {key: _filled(inner, places) for key, inner in cast(dict[str, Any], value).items()}
        case list():
            return [_filled(inner, places) for inner in cast(list[Any], value)]
        case _:
            return value


def _faults(script: Script, result: dict[str, Any]) -> Iterator[str]:
    text = str(result["content"][0]["text"]) if result.get("content") else ""
    if result.get("isError"):
        yield f"the last turn failed: {text[:500]}"
    if script.answer and script.answer not in text:
        yield f"the answer was {text[:300]!r}, without {script.answer!r}"


def _disagreements(report: dict[str, Any], work: Path, before: dict[str, str]) -> Iterator[str]:
    """The report of the last turn beside the files as they are."""
    after = _digests(work)
    for file in report.get("files", ()):
        name = os.path.relpath(os.path.join(work, file["path"]), work)
        there = name in after
        if (file["change"] == "deleted") == there:
            yield f"the report says that {name} was {file['change']}, and it {'is' if there else 'is not'} there"
        if file["change"] == "updated" and before.get(name) == after.get(name) and file["added"] != file["removed"]:
            yield f"the report says that {name} was changed, and it is as it was"
    for run in report.get("tests", ()):
        if run.get("passed") and run.get("exit_code") != 0:
            yield f"the report calls a test run passed that ended with {run.get('exit_code')}"


def _digests(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for base, _, names in os.walk(folder):
        for name in names:
            path = Path(base, name)
            if path.is_file() and not path.is_symlink():
                found[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def _judge(task: Task, work: Path, copy: Path) -> bool:
    """As `bench-agent` does, but without a sandbox: all that runs here is our own."""
    copy_work(work, copy)
    lay_out(copy, task.hidden)
    env = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    done = subprocess.run(
        task.check, cwd=copy, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=task.check_seconds, check=False
    )
    return done.returncode == 0


def _is_models(item: dict[str, Any]) -> bool:
    """What the model itself said is no news to it."""
    return item.get("role") == "assistant" or item.get("type") in ("function_call", "custom_tool_call", "reasoning")


def _text(value: Any) -> str:
    """All strings in a piece of JSON, a line each; JSON within them is left as it is."""
    return "\n".join(_strings(value))


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for inner in cast(dict[str, Any], value).values():
                yield from _strings(inner)
        case list():
            for inner in cast(list[Any], value):
                yield from _strings(inner)
        case _:
            yield json.dumps(value)


async def play_all(scripts: Sequence[Script], folder: Path, *, at_once: int) -> list[Played]:
    """In the order of `scripts`."""
    free = asyncio.Semaphore(at_once)

    async def one(number: int, script: Script) -> Played:
        async with free:
            place = folder / f"{number}"
            place.mkdir()
            return await play(script, place)

    return await asyncio.gather(*(one(number, script) for number, script in enumerate(scripts)))
