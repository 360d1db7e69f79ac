"""Processes that a server has started are killed or stopped at random moments: each call is answered, and the next one works.

`python -m tests.soak children --count 300` does many. Which tool is at work, which of the server's descendants is hit (the
helper of the sandbox, a cell, a command, a worker that searches or looks at images or schemas), when, and with which signal is
drawn from the seed.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from tests.soak.runs import Report, each_plan
from understudy.testing import McpProcess, ReceivedRequest, ScriptedModel, call, say
from understudy.testing.script import Entry

TOOLS: dict[str, tuple[dict[str, Any], str]] = {  # its arguments, and what its output has in it where nothing went wrong
    "shell": ({"command": ["sh", "-c", "for n in 1 2 3 4 5; do sleep 0.03; done; echo finished"]}, "finished"),
    "exec_command": ({"cmd": "sleep 0.2; echo finished", "yield_time_ms": 5000}, "finished"),
    "search": ({"pattern": "n[e]+dle", "path": "."}, "needle"),
    "list_files": ({"path": "."}, "haystack.txt"),
    "read_file": ({"path": "haystack.txt", "start_line": 200_001}, "needle"),
    "view_image": ({"path": "large.png"}, "data:image/"),
    "apply_patch": ({"input": "*** Begin Patch\n*** Add File: added.txt\n+finished\n*** End Patch\n"}, "added.txt"),
}
SCHEMA = {"type": "object", "properties": {"done": {"type": "boolean"}}, "required": ["done"], "additionalProperties": False}


@dataclass
class Plan:
    """What is done. What it says is what a failure prints."""

    seed: int
    tools: list[str]
    moments: list[float]  # after the model has asked for the tool
    signals: list[str]
    with_schema: list[bool]
    hit: list[str] = field(default_factory=list[str])

    @classmethod
    def drawn(cls, seed: int) -> Plan:
        draw = random.Random(seed)
        tools = [draw.choice(list(TOOLS)) for _ in range(5)]
        return cls(
            seed=seed,
            tools=tools,
            moments=[draw.choice([0.0, 0.02, 0.1, 0.3]) * draw.random() for _ in tools],
            signals=[draw.choice(["SIGKILL", "SIGKILL", "SIGSEGV", "SIGTERM", "SIGSTOP"]) for _ in tools],
            with_schema=[draw.random() < 0.2 for _ in tools],
        )


def descendants(pid: int) -> list[int]:
    """Of a process, as /proc has them now."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(folder.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        mine = children.get(waiting.pop(), [])
        found += mine
        waiting += mine
    return found


class Kills:
    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._random = random.Random(f"{plan.seed} hits")
        self._model = ScriptedModel(self._answer)
        self._folder = folder
        self._asked = asyncio.Event()
        self._stopped: list[int] = []

    def _answer(self, request: ReceivedRequest) -> Entry:
        """The tool that the prompt names, and then what came of it."""
        messages = request.body["messages"]
        at = max(number for number, message in enumerate(messages) if message["role"] == "user" and _is_prompt(message))
        tool = _text(messages[at]).split()[-1]
        given = [message for message in messages[at + 1 :] if message["role"] in ("tool", "user")]
        if not given:
            self._asked.set()
            arguments = dict(TOOLS[tool][0])
            if tool == "apply_patch":  # a file that is there cannot be added
                arguments["input"] = arguments["input"].replace("added.txt", f"added.txt{len(messages)}")
            return call(tool, **arguments)
        return say(json.dumps({"done": TOOLS[tool][1] in json.dumps(given)}))

    async def run(self) -> None:
        work = self._folder / "work"
        work.mkdir()
        (work / "haystack.txt").write_text("hay\n" * 200_000 + "needle\n")
        Image.effect_noise((2400, 2400), 90).save(work / "large.png")
        config = {"sandbox_mode": "workspace-write"}
        server = McpProcess(self._model, cwd=work, home=self._folder / "user" / ".codex", config=config)
        async with self._model.serving(), server:
            first = await server.call_tool("codex", prompt="use list_files")
            thread = first["structuredContent"]["threadId"]
            try:
                for number, tool in enumerate(self._plan.tools):
                    await self._hit_once(server, thread, tool, number)
                    again = await server.call_tool("codex-reply", threadId=thread, prompt=f"use {tool}")
                    assert again["structuredContent"]["content"] == '{"done": true}', (
                        tool,
                        again,
                        self._model.requests[-1]["messages"][-1],
                    )
            finally:
                self._let_go_on()
            assert await server.request("ping") == {}
            assert "Traceback" not in server.stderr, server.stderr

    async def _hit_once(self, server: McpProcess, thread: str, tool: str, number: int) -> None:
        self._asked.clear()
        schema = {"output-schema": SCHEMA} if self._plan.with_schema[number] else {}
        running = server.call_tool("codex-reply", threadId=thread, prompt=f"use {tool}", **schema)
        await self._asked.wait()
        await asyncio.sleep(self._plan.moments[number])  # the moment that was drawn
        self._hit(server.process.pid, self._plan.signals[number])
        if self._plan.signals[number] == "SIGSTOP":
            await asyncio.sleep(0.3)  # as long as it stands still
            self._let_go_on()
        result = await running
        assert "content" in result, result

    def _hit(self, pid: int, name: str) -> None:
        found = descendants(pid)
        if not found:
            return
        target = self._random.choice(found)
        with suppress(OSError):
            command = Path(f"/proc/{target}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            self._plan.hit.append(f"{name} {command[:100]}")
            os.kill(target, signal.Signals[name])
            if name == "SIGSTOP":
                self._stopped.append(target)

    def _let_go_on(self) -> None:
        for pid in self._stopped:
            with suppress(OSError):
                os.kill(pid, signal.SIGCONT)
        self._stopped.clear()


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _is_prompt(message: dict[str, Any]) -> bool:
    return _text(message).startswith("use ")


async def run_child_kills(first_seed: int, count: int, *, at_once: int = 2, report: Report | None = None) -> None:
    """Raises all failures together, each with its seed and what was done."""

    async def play(plan: Plan, folder: Path) -> None:
        await Kills(plan, folder).run()

    await each_plan("children", first_seed, count, draw=Plan.drawn, play=play, at_once=at_once, report=report)
