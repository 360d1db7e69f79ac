"""Commands run, tell how they ended, and leave nothing running."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from understudy.protocol.choices import OutputStream
from understudy.sandbox import Command, CommandResult, Containment, Sandbox

ENV = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}


class Output:
    """What a command wrote, in the order read."""

    def __init__(self) -> None:
        self.chunks: list[tuple[OutputStream, bytes]] = []

    def __call__(self, stream: OutputStream, chunk: bytes) -> None:
        self.chunks.append((stream, chunk))

    def text(self, stream: OutputStream = "stdout") -> str:
        return b"".join(chunk for kind, chunk in self.chunks if kind == stream).decode()


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    sandbox = Sandbox()
    yield sandbox
    await sandbox.close()


@pytest.fixture(params=["contained", "uncontained"])
def containment(request: pytest.FixtureRequest, tmp_path: Path) -> Containment | None:
    if request.param == "uncontained":
        return None
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    return Containment("workspace-write", (str(workspace),), private_tmp=str(private), protected=(".git", ".codex"))


async def run(
    sandbox: Sandbox, containment: Containment | None, *argv: str, cwd: Path, timeout: float | None = 10
) -> tuple[CommandResult, Output]:
    output = Output()
    command = Command(argv, str(cwd), ENV, timeout, containment)
    result = await asyncio.wait_for(sandbox.run(command, output), 20)
    return result, output


@pytest.fixture
def cwd(containment: Containment | None, tmp_path: Path) -> Path:
    return tmp_path if containment is None else Path(containment.writable_roots[0])


async def test_output_and_exit_code_come_back(sandbox: Sandbox, containment: Containment | None, cwd: Path) -> None:
    result, output = await run(sandbox, containment, "sh", "-c", "echo out; echo err >&2; exit 3", cwd=cwd)
    assert (result.exit_code, result.signal, result.setup_error, result.spawn_error) == (3, None, None, None)
    assert (output.text(), output.text("stderr")) == ("out\n", "err\n")


async def test_a_program_that_does_not_exist_is_told_as_a_shell_would(
    sandbox: Sandbox, containment: Containment | None, cwd: Path
) -> None:
    result, _ = await run(sandbox, containment, "no-such-program", cwd=cwd)
    assert (result.exit_code, result.spawn_error) == (127, "No such file or directory (os error 2)")


async def test_a_file_that_is_not_executable_is_told_as_a_shell_would(
    sandbox: Sandbox, containment: Containment | None, cwd: Path
) -> None:
    (cwd / "plain.txt").write_text("text")
    result, _ = await run(sandbox, containment, "./plain.txt", cwd=cwd)
    assert (result.exit_code, result.spawn_error) == (126, "Permission denied (os error 13)")


async def test_a_missing_folder_is_told_and_nothing_runs(sandbox: Sandbox, containment: Containment | None, cwd: Path) -> None:
    result, _ = await run(sandbox, containment, "true", cwd=cwd / "gone")
    assert (result.exit_code, result.spawn_error) == (125, "No such file or directory (os error 2)")


async def test_death_by_a_signal_is_told(sandbox: Sandbox, containment: Containment | None, cwd: Path) -> None:
    result, _ = await run(sandbox, containment, "sh", "-c", "kill -SEGV $$", cwd=cwd)
    assert (result.exit_code, result.signal) == (139, 11)


async def test_a_time_limit_ends_a_command_that_ignores_the_polite_signal(
    sandbox: Sandbox, containment: Containment | None, cwd: Path
) -> None:
    began = time.monotonic()
    result, output = await run(
        sandbox, containment, "sh", "-c", "trap 'echo asked' TERM; echo up; while :; do sleep 0.05; done", cwd=cwd, timeout=0.5
    )
    assert (result.exit_code, result.timed_out) == (124, True)
    assert output.text().split() == ["up", "asked"]
    assert time.monotonic() - began < 3


async def test_cancelling_ends_the_command_before_the_task(sandbox: Sandbox, containment: Containment | None, cwd: Path) -> None:
    up = asyncio.Event()
    command = Command(("sh", "-c", "setsid sleep 98765 & echo up; wait"), str(cwd), ENV, None, containment)
    task = asyncio.create_task(sandbox.run(command, lambda stream, chunk: up.set()))
    await asyncio.wait_for(up.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    assert not processes_matching("98765")


def processes_matching(word: str) -> list[str]:
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if word in line and entry.name != str(os.getpid()):
                found.append(line)
    return found
