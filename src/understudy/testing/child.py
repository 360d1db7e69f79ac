"""A child process that speaks in lines: what it writes is handed on line by line, its stderr is kept, and it always ends."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_LARGEST_LINE = 512 * 2**20
_LAST_WORDS_SECONDS = 1.0  # stderr stays open for longer only if a grandchild holds it


class Child:
    """Calls `on_line` for each line, and `on_end` with the reason once there will be no more."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        seconds: float,
        on_line: Callable[[bytes], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._command = command
        self._cwd = cwd
        self._env = env
        self._seconds = seconds
        self._on_line = on_line
        self._on_end = on_end
        self._process: asyncio.subprocess.Process | None = None
        self._readers: list[asyncio.Task[None]] = []
        self._stderr = bytearray()
        self._ended_by_us = False

    @property
    def process(self) -> asyncio.subprocess.Process:
        assert self._process is not None, "the server has not been started"
        return self._process

    @property
    def stdin(self) -> asyncio.StreamWriter:
        assert self.process.stdin is not None
        return self.process.stdin

    @property
    def stderr(self) -> str:
        return self._stderr.decode(errors="replace")

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            cwd=self._cwd,
            env=self._env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LARGEST_LINE,
        )
        errors = asyncio.create_task(self._read_stderr())
        self._readers = [asyncio.create_task(self._read_lines(errors)), errors]

    def write(self, data: bytes) -> None:
        """Queue bytes for the process. If it has died they are dropped, and `on_end` reports that."""
        self.stdin.write(data)

    async def drain(self) -> None:
        """Wait until the process has taken most of what was written."""
        with suppress(ConnectionError):
            await self.stdin.drain()

    async def close(self) -> int:
        """End of input; the exit code, once the process has gone. Raises `AssertionError` if it stays."""
        self._ended_by_us = True
        with suppress(ConnectionError):
            self.stdin.close()
            await self.stdin.wait_closed()
        try:
            async with asyncio.timeout(self._seconds):
                await asyncio.wait(self._readers)
                return await self.process.wait()
        except TimeoutError:
            found = f"the server did not go within {self._seconds:g} s of the end of input\n{self.stderr}"
            raise AssertionError(found) from None

    def kill_now(self) -> None:
        """SIGKILL, without waiting for the end."""
        self._ended_by_us = True
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)

    async def kill(self) -> None:
        """SIGKILL; on return the process is gone and its pipes are closed."""
        self.kill_now()
        await self.process.wait()
        await asyncio.wait(self._readers, timeout=self._seconds)  # a stray grandchild may hold the pipes open
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        transport = getattr(self.process, "_transport", None)
        if transport is not None:
            transport.close()

    async def exit_code(self) -> int:
        """Wait until the process has gone by itself. Raises `AssertionError` if it stays."""
        try:
            async with asyncio.timeout(self._seconds):
                return await self.process.wait()
        except TimeoutError:
            raise AssertionError(f"the server was still there after {self._seconds:g} s\n{self.stderr}") from None

    async def _read_lines(self, errors: asyncio.Task[None]) -> None:
        stdout = self.process.stdout
        assert stdout is not None
        while line := await stdout.readline():
            self._on_line(line)
        code = await self.process.wait()
        await asyncio.wait([errors], timeout=_LAST_WORDS_SECONDS)
        why = "after we ended it" if self._ended_by_us else "by itself"
        self._on_end(f"the server went {why}, exit code {code}\n{self.stderr}")

    async def _read_stderr(self) -> None:
        stderr = self.process.stderr
        assert stderr is not None
        while data := await stderr.read(2**16):
            self._stderr += data
