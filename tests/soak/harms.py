"""Harm done to one file of the home while servers are at work on it: nothing that they acknowledged is lost.

`python -m tests.soak harms --count 300` does many. What is harmed, how, when, how many servers there are and how they end is drawn
from the seed.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.soak.truth import Truth, check_log
from tests.support.answered import answered
from understudy.errors import StoreError
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import TurnEnded, UserMessage
from understudy.testing import McpProcess, ReceivedRequest, ScriptedModel, ServerDied, say
from understudy.testing.script import Entry

HOWS = ("delete", "truncate", "cut", "replace by a copy", "replace by rubbish", "rename away and back", "rename away", "chmod")
STORE_FILES = ("conversations.db", "conversations.db-wal", "conversations.db-shm")
OTHER_FILES = ("locks", "bell", "audit.key", *(f"kept/{name}" for name in STORE_FILES))


@dataclass
class Plan:
    """One harm. What it says is what a failure prints."""

    file: str
    how: str
    servers: int
    after_turns: int  # before the harm is done, of all servers together
    ends: str  # how the servers end
    newcomer_first: bool  # whether another server comes before they do

    @classmethod
    def drawn(cls, seed: int) -> Plan:
        draw = random.Random(seed)
        return cls(
            file=draw.choice(STORE_FILES * 2 + OTHER_FILES),
            how=draw.choice(HOWS),
            servers=draw.randint(1, 3),
            after_turns=draw.randint(0, 14),
            ends=draw.choice(["kill", "close", "terminate"]),
            newcomer_first=draw.random() < 0.5,
        )

    @property
    def destroys(self) -> bool:
        """Whether content is gone that stands nowhere else."""
        return self.file.endswith(("conversations.db", "-wal")) and self.how in ("truncate", "cut")

    @property
    def may_end_servers(self) -> bool:
        """Shared memory that is cut short the moment before SQLite looks at it ends the process: the kernel has it so."""
        return self.file.endswith("-shm") and self.how in ("truncate", "cut")


@dataclass
class Acknowledged:
    """What callers were told is done: of each conversation the prompts and the answers."""

    turns: dict[str, list[tuple[str, str]]] = field(default_factory=dict[str, list[tuple[str, str]]])

    def note(self, result: dict[str, Any], prompt: str) -> None:
        if not result.get("isError"):
            told = result["structuredContent"]
            self.turns.setdefault(told["threadId"], []).append((prompt, told["content"]))


def _answer(request: ReceivedRequest) -> Entry:
    return say(f"to {_last_prompt(request)}")


def _last_prompt(request: ReceivedRequest) -> str:
    content = [message["content"] for message in request.body["messages"] if message["role"] == "user"][-1]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


class Harm:
    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._model = ScriptedModel(_answer)
        self._home = folder / "home"
        self._work = folder / "work"
        self._home.mkdir()
        self._work.mkdir()
        self._acknowledged = Acknowledged()
        self._turns = 0
        self._calm = asyncio.Event()
        self._stop = asyncio.Event()
        self.died = 0

    async def run(self) -> None:
        plan = self._plan
        async with self._model.serving():
            servers = [await self._launch() for _ in range(plan.servers)]
            try:
                first = await servers[0].call_tool("codex", prompt="shared")
                self._acknowledged.note(first, "shared")
                shared = first["structuredContent"]["threadId"]
                async with asyncio.TaskGroup() as group:
                    for number, server in enumerate(servers):
                        group.create_task(self._be_busy(server, number, shared))
                    await self._calm.wait()
                    self._do_harm()
                    if plan.newcomer_first:
                        await self._see_that_it_works("first", shared)
                    self._stop.set()
            finally:
                for server in servers:
                    await self._end(server)
            await self._see_that_it_works("second", shared)
            await self._see_that_nothing_is_lost()

    async def _launch(self) -> McpProcess:
        config = {"approval_policy": "never", "model_providers.mock.stream_max_retries": 1}
        server = McpProcess(self._model.url, cwd=self._work, home=self._home, config=config, check_frames=False)
        await server.start()
        await server.initialize()
        return server

    async def _be_busy(self, server: McpProcess, number: int, shared: str) -> None:
        """Until the harm is done, and a few calls more. Each call is answered, or its server is gone."""
        thread: str | None = None
        more = 4
        turn = 0
        while more:
            more -= self._stop.is_set()
            turn += 1
            prompt = f"{number}.{turn}"
            try:
                if turn % 4 == 0:
                    result = await server.call_tool("codex-reply", threadId=shared, prompt=prompt)
                elif thread is None:
                    result = await server.call_tool("codex", prompt=prompt)
                else:
                    result = await server.call_tool("codex-reply", threadId=thread, prompt=prompt)
            except ServerDied:
                if not self._plan.may_end_servers:
                    raise
                self.died += 1
                self._calm.set()
                return
            self._acknowledged.note(result, prompt)
            if turn % 4 and not result.get("isError"):
                thread = result["structuredContent"]["threadId"]
            self._turns += 1
            if self._turns >= self._plan.after_turns:
                self._calm.set()

    def _do_harm(self) -> None:
        path = self._home / "understudy" / self._plan.file
        aside = path.with_name("aside")
        if not path.exists():
            return
        match self._plan.how:
            case "delete":
                path.unlink()
            case "truncate":
                os.truncate(path, 0)
            case "cut":
                os.truncate(path, path.stat().st_size // 2)
            case "replace by a copy":
                shutil.copy(path, aside)
                aside.rename(path)
            case "replace by rubbish":
                aside.write_bytes(b"rubbish" * 3000)
                aside.rename(path)
            case "rename away and back":
                path.rename(aside)
                aside.rename(path)
            case "rename away":
                path.rename(aside)
            case _:
                path.chmod(0)

    async def _end(self, server: McpProcess) -> None:
        if self._plan.ends == "close":
            await server.child.close()
        elif self._plan.ends == "terminate" and server.process.returncode is None:
            server.process.terminate()
            await server.child.exit_code()
        await server.kill()

    async def _see_that_it_works(self, word: str, shared: str) -> None:
        try:
            server = await self._launch()
        except ServerDied:
            if not self._plan.destroys:
                raise
            return
        try:
            for arguments in ({"prompt": f"{word} new"}, {"threadId": shared, "prompt": f"{word} shared"}):
                result = await server.call_tool("codex-reply" if "threadId" in arguments else "codex", arguments)
                if self._plan.destroys:
                    self._acknowledged.note(result, arguments["prompt"])
                    continue
                if result.get("isError") and "turn running in another process" in str(result):
                    continue
                assert not result.get("isError"), (result, server.stderr)
                self._acknowledged.note(result, arguments["prompt"])
        finally:
            await server.child.close()
            await server.kill()

    async def _see_that_nothing_is_lost(self) -> None:
        if self._plan.destroys:
            return
        truth = Truth(self._home)
        try:
            assert answered(truth.log.check()) == "ok"
            for name, turns in self._acknowledged.turns.items():
                entries = answered(truth.log.read(ConversationId(name)))
                check_log(entries)
                sent = [entry.record.message.text() for entry in entries if isinstance(entry.record, UserMessage)]
                said = [entry.record.message for entry in entries if isinstance(entry.record, TurnEnded)]
                missing = [turn for turn in turns if turn[0] not in sent or turn[1] not in said]
                assert not missing, f"{missing} of {name} were acknowledged, and are lost: {sent} {said}"
                assert len(set(sent)) == len(sent), f"doubled in {name}: {sent}"
        except StoreError as error:
            raise AssertionError(f"the store cannot be read: {error}") from error
        finally:
            truth.close()
        verify = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "understudy", "verify"),
            env={**os.environ, "CODEX_HOME": str(self._home)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        told, _ = await verify.communicate()
        if self._plan.file == "audit.key" and self._plan.how != "delete":
            return  # what was sealed with the former key is called broken, and why
        assert verify.returncode == 0, told.decode()


async def run_harms(first_seed: int, count: int, *, at_once: int = 2, report: Callable[[int], None] | None = None) -> None:
    """Raises all failures together, each with its seed and what was done."""
    done = 0
    seeds = iter(range(first_seed, first_seed + count))
    failures: list[Exception] = []

    async def work() -> None:
        nonlocal done
        for seed in seeds:
            plan = Plan.drawn(seed)
            with tempfile.TemporaryDirectory(prefix="understudy-soak-") as folder:
                try:
                    await Harm(plan, Path(folder)).run()
                except Exception as error:
                    error.add_note(f"harm {seed}: {plan}")
                    failures.append(error)
            done += 1
            if report:
                report(done)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {count} harms", failures)
