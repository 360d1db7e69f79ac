"""A question answered at the same instant by an MCP client, an editor, REST and a terminal: one answer counts, and all are told."""

import asyncio
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
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.acp_client import AcpClient
from tests.support.http_server import HttpServer
from tests.support.rest_client import RestClient
from understudy.testing import McpProcess, ScriptedModel, call, say
from understudy.testing.model import ReceivedRequest
from understudy.testing.script import Entry
from understudy.testing.waiting import WAIT_SECONDS

ASKS = {"approval_policy": "untrusted", "sandbox_mode": "workspace-write"}
PROMPT = "uit the turn?"
WORDS = {"approved": "y", "denied": "n"}


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
        self._more = asyncio.Event()
        asyncio.get_running_loop().add_reader(master, self._read)

    def _read(self) -> None:
        try:
            chunk = os.read(self._master, 65536)
        except OSError:
            chunk = b""
        if not chunk:
            asyncio.get_running_loop().remove_reader(self._master)
        self.text += chunk.decode(errors="replace")
        self._more.set()

    async def prompts(self, count: int) -> None:
        async with asyncio.timeout(4 * WAIT_SECONDS):
            while self.text.count(PROMPT) < count:
                self._more.clear()
                await self._more.wait()

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
    finally:
        asyncio.get_running_loop().remove_reader(ours)
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(ours)


async def race(tmp_path: Path, rounds: int, chance: random.Random) -> None:
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
        rest = RestClient(server.port, server.token)
        where = f"/v1/conversations/{thread}"
        outcomes: list[tuple[int, str]] = []
        async with AcpClient(home, work) as editor, terminal(thread, home, work) as person:
            await editor.call("session/load", sessionId=thread, cwd=str(work), mcpServers=[])
            for number in range(rounds):
                if number:
                    question = await client.next_request("elicitation/create")
                permission = await editor.question(number)
                await person.prompts(number + 1)
                [asked] = await open_questions(rest, where, number + 1)
                chosen = {door: chance.choice(["approved", "denied"]) for door in ("mcp", "acp", "rest", "terminal")}
                body = {"call_id": asked["call_id"], "decision": chosen["rest"], "mark": asked["mark"]}

                accepting = {"action": "accept", "content": {"decision": chosen["mcp"]}}
                doors: list[Callable[[], Awaitable[tuple[int, str] | None]]] = [
                    partial(client.respond, question, accepting),
                    partial(aside, partial(editor.choose, permission, chosen["acp"])),
                    partial(aside, partial(person.type, WORDS[chosen["terminal"]])),
                    partial(by_rest, rest, where, body),
                ]
                chance.shuffle(doors)
                done = await asyncio.gather(*(door() for door in doors))
                outcomes += [each for each in done if isinstance(each, tuple)]
            result = await answer
            assert result["structuredContent"]["content"] == "done", result
        decided = decisions(thread, home)
        counting = [record["decision"] for record in decided if record.get("effective", True)]
        assert len(counting) == rounds
        ran = [int(line) for line in (work / "log.txt").read_text().split()] if (work / "log.txt").exists() else []
        assert ran == [number + 1 for number, decision in enumerate(counting) if decision == "approved"]
        assert all(status in (200, 409) for status, _ in outcomes), outcomes
        assert [decision for _, decision in outcomes] == counting  # whoever comes second is told what counts
        told = re.findall(r"(?:approved|denied)(?: by|,|$|\r|\x1b)", person.text)
        assert len(told) >= rounds, person.text[-2000:]
        ended = [update for update in editor.updates("tool_call_update") if update["status"] in ("completed", "failed")]
        assert [update["status"] for update in ended] == [
            "completed" if decision == "approved" else "failed" for decision in counting
        ]


async def by_rest(rest: RestClient, where: str, body: dict[str, Any]) -> tuple[int, str]:
    """The status, and the decision that counts."""
    response = await rest.request("POST", f"{where}/decisions", body)
    told = json.loads(await response.body())
    return response.status, told.get("decision") or told["error"].get("decision", "")


async def aside(act: Callable[[], None]) -> None:
    act()


async def open_questions(rest: RestClient, where: str, count: int) -> list[dict[str, Any]]:
    """Once the server, which only reads along, knows of the one that is open now."""
    async with asyncio.timeout(4 * WAIT_SECONDS):
        while True:
            found = (await rest.get(where))["questions"]
            if len(found) == 1 and f"echo {count} " in json.dumps(found):
                return found
            await asyncio.sleep(0.01)


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


async def test_of_four_answers_at_once_one_counts_and_all_doors_are_told(tmp_path: Path) -> None:
    await race(tmp_path, 5, random.Random(1))


@pytest.mark.slow
async def test_of_four_answers_at_once_one_counts_two_hundred_times(tmp_path: Path) -> None:
    async with asyncio.timeout(120 * WAIT_SECONDS):
        await race(tmp_path, 200, random.Random(2))
