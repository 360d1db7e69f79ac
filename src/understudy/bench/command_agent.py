"""Another agent in the comparison: a command, started in the folder of the task.

`{prompt}`, `{cwd}` and `{model}` in its words are replaced; without a `{prompt}`, the prompt is its standard input. It runs as our
user and contains itself, or does not.

Also reads the tokens that agents report: JSON lines as `codex exec --json` and `opencode run --format json` print them.
"""

import asyncio
import json
import os
import re
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import msgspec

from understudy.bench.attempts import Attempt, end_group
from understudy.bench.tasks import Task
from understudy.errors import BadRequest
from understudy.sandbox.starting import start_process

LONGEST_LINE = 4 * 2**20


class Used(msgspec.Struct, frozen=True):
    tokens: int | None = None
    usage: dict[str, int] | None = None
    cost_usd: float | None = None


def read_usage(path: Path) -> Used:
    """The sum over all turns; unknown if the program does not report it."""
    counts: dict[str, int] = {}
    cost: float | None = None
    with path.open("rb") as file:
        while line := file.readline(LONGEST_LINE):
            if not line.startswith(b"{") or b"okens" not in line:
                continue
            for name, count in _counts(_object(line)).items():
                counts[name] = counts.get(name, 0) + count
            paid = _number(_part(_object(line)).get("cost"))
            cost = cost if paid is None else (cost or 0.0) + paid
    if not counts:
        return Used(cost_usd=cost)
    return Used(counts.get("input_tokens", 0) + counts.get("output_tokens", 0), counts, cost)


def _counts(event: dict[str, Any]) -> dict[str, int]:
    match event:
        case {"type": "turn.completed", "usage": dict()}:
            return _whole(cast(dict[str, Any], event["usage"]))
        case {"type": "step_finish"} | {"type": "step-finish"}:
            tokens = cast(dict[str, Any], _part(event).get("tokens") or {})
            cache = cast(dict[str, Any], tokens.get("cache") or {})
            read = int(_number(cache.get("read")) or 0) + int(_number(cache.get("write")) or 0)
            return {
                "input_tokens": int(_number(tokens.get("input")) or 0) + read,
                "cached_input_tokens": int(_number(cache.get("read")) or 0),
                "output_tokens": int(_number(tokens.get("output")) or 0) + int(_number(tokens.get("reasoning")) or 0),
            }
        case _:
            return {}


def _part(event: dict[str, Any]) -> dict[str, Any]:
    part = event.get("part", event)
    return cast(dict[str, Any], part) if isinstance(part, dict) else {}


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _whole(usage: dict[str, Any]) -> dict[str, int]:
    return {name: int(count) for name, value in usage.items() if (count := _number(value)) is not None}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


LONGEST_ANSWER = 2000


class CommandAgent:
    def __init__(self, name: str, words: Sequence[str], model: str | None, env: Mapping[str, str]) -> None:
        self.name = name
        self._words = tuple(words)
        self._model = model
        self._env = env

    def describe(self) -> dict[str, Any]:
        return {"command": shlex.join(self._words), "model": self._model}

    async def attempt(self, task: Task, work: Path, aside: Path) -> Attempt:
        values = {"{prompt}": task.prompt, "{cwd}": str(work), "{model}": self._model or ""}
        argv = [_filled(word, values) for word in self._words]
        by_argument = any("{prompt}" in word for word in self._words)
        began = time.monotonic()
        with (aside / "stdout.log").open("wb") as out, (aside / "stderr.log").open("wb") as err:
            process = await start_process(
                *argv,
                cwd=work,
                env={**self._env, "PWD": str(work)},
                stdin=asyncio.subprocess.DEVNULL if by_argument else asyncio.subprocess.PIPE,
                stdout=out,
                stderr=err,
            )
            timed_out = False
            try:
                async with asyncio.timeout(task.seconds):
                    await process.communicate(None if by_argument else task.prompt.encode())
            except TimeoutError:
                timed_out = True
            finally:
                await end_group(process)
        seconds = time.monotonic() - began
        used = read_usage(aside / "stdout.log")
        failed = not timed_out and process.returncode != 0
        return Attempt(
            ending="timeout" if timed_out else "failed" if failed else "completed",
            seconds=seconds,
            reason=f"exit code {process.returncode}: {_tail(aside / 'stderr.log', 500)}" if failed else None,
            tokens=used.tokens,
            usage=used.usage,
            cost_usd=used.cost_usd,
            answer=_tail(aside / "stdout.log", LONGEST_ANSWER),
        )


def read_command(text: str, model: str | None, env: Mapping[str, str]) -> CommandAgent:
    """From `[NAME=]COMMAND`. Raises `BadRequest`."""
    name, named, command = text.partition("=")
    if not named or not name or not all(letter.isalnum() or letter in "-_." for letter in name):
        name, command = "", text
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise BadRequest(f"the agent {text!r} is not a command that a shell would understand: {error}") from None
    if not words:
        raise BadRequest("an agent is a command, and this one is empty")
    program = shutil.which(words[0], path=env.get("PATH", os.defpath))
    if program is None:
        raise BadRequest(f"the agent's program {words[0]!r} is not there, or cannot be started")
    if model is None and any("{model}" in word for word in words):
        raise BadRequest("the agent's command has {model} in it: name one with --model")
    return CommandAgent(name or os.path.basename(words[0]), (os.path.abspath(program), *words[1:]), model, env)


def _filled(word: str, values: Mapping[str, str]) -> str:
    """In one pass, so that `{cwd}` in a prompt stays as it is."""
    return re.sub("|".join(map(re.escape, values)), lambda found: values[found[0]], word)


def _tail(path: Path, length: int) -> str:
    with suppress(OSError), path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4 * length))
        return file.read().decode(errors="replace").strip()[-length:]
    return ""
