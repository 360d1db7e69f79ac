"""What comes of giving a task to an agent, and who can be given one."""

from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from understudy.bench.tasks import Task

Ending = Literal["completed", "failed", "timeout"]


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One try, before it is judged. What the agent does not tell is None."""

    ending: Ending
    seconds: float
    reason: str | None = None  # why it failed
    tokens: int | None = None
    usage: dict[str, int] | None = None
    cost_usd: float | None = None
    requests: int | None = None
    answer: str = ""
    tests_passed: bool | None = None  # what our report says of the last test run that it saw


class Agent(Protocol):
    name: str

    def describe(self) -> dict[str, Any]:
        """What tells this agent from another in a file of results; no secrets."""
        ...

    async def attempt(self, task: Task, work: Path, aside: Path) -> Attempt:
        """Let the agent work in `work`; `aside` is for its logs. On return, or when cancelled, nothing that was started runs on."""
        ...
