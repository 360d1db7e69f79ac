"""Commands run and tell how they ended."""

import asyncio
from pathlib import Path

import pytest

from tests.sandbox.stage import BOUND, ENV, Output, mark, processes_with, run
from understudy.protocol.choices import OutputStream
from understudy.sandbox import Command, CommandResult, Containment, Limits, Sandbox

WAIT = "sleep 1000 & wait"  # a trap interrupts `wait` at once, and `sleep` not at all


async def test_output_and_exit_code_come_back(sandbox: Sandbox, either: Containment | None, workspace: Path) -> None:
    result, output = await run(sandbox, either, "sh", "-c", "echo out; echo err >&2; exit 3", cwd=workspace)
    assert (result.exit_code, result.signal, result.setup_error, result.spawn_error) == (3, None, None, None)
    assert (output.text(), output.text("stderr")) == ("out\n", "err\n")


async def test_a_program_that_does_not_exist_is_told_as_a_shell_would(
    sandbox: Sandbox, either: Containment | None, workspace: Path
) -> None:
    result, _ = await run(sandbox, either, "no-such-program", cwd=workspace)
    assert (result.exit_code, result.spawn_error) == (127, "No such file or directory (os error 2)")


async def test_a_file_that_is_not_executable_is_told_as_a_shell_would(
    sandbox: Sandbox, either: Containment | None, workspace: Path
) -> None:
    (workspace / "plain.txt").write_text("text")
    result, _ = await run(sandbox, either, "./plain.txt", cwd=workspace)
    assert (result.exit_code, result.spawn_error) == (126, "Permission denied (os error 13)")


async def test_a_script_without_an_interpreter_line_is_run_by_the_shell(
    sandbox: Sandbox, either: Containment | None, workspace: Path
) -> None:
    script = workspace / "script"
    script.write_text("echo $0 $1\n")
    script.chmod(0o755)
    result, output = await run(sandbox, either, "./script", "word", cwd=workspace)
    assert (result.exit_code, output.text()) == (0, "./script word\n")


async def test_a_missing_folder_is_told_and_nothing_runs(sandbox: Sandbox, either: Containment | None, workspace: Path) -> None:
    result, _ = await run(sandbox, either, "touch", str(workspace / "ran"), cwd=workspace / "gone")
    assert (result.exit_code, result.spawn_error) == (125, "No such file or directory (os error 2)")
    assert not (workspace / "ran").exists()


@pytest.mark.parametrize("name", ["SEGV", "TERM", "KILL", "PIPE"])
async def test_death_by_a_signal_is_told(sandbox: Sandbox, either: Containment | None, workspace: Path, name: str) -> None:
    number = {"SEGV": 11, "TERM": 15, "KILL": 9, "PIPE": 13}[name]
    result, _ = await run(sandbox, either, "sh", "-c", f"kill -{name} $$", cwd=workspace)
    assert (result.exit_code, result.signal) == (128 + number, number)


async def test_the_environment_is_exactly_the_one_given(sandbox: Sandbox, either: Containment | None, workspace: Path) -> None:
    command = Command(("/usr/bin/env",), str(workspace), {"PATH": "/bin", "ODD": "a=b\nc"}, BOUND, either)
    output = Output()
    await asyncio.wait_for(sandbox.run(command, output), BOUND)
    assert output.text() == "PATH=/bin\nODD=a=b\nc\n"


async def test_standard_input_is_empty(sandbox: Sandbox, either: Containment | None, workspace: Path) -> None:
    result, output = await run(sandbox, either, "sh", "-c", "cat; tty; echo read", cwd=workspace)
    assert (result.exit_code, output.text()) == (0, "not a tty\nread\n")


async def test_arguments_and_paths_may_be_any_bytes(sandbox: Sandbox, either: Containment | None, workspace: Path) -> None:
    odd = workspace / "a b\n'\udcff"
    odd.mkdir()
    _, output = await run(sandbox, either, "printf", "%s|", "", "ü", "\udcfe", "a b", cwd=odd)
    assert b"".join(chunk for _, chunk in output.chunks) == b"|\xc3\xbc|\xfe|a b|"


@pytest.mark.parametrize("argv", [(), ("",), ("echo", "a\0b"), ("echo", "\ud800")])
async def test_what_no_system_could_execute_is_told(
    sandbox: Sandbox, either: Containment | None, workspace: Path, argv: tuple[str, ...]
) -> None:
    result, output = await run(sandbox, either, *argv, cwd=workspace)
    assert result.exit_code == 125
    assert result.spawn_error
    assert output.chunks == []


