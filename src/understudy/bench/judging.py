"""Runs the hidden tests: in our sandbox, on a copy of the agent's work, after the agent has ended.

Makes the folders of a run: the agent's, and the copy of its work with the hidden tests added.

The agent's files cannot be trusted: a link or a pipe may be in the place of a hidden test.
"""

import asyncio
import os
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from understudy.bench.attempts import end_group
from understudy.bench.our_agent import OUR_PROGRAM
from understudy.bench.tasks import Task, TaskFile
from understudy.errors import BadRequest
from understudy.sandbox.starting import start_process


def lay_out(folder: Path, files: Mapping[str, TaskFile]) -> None:
    """Put files into a folder. Replaces what is in their way; writes nothing through a link."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, file in files.items():
        parent = folder
        for part in name.split("/")[:-1]:
            parent = parent / part
            _make_folder(parent)
        target = parent / name.rpartition("/")[2]
        _remove(target)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o755 if file.executable else 0o644)
        with open(descriptor, "wb") as written:
            written.write(file.content)


def copy_work(work: Path, copy: Path) -> None:
    """Copy the agent's work without pipes, sockets and devices; links stay links. Raises `BadRequest` if that fails."""
    try:
        shutil.copytree(work, copy, symlinks=True, ignore=_special)
    except (shutil.Error, OSError) as error:
        raise BadRequest(f"what the agent left cannot be copied: {str(error)[:300]}") from None


def _special(folder: str, names: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for name in names:
        mode = os.lstat(os.path.join(folder, name)).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
            found.add(name)
    return found


def _make_folder(path: Path) -> None:
    if path.is_symlink() or (os.path.lexists(path) and not path.is_dir()):
        path.unlink()
    path.mkdir(exist_ok=True)


def _remove(path: Path) -> None:
    if not os.path.lexists(path):
        return
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


MOST_OUTPUT = 4000  # characters that are kept, from the end
SPARE_SECONDS = 30.0  # for setting up the sandbox, and for removing it after the time limit
NOT_RUN = "the command was not run"  # the words of `understudy sandbox`


class TaskVerdict(msgspec.Struct, frozen=True):
    passed: bool
    exit_code: int | None  # None: the work could not even be copied
    output: str


class TaskJudge:
    """`flags` are `-c` flags for the sandbox. Commands have no network unless these allow it."""

    def __init__(self, flags: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> None:
        self._flags = tuple(flags)
        self._cwd = cwd
        self._env = env

    async def make_sure(self, folder: Path) -> None:
        """Raises `BadRequest` if commands cannot be contained here."""
        code, output = await self._run(("true",), folder, SPARE_SECONDS)
        if code != 0:
            raise BadRequest(
                f"hidden tests cannot be run in the sandbox here: {output.strip() or f'exit code {code}'}\n"
                "`understudy doctor` says what is missing. `-c sandbox_mode=danger-full-access` runs agent and tests uncontained."
            )

    async def judge(self, task: Task, work: Path, copy: Path) -> TaskVerdict:
        """Raises `BadRequest` if the tests could not be run, which says nothing about the work."""
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
