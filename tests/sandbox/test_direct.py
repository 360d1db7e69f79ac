"""Running commands without the helper, as on platforms other than Linux."""

import asyncio
from pathlib import Path

import pytest

from tests.sandbox.stage import BOUND, ENV, Output, mark, processes_with, until
from understudy.protocol.choices import OutputStream
from understudy.sandbox.control import Control
from understudy.sandbox.direct import run_directly
from understudy.sandbox.spec import CommandResult


async def run(*argv: str, cwd: Path, timeout: float | None = None) -> tuple[CommandResult, Output]:
    output = Output()
    return await asyncio.wait_for(run_directly(argv, cwd=str(cwd), env=ENV, timeout=timeout, on_output=output), BOUND), output


async def test_output_and_exit_code_come_back(tmp_path: Path) -> None:
    result, output = await run("sh", "-c", "echo out; echo err >&2; exit 3", cwd=tmp_path)
    assert (result.exit_code, output.text(), output.text("stderr")) == (3, "out\n", "err\n")


async def test_what_cannot_be_executed_is_told(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    missing, _ = await run("no-such-program", cwd=tmp_path)
    plain, _ = await run("./plain", cwd=tmp_path)
    folder, _ = await run("true", cwd=tmp_path / "gone")
    assert [result.exit_code for result in (missing, plain, folder)] == [127, 126, 125]
    assert missing.spawn_error == folder.spawn_error == "No such file or directory (os error 2)"


async def test_a_time_limit_ends_the_whole_group(tmp_path: Path) -> None:
    result, output = await run(
        "sh", "-c", f"sleep {mark('80001')} & trap '' TERM; echo up; sleep {mark('80001')}", cwd=tmp_path, timeout=0.3
    )
    assert (result.exit_code, result.timed_out) == (124, True)
    assert output.text() in ("up\n", "")  # on a busy machine the shell has not begun by then
    await until(lambda: processes_with(mark("80001")) == [])


async def test_cancelling_ends_the_whole_group(tmp_path: Path) -> None:
    output = Output()
    argv = ("sh", "-c", f"sleep {mark('80002')} & echo up; wait")
    task = asyncio.create_task(run_directly(argv, cwd=str(tmp_path), env=ENV, timeout=None, on_output=output))
    await output.until("up")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, BOUND)
    await until(lambda: processes_with(mark("80002")) == [])


async def test_what_ignores_being_asked_to_stop_is_ended(tmp_path: Path) -> None:
    output, control = Output(), Control()
    argv = ("sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done")
    running = run_directly(argv, cwd=str(tmp_path), env=ENV, timeout=None, on_output=output, control=control)
    task = asyncio.create_task(running)
    await output.until("up")
    control.stop()
    assert (await asyncio.wait_for(task, BOUND)).exit_code == 137


async def test_a_command_that_is_stopped_before_it_begins_ends(tmp_path: Path) -> None:
    control = Control()
    control.stop()
    running = run_directly(("sleep", "1000"), cwd=str(tmp_path), env=ENV, timeout=None, on_output=Output(), control=control)
    assert (await asyncio.wait_for(running, BOUND)).signal in (9, 15)


async def test_a_background_process_does_not_keep_the_answer_back(tmp_path: Path) -> None:
    result, output = await run("sh", "-c", f"sleep {mark('80003')} & echo done", cwd=tmp_path)
    assert (result.exit_code, output.text()) == (0, "done\n")
    await until(lambda: processes_with(mark("80003")) == [])


async def test_a_callback_that_fails_ends_the_command(tmp_path: Path) -> None:
    def fail(stream: OutputStream, chunk: bytes) -> None:
        raise ValueError("no room")

    argv = ("sh", "-c", f"echo up; sleep {mark('80004')}")
    with pytest.raises(ValueError, match="no room"):
        await asyncio.wait_for(run_directly(argv, cwd=str(tmp_path), env=ENV, timeout=None, on_output=fail), BOUND)
    await until(lambda: processes_with(mark("80004")) == [])
