"""The agents that are compared: how each is started on a scripted model, and how it spells a command."""

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bytes_sent.tasks import Task
from benchmarks.client import BenchError
from benchmarks.whole_tasks.agents import MODEL, opencode_environment
from understudy.testing import SERVER_COMMAND, Answer, McpProcess, ScriptedModel, call, text_of, thread_of
from understudy.testing.script import Wire

WAIT_SECONDS = 120.0

Spell = Callable[[str, str], Answer]  # a command and the id of its call


@dataclass(frozen=True)
class Contender:
    """`talk` holds the whole conversation of a task; it raises `BenchError` where the agent does not do its part."""

    name: str
    wire: Wire
    spell: Spell
    talk: Callable[[Task, ScriptedModel, Path], Any]


def ours(wire: Wire) -> Contender:
    def spell(command: str, call_id: str) -> Answer:
        return call("shell", call_id=call_id, command=["bash", "-lc", command])

    return Contender("understudy", wire, spell, _over_mcp(SERVER_COMMAND, wire, {}))


def codex(binary: Path, version: str) -> Contender:
    def spell(command: str, call_id: str) -> Answer:
        return call("exec_command", call_id=call_id, cmd=command)

    more = {"model_providers.bench.supports_websockets": False}
    return Contender(f"codex {version}", "responses", spell, _over_mcp((str(binary), "mcp-server"), "responses", more))


def _over_mcp(command: Sequence[str], wire: Wire, more: dict[str, Any]) -> Callable[[Task, ScriptedModel, Path], Any]:
    async def talk(task: Task, model: ScriptedModel, folder: Path) -> None:
        provider = "model_providers.bench"
        config = {
            "model": MODEL,
            "model_provider": "bench",
            "approval_policy": "never",
            "sandbox_mode": "workspace-write",
            f"{provider}.name": "bench",
            f"{provider}.base_url": model.url,
            f"{provider}.wire_api": wire,
            f"{provider}.request_max_retries": 0,
            f"{provider}.stream_max_retries": 0,
            **more,
        }
        home = folder / "user" / ".codex"
        home.parent.mkdir()
        server = McpProcess(
            cwd=folder / "work", home=home, command=command, config=config, wait_seconds=WAIT_SECONDS, check_frames=False
        )
        async with server:
            first, *rest = task.turns
            result = await server.codex(first.prompt, cwd=str(folder / "work"))
            for turn in rest:
                result = await server.reply(thread_of(result), turn.prompt)
            if text_of(result) != task.turns[-1].answer:
                raise BenchError(f"{task.name}: the last answer was {text_of(result)[:300]!r}")

    return talk


def opencode(binary: Path, version: str) -> Contender:
    def spell(command: str, call_id: str) -> Answer:
        return call("bash", call_id=call_id, command=command, description="Runs it")

    async def talk(task: Task, model: ScriptedModel, folder: Path) -> None:
        (folder / "user").mkdir()
        env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder / "user"), **opencode_environment(model.url)}
        for number, turn in enumerate(task.turns):
            words = [str(binary), "run", "--format", "json", *(["--continue"] if number else []), turn.prompt]
            said = await _run(words, folder / "work", env)
            if turn.answer not in said:
                raise BenchError(f"{task.name}: opencode did not give the answer: {said[-500:]}")

    return Contender(f"opencode {version}", "chat", spell, talk)


async def _run(words: Sequence[str], cwd: Path, env: dict[str, str]) -> str:
    devnull, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, cwd=cwd, env=env, stdin=devnull, stdout=pipe, stderr=pipe)
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            out, err = await process.communicate()
    except TimeoutError:
        raise BenchError(f"{words[0]} did not end within {WAIT_SECONDS:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise BenchError(f"{words[0]} ended with {process.returncode}: {err.decode(errors='replace')[-500:]}")
    return out.decode(errors="replace")
