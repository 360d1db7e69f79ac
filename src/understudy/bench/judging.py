"""The hidden tests: run in our sandbox, on a copy of what the agent left, after it has gone."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from understudy.bench.folders import copy_work, lay_out
from understudy.bench.our_agent import OUR_PROGRAM
from understudy.bench.processes import end_group
from understudy.bench.tasks import Task
from understudy.errors import BadRequest
from understudy.sandbox.starting import start_process

MOST_OUTPUT = 4000  # characters that are kept, the last ones
SPARE_SECONDS = 30.0  # to set up the sandbox, and to take it down after the time limit
NOT_RUN = "the command was not run"  # in the words of `understudy sandbox`


class TaskVerdict(msgspec.Struct, frozen=True):
    passed: bool
    exit_code: int | None  # None: what the agent left could not even be copied
    output: str


class TaskJudge:
    """`flags` are `-c` flags for the sandbox. Commands have no network unless these open it."""

    def __init__(self, flags: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> None:
        self._flags = tuple(flags)
        self._cwd = cwd
        self._env = env

    async def make_sure(self, folder: Path) -> None:
        """Raises `BadRequest` where commands cannot be contained here."""
        code, output = await self._run(("true",), folder, SPARE_SECONDS)
        if code != 0:
            raise BadRequest(
                f"hidden tests cannot be run in the sandbox here: {output.strip() or f'exit code {code}'}\n"
                "`understudy doctor` says what is missing. `-c sandbox_mode=danger-full-access` runs agent and tests uncontained."
            )

    async def judge(self, task: Task, work: Path, copy: Path) -> TaskVerdict:
        """Raises `BadRequest` where the tests could not be run, which says nothing about the work."""
        try:
            copy_work(work, copy)
            lay_out(copy, task.hidden)
        except BadRequest as error:
            return TaskVerdict(False, None, str(error))
        code, output = await self._run(task.check, copy, task.check_seconds)
        if code != 0 and NOT_RUN in output:
            raise BadRequest(output.strip())
        return TaskVerdict(code == 0, code, output[-MOST_OUTPUT:])

    async def _run(self, argv: Sequence[str], folder: Path, seconds: float) -> tuple[int, str]:
        flags = [word for flag in self._flags for word in ("-c", flag)]
        command = [*OUR_PROGRAM, "sandbox", "--cwd", str(folder), "--timeout", f"{seconds:g}", *flags, "--", *argv]
        process = await start_process(
            *command,
            cwd=self._cwd,
            env=dict(self._env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        kept = bytearray()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds + SPARE_SECONDS):
                    await _read_end(process, kept)
        finally:
            await end_group(process)
        code = process.returncode
        return (1 if code is None else code), kept.decode(errors="replace")


async def _read_end(process: asyncio.subprocess.Process, kept: bytearray) -> None:
    assert process.stdout is not None
    while chunk := await process.stdout.read(2**16):
        kept += chunk
        del kept[: -4 * MOST_OUTPUT]
    await process.wait()
