"""A disk that fails at one moment of a turn: every call is answered, and nothing that was acknowledged is lost.

`python -m tests.soak disk-faults --count 300` tries many. strace makes one system call of the server on one file of its store
fail, once or from then on: which call, which file, which of its times and with what error is drawn from the seed. A run without
a fault says first which calls there are and how often, so that what is drawn happens, as far as threads do not race.
"""

from __future__ import annotations

import asyncio
import collections
import os
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.soak.busy_servers import Acknowledged, is_done
from tests.soak.runs import Report, each_plan
from tests.soak.truth import Truth, check_log
from tests.support.answered import answered
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import TurnEnded, UserMessage
from understudy.testing import McpProcess, ReceivedRequest, ScriptedModel, ServerDied, call, say
from understudy.testing.script import Entry

STRACE = shutil.which("strace")
TRACED = "openat,read,pread64,write,pwrite64,fsync,fdatasync,ftruncate,fallocate,link,rename,unlink,mkdir,statx,newfstatat"
ERRORS = {
    "read": ("EIO",),
    "pread64": ("EIO",),
    "openat": ("EIO", "EMFILE", "EACCES"),
    "statx": ("EIO",),
    "newfstatat": ("EIO",),
    "unlink": ("EIO", "EROFS"),
}
WRITE_ERRORS = ("EIO", "ENOSPC", "EDQUOT", "EROFS")
_CALL = re.compile(r"^(\d+) +([a-z0-9_]+)\(")


@dataclass(frozen=True)
class Fault:
    seed: int
    file: str  # below the state folder; the folder itself is empty
    call: str
    when: int  # which of the calls of one thread
    stays: bool  # all later ones fail too
    error: str

    def options(self, state: Path) -> list[str]:
        when = f"{self.when}+" if self.stays else str(self.when)
        fails = f"inject={self.call}:error={self.error}:when={when}"
        return ["-P", str(state / self.file), "-e", f"trace={self.call}", "-e", fails]


@dataclass(frozen=True)
class Seen:
    """How often a thread of the server made a call on a file, at the most."""

    file: str
    call: str
    times: int


def drawn(seed: int, seen: Sequence[Seen]) -> Fault:
    """Each call on each file is as likely as the others, however often it is made."""
    draw = random.Random(seed)
    at = draw.choice(seen)
    return Fault(
        seed=seed,
        file=at.file,
        call=at.call,
        when=draw.randint(1, at.times),
        stays=draw.random() < 0.3,
        error=draw.choice(ERRORS.get(at.call, WRITE_ERRORS)),
    )


def _answer(request: ReceivedRequest) -> Entry:
    """A command and then the end, for what is asked to run one; else only the end."""
    messages = request.body["messages"]
    prompt = str([message["content"] for message in messages if message["role"] == "user"][-1])
    if "run" in prompt and messages[-1]["role"] == "user":
        return call("shell", command=["sh", "-c", "echo done >> trace"])
    return say(f"to {messages[-1]['role']}")


