"""A question answered at once by an MCP client, an editor, a terminal and a fourth door: one answer counts, and all are told."""

import asyncio
import codecs
import fcntl
import json
import os
import pty
import random
import re
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from tests.support.acp_client import AcpClient
from tests.support.http_server import HttpServer
from understudy.testing import McpProcess, ScriptedModel, call, say
from understudy.testing.model import ReceivedRequest
from understudy.testing.script import Entry
from understudy.testing.waiting import WAIT_SECONDS

ASKS = {"approval_policy": "untrusted", "sandbox_mode": "workspace-write"}
PROMPT = "uit the turn?"
WORDS = {"approved": "y", "denied": "n"}
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_OUTCOME = re.compile(r"^  └ (approved|denied)\b", re.MULTILINE)


class Commands:
    """A model that wants to run one command after the other, and then is done. Call ids are used again, as models do."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.asked = 0

    def __call__(self, request: ReceivedRequest) -> Entry:
        self.asked += 1
        if self.asked > self._count:
            return say("done")
        return call("shell", call_id=f"c{self.asked % 3}", command=["bash", "-c", f"echo {self.asked} >> log.txt"])


class Terminal:
    """`understudy resume` in a terminal: it asks whoever sits there."""

    def __init__(self, master: int) -> None:
        self._master = master
        self.text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a piece may end within a character
        self._more = asyncio.Event()
        asyncio.get_running_loop().add_reader(master, self._read)

    def _read(self) -> None:
        if not self._take():
            asyncio.get_running_loop().remove_reader(self._master)

    def _take(self) -> bool:
        """A piece of what is there; False where there is none."""
        try:
            chunk = os.read(self._master, 65536)
        except OSError:  # as a terminal says that nobody has it open any more, or that there is nothing yet
            chunk = b""
        self.text += self._decoder.decode(chunk)
        self._more.set()
        return chunk != b""

    def take_rest(self) -> None:
        """What the program wrote before it ended and nobody has read yet."""
        os.set_blocking(self._master, False)
        while self._take():
            pass

    async def prompts(self, count: int) -> None:
        async with asyncio.timeout(4 * WAIT_SECONDS):
            while self.text.count(PROMPT) < count:
                self._more.clear()
                await self._more.wait()

    @property
    def outcomes(self) -> list[str]:
        """Of each question what the person was told: a line of its own, by whomever it was answered."""
        return _OUTCOME.findall(_STYLE.sub("", self.text))

    def type(self, text: str) -> None:
        os.write(self._master, f"{text}\n".encode())


@asynccontextmanager
async def terminal(thread: str, home: Path, cwd: Path) -> AsyncGenerator[Terminal]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "understudy", "resume", thread),
        stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd,
        env={**os.environ, "CODEX_HOME": str(home), "HOME": str(home.parent), "TERM": "xterm-256color"},
    )  # fmt: skip
    os.close(theirs)
    seen = Terminal(ours)
    try:
        yield seen
        await asyncio.wait_for(process.wait(), 4 * WAIT_SECONDS)
        seen.take_rest()
    finally:
        asyncio.get_running_loop().remove_reader(ours)
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(ours)


class Door(Protocol):
    """The fourth one."""

    async def ready(self, number: int, decision: str) -> None:
        """Once it shows the question with this number, and everything is done for this answer but its last step."""
        ...

    async def answer(self, decision: str) -> None: ...

    async def check(self, counting: list[str]) -> None:
        """In the end: it was told what counts."""
        ...


OpensDoor = Callable[[HttpServer, str], AbstractAsyncContextManager[Door]]


async def race(tmp_path: Path, rounds: int, chance: random.Random, open_door: OpensDoor) -> None:
    model_script = Commands(rounds)
    async with (
        ScriptedModel(model_script) as model,
        HttpServer(tmp_path, model, config=ASKS) as server,
        McpProcess(cwd=server.cwd, home=server.home.path) as client,
    ):
        work, home = server.cwd, server.home.path
        answer = client.call_tool("codex", prompt="go", cwd=str(work))
        question = await client.next_request("elicitation/create")
        thread = question["params"]["threadId"]
        async with AcpClient(home, work) as editor, terminal(thread, home, work) as person, open_door(server, thread) as fourth:
            await editor.call("session/load", sessionId=thread, cwd=str(work), mcpServers=[])
            for number in range(rounds):
                if number:
                    question = await client.next_request("elicitation/create")
                permission = await editor.question(number)
                await person.prompts(number + 1)
                chosen = {door: chance.choice(["approved", "denied"]) for door in ("mcp", "acp", "fourth", "terminal")}
                await fourth.ready(number + 1, chosen["fourth"])
                accepting = {"action": "accept", "content": {"decision": chosen["mcp"]}}
                doors: list[Callable[[], Awaitable[None]]] = [
                    partial(client.respond, question, accepting),
                    partial(aside, partial(editor.choose, permission, chosen["acp"])),
                    partial(aside, partial(person.type, WORDS[chosen["terminal"]])),
                    partial(fourth.answer, chosen["fourth"]),
                ]
                chance.shuffle(doors)
                await asyncio.gather(*(door() for door in doors))
            result = await answer
            assert result["structuredContent"]["content"] == "done", result
            decided = await asyncio.to_thread(decisions, thread, home)
            counting = [record["decision"] for record in decided if record.get("effective", True)]
            assert len(counting) == rounds
            await fourth.check(counting)
            async with asyncio.timeout(4 * WAIT_SECONDS):
                while len(ended_calls(editor)) < rounds:  # noqa: ASYNC110  # another process, which follows the log
                    await asyncio.sleep(0.02)
        ran = [int(line) for line in (work / "log.txt").read_text().split()] if (work / "log.txt").exists() else []
        assert ran == [number + 1 for number, decision in enumerate(counting) if decision == "approved"]
        assert person.outcomes == counting, person.text[-2000:]
        assert ended_calls(editor) == ["completed" if decision == "approved" else "failed" for decision in counting]


def ended_calls(editor: AcpClient) -> list[str]:
    """How each call that is over has ended, as the editor was told."""
    updates = editor.updates("tool_call_update")
    return [update["status"] for update in updates if update["status"] in ("completed", "failed")]


async def aside(act: Callable[[], None]) -> None:
    act()


def decisions(thread: str, home: Path) -> list[dict[str, Any]]:
    """In the order of the log."""
    exported = subprocess.run(
        [sys.executable, "-m", "understudy", "export", thread],
        env={**os.environ, "CODEX_HOME": str(home)},
        capture_output=True,
        check=True,
        timeout=20 * WAIT_SECONDS,
    ).stdout
    records = [json.loads(line).get("record", {}) for line in exported.splitlines()]
    return [record for record in records if record.get("type") == "approval_decided"]