async def test_a_relative_path_contains_nothing_so_nothing_runs(sandbox: Sandbox, workspace: Path) -> None:
    for odd in (
        Containment("workspace-write", ("relative",)),
        Containment("workspace-write", (str(workspace),), masked=("~/.ssh",)),
    ):
        result, _ = await run(sandbox, odd, "touch", "ran", cwd=workspace)
        assert result.exit_code == 125
        assert result.setup_error is not None
    assert list(workspace.iterdir()) == []


async def test_a_very_long_command_line_arrives_whole(sandbox: Sandbox, either: Containment | None, workspace: Path) -> None:
    words = ["x" * 100_000] * 10
    _, output = await run(
        sandbox, either, "sh", "-c", 'for word; do printf "%s" "$word"; done | wc -c', "sh", *words, cwd=workspace
    )
    assert output.text().strip() == "1000000"


async def test_a_command_line_that_is_too_long_is_told(sandbox: Sandbox, either: Containment | None, workspace: Path) -> None:
    result, _ = await run(sandbox, either, "true", "x" * 200_000, cwd=workspace)
    assert (result.exit_code, result.spawn_error) == (126, "Argument list too long (os error 7)")


async def test_a_time_limit_ends_what_does_not_heed_it(sandbox: Sandbox, either: Containment | None, workspace: Path) -> None:
    script = f"trap '' TERM; echo up; while :; do {WAIT}; done"
    result, output = await run(sandbox, either, "sh", "-c", script, cwd=workspace, timeout=0.5)
    assert (result.exit_code, result.timed_out) == (124, True)
    assert output.text() in ("up\n", "")  # on a busy machine the shell has not begun by then


async def test_a_command_that_heeds_the_time_limit_may_tidy_up(
    sandbox: Sandbox, either: Containment | None, workspace: Path
) -> None:
    script = f"trap 'echo tidy; exit 0' TERM; echo up; {WAIT}"
    result, output = await limited(sandbox, either, "sh", "-c", script, cwd=workspace)
    assert (result.exit_code, result.timed_out) == (124, True)
    assert output.text().split() == ["up", "tidy"]


async def limited(sandbox: Sandbox, either: Containment | None, *argv: str, cwd: Path) -> tuple[CommandResult, Output]:
    """A command whose time is over once it has said "up", however slow the machine is, and that has all the grace it needs."""
    seconds = 0.5
    while True:
        result, output = await run(sandbox, either, *argv, cwd=cwd, timeout=seconds, grace_seconds=BOUND)
        if "up" in output.text() or seconds > BOUND:
            return result, output
        seconds *= 4


async def test_the_configured_limit_holds_when_the_command_asks_for_more(
    sandbox: Sandbox, contained: Containment, workspace: Path
) -> None:
    limited = Containment(
        "workspace-write", contained.writable_roots, private_tmp=contained.private_tmp, limits=Limits(seconds=0.2)
    )
    result, _ = await run(sandbox, limited, "sleep", "30", cwd=workspace, timeout=25)
    assert result.timed_out


async def test_a_background_process_may_finish_its_last_words(
    sandbox: Sandbox, either: Containment | None, workspace: Path
) -> None:
    _, output = await run(
        sandbox, either, "bash", "-c", "exec > >(sleep 0.02; cat); echo through a pipe", cwd=workspace, grace_seconds=BOUND
    )
    assert output.text() == "through a pipe\n"


async def test_a_callback_that_fails_ends_the_command(sandbox: Sandbox, either: Containment | None, workspace: Path) -> None:
    def fail(stream: OutputStream, chunk: bytes) -> None:
        raise ValueError("no room")

    command = Command(("sh", "-c", f"echo up; sleep {mark('45678')}"), str(workspace), ENV, None, either)
    with pytest.raises(ValueError, match="no room"):
        await asyncio.wait_for(sandbox.run(command, fail), BOUND)
    assert processes_with(mark("45678")) == []


@pytest.mark.quick(1)
async def test_many_commands_run_at_once_and_a_slow_one_delays_nobody(
    sandbox: Sandbox, either: Containment | None, workspace: Path
) -> None:
    slow = asyncio.create_task(run(sandbox, either, "sleep", "30", cwd=workspace, timeout=None))
    async with asyncio.TaskGroup() as tasks:
        quick = [tasks.create_task(run(sandbox, either, "sh", "-c", f"echo {n}", cwd=workspace)) for n in range(60)]
    assert [task.result()[1].text() for task in quick] == [f"{n}\n" for n in range(60)]
    assert not slow.done()
    slow.cancel()
    await asyncio.wait([slow], timeout=BOUND)
    assert slow.cancelled()