class Turns:
    """A server on a home of its own, what is asked of it, and what has to hold afterwards."""

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        assert STRACE is not None
        self._folder = folder
        self._options = options
        self._model = ScriptedModel(_answer)
        self._acknowledged = Acknowledged()
        self.home = folder / "user" / ".codex"
        self.state = self.home / "understudy"
        self.trace = folder / "trace.txt"

    async def run(self) -> None:
        work = self._folder / "work"
        work.mkdir()
        async with self._model.serving():
            await self._make_store(work)
            await self._be_faulty(work)
            await self._see_that_it_works(work)
        self._see_that_nothing_is_lost()
        await self._see_that_it_is_called_whole()

    async def _make_store(self, work: Path) -> None:
        async with McpProcess(self._model.url, cwd=work, home=self.home) as server:
            await self._ask(server, "codex", prompt="before")

    async def _be_faulty(self, work: Path) -> None:
        """Each call is answered, however often the disk fails, or the server says why it has not even begun."""
        assert STRACE is not None
        strace = [STRACE, "-f", "-qq", "-o", str(self.trace), *self._options]
        command = [*strace, sys.executable, "-m", "understudy", "mcp-server"]
        server = McpProcess(self._model.url, cwd=work, home=self.home, command=command)
        try:
            async with server:
                first = await self._ask(server, "codex", prompt="one")
                thread = first.get("structuredContent", {}).get("threadId")
                if thread is not None:
                    await self._ask(server, "codex-reply", threadId=thread, prompt="run two")
                await server.call_tool("conversationsList")
                await self._ask(server, "codex", prompt="run three")
                assert await server.request("ping") == {}
        except ServerDied as error:
            raise AssertionError(f"the server has ended: {error}") from error
        assert "Traceback" not in server.stderr, server.stderr

    async def _ask(self, server: McpProcess, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await server.call_tool(tool, **arguments)
        self._acknowledged.note(result, arguments["prompt"])
        return result

    async def _see_that_it_works(self, work: Path) -> None:
        async with McpProcess(self._model.url, cwd=work, home=self.home) as server:
            for thread in list(self._acknowledged.turns):
                result = await self._ask(server, "codex-reply", threadId=thread, prompt="run after")
                assert is_done(result), result
            assert is_done(await self._ask(server, "codex", prompt="new"))

    def _see_that_nothing_is_lost(self) -> None:
        truth = Truth(self.home)
        try:
            assert answered(truth.log.check()) == "ok"
            for name, turns in self._acknowledged.turns.items():
                entries = answered(truth.log.read(ConversationId(name)))
                check_log(entries)
                sent = [entry.record.message.text() for entry in entries if isinstance(entry.record, UserMessage)]
                said = [entry.record.message for entry in entries if isinstance(entry.record, TurnEnded)]
                missing = [turn for turn in turns if turn[0] not in sent or turn[1] not in said]
                assert not missing, f"{missing} of {name} were acknowledged, and are lost: {sent} {said}"
        finally:
            truth.close()

    async def _see_that_it_is_called_whole(self) -> None:
        verify = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "understudy", "verify"),
            env={**os.environ, "CODEX_HOME": str(self.home)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await verify.communicate()
        assert verify.returncode == 0, out.decode()


async def calls_without_a_fault(folder: Path) -> list[Seen]:
    """What the server asks of the kernel for the files of its store, when nothing fails."""
    turns = Turns(folder, ["-yy", "-e", f"trace={TRACED}"])
    await turns.run()
    times: collections.Counter[tuple[str, str, str]] = collections.Counter()
    pattern = re.compile(re.escape(str(turns.state)) + r"(/[^>\"]*)?[>\"]")
    for line in turns.trace.read_text(errors="replace").splitlines():
        found, named = _CALL.match(line), pattern.search(line)
        if found and named and not line.endswith("ENOENT (No such file or directory)"):
            times[found[1], (named[1] or "").strip("/"), found[2]] += 1
    most: dict[tuple[str, str], int] = {}
    for (_, file, name), count in times.items():
        most[file, name] = max(most.get((file, name), 0), count)
    return [Seen(file, name, count) for (file, name), count in sorted(most.items())]


async def run_disk_faults(first_seed: int, count: int, *, at_once: int = 2, report: Report | None = None) -> None:
    """Raises all failures together, each with its fault."""
    with tempfile.TemporaryDirectory(prefix="understudy-soak-") as folder:
        seen = await calls_without_a_fault(Path(folder))
    assert len(seen) > 10, seen

    def draw(seed: int) -> Fault:
        return drawn(seed, seen)

    async def play(fault: Fault, folder: Path) -> None:
        await Turns(folder, fault.options(folder / "user" / ".codex" / "understudy")).run()

    await each_plan("disk-faults", first_seed, count, draw=draw, play=play, at_once=at_once, report=report)
