"""Attempts at a task: their outcome, the agents that can make them, and how to end the processes of an attempt."""

import asyncio
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from understudy.bench.tasks import Task
from understudy.sandbox.starting import signal_group

Ending = Literal["completed", "failed", "timeout"]


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt, before it is judged. What the agent does not report is None."""

    ending: Ending
    seconds: float
    reason: str | None = None  # why it failed
    tokens: int | None = None
    usage: dict[str, int] | None = None
    cost_usd: float | None = None
    requests: int | None = None
    answer: str = ""
    tests_passed: bool | None = None  # the last test run that our own report mentions


class Agent(Protocol):
    name: str

    def describe(self) -> dict[str, Any]:
        """What distinguishes this agent from others in a file of results; no secrets."""
        ...

    async def attempt(self, task: Task, work: Path, aside: Path) -> Attempt:
        """Let the agent work in `work`; `aside` is for its logs. On return, or when cancelled, nothing that was started still
        runs."""
        ...


GRACE_SECONDS = 2.0


async def end_group(process: asyncio.subprocess.Process, grace: float = GRACE_SECONDS) -> None:
    """SIGTERM, then SIGKILL to the whole group. The process was started by `start_process`."""
    try:
        if process.returncode is None:
            signal_group(process.pid, signal.SIGTERM)
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), grace)
    finally:
        signal_group(process.pid, signal.SIGKILL)  # also for processes that outlived the group's leader
        await process.wait()
