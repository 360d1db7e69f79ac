"""What the sandbox's tests share: collecting output, running with a bound, looking for processes."""

import asyncio
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from understudy.protocol.choices import OutputStream
from understudy.sandbox import Command, CommandResult, Containment, Sandbox
from understudy.sandbox.cell.plan import GRACE_SECONDS
from understudy.testing.waiting import WAIT_SECONDS

ENV = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
PROTECTED = (".git", ".codex", ".agents", ".mcp.json")
BOUND = WAIT_SECONDS
_THIS_RUN = secrets.randbelow(10**9)


class Output:
    """What a command wrote, in the order read."""

    def __init__(self) -> None:
        self.chunks: list[tuple[OutputStream, bytes]] = []
        self._waiting: list[tuple[str, asyncio.Event]] = []

    def __call__(self, stream: OutputStream, chunk: bytes) -> None:
        self.chunks.append((stream, chunk))
        for text, event in self._waiting:
            if text in self.text():
                event.set()

    def text(self, stream: OutputStream = "stdout") -> str:
        return b"".join(chunk for kind, chunk in self.chunks if kind == stream).decode()

    async def until(self, text: str) -> None:
        event = asyncio.Event()
        self._waiting.append((text, event))
        if text not in self.text():
            await asyncio.wait_for(event.wait(), BOUND)


async def run(
    sandbox: Sandbox,
    containment: Containment | None,
    *argv: str,
    cwd: Path | str,
    timeout: float | None = None,
    env: dict[str, str] | None = None,
    grace_seconds: float = GRACE_SECONDS,
) -> tuple[CommandResult, Output]:
    output = Output()
    command = Command(argv, str(cwd), ENV | (env or {}), timeout, containment, grace_seconds=grace_seconds)
    result = await asyncio.wait_for(sandbox.run(command, output), BOUND)
    await asyncio.wait_for(sandbox.tidied(), BOUND)
    return result, output


def mark(word: str) -> str:
    """A word to find processes by, which no other run of the tests has at the same time. Made of a number it is a time to sleep."""
    return f"{word}.{_THIS_RUN}"


def processes_with(word: str) -> list[int]:
    """Processes whose command line has `word`."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or entry.name == str(os.getpid()):
            continue
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if word.encode() in line:
            found.append(int(entry.name))
    return found


def children_of_helper(sandbox: Sandbox) -> list[int]:
    helper = sandbox.helper_pid
    assert helper is not None
    return [int(word) for word in Path(f"/proc/{helper}/task/{helper}/children").read_text().split()]


async def spare_of(sandbox: Sandbox) -> int:
    """The process that is given the next command; it is there a moment after a contained command."""
    await until(lambda: bool(sandbox.spares))
    return sandbox.spares[-1]


async def at_rest(sandbox: Sandbox) -> None:
    """Wait until no process is left but those that wait for the next commands, if there are any."""
    await until(lambda: children_of_helper(sandbox) == sorted(sandbox.spares))


async def until(condition: Callable[[], bool], seconds: float = BOUND) -> None:
    """Wait for something outside this process, which cannot tell us."""
    loop = asyncio.get_running_loop()
    limit = loop.time() + seconds
    while not condition():
        assert loop.time() < limit, "it did not happen in time"
        await asyncio.sleep(0.01)
