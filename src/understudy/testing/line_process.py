"""Drives a program that reads and writes lines from a test: for front doors that do not speak MCP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from understudy.testing.calls import ServerDied
from understudy.testing.child import Child
from understudy.testing.waiting import Watched


class LineProcess:
    """A child process, started on entry; on exit its input is closed, and it has to end by itself.

    `CodexHome.environment` makes an `env` for our own program. Waits are bounded, as everywhere: by `wait_seconds` or the default.
    """

    def __init__(self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], wait_seconds: float | None = None) -> None:
        self._watched = Watched(wait_seconds)
        self._given = 0
        self.lines: list[str] = []  # all that the program has written, without line ends
        self.exit_code: int | None = None  # set when the block is left
        self._child = Child(
            command,
            cwd=cwd,
            env=env,
            seconds=self._watched.seconds,
            on_line=self._take,
            on_end=lambda reason: self._watched.fail(ServerDied(reason)),
        )

    async def __aenter__(self) -> Self:
        await self._child.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self.exit_code = await self._child.close()
        finally:
            await self._child.kill()

    @property
    def stderr(self) -> str:
        return self._child.stderr

    @property
    def pid(self) -> int:
        return self._child.process.pid

    def send(self, line: str) -> None:
        """Write a line to the program."""
        self._child.write(line.encode() + b"\n")

    async def next_line(self) -> str:
        """The next line that was not returned yet. Raises `ServerDied` if the program ends without one."""

        def find() -> str | None:
            return self.lines[self._given] if len(self.lines) > self._given else None

        line = await self._watched.until(find, f"line {self._given + 1} of the program")
        self._given += 1
        return line

    async def kill(self) -> None:
        """SIGKILL, like a power failure."""
        await self._child.kill()

    def _take(self, line: bytes) -> None:
        self.lines.append(line.decode(errors="replace").rstrip("\r\n"))
        self._watched.change()
