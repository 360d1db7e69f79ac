"""Commands with a terminal of their own, on every rung: they can be typed at, and cannot leave or outlive it."""

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.sandbox.arena import PLAIN_UID, Arena, arena
from tests.sandbox.stage import BOUND, Output, processes_with, until
from tests.sandbox.test_probes import needs_bubblewrap
from understudy.sandbox import Command, CommandResult, Containment, RungName, Sandbox
from understudy.sandbox.cell.plan import GRACE_SECONDS
from understudy.sandbox.control import MOST_UNSENT, Control
from understudy.sandbox.direct import run_directly

RUNGS = ["full", "landlock", pytest.param("bubblewrap", marks=needs_bubblewrap), "uncontained"]
ENV = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "TERM": "xterm", "PS1": "$ "}


def unique() -> str:
    """A number that no other process on this machine has among its arguments; also a time to sleep."""
    return str(100_000_000 + secrets.randbelow(900_000_000))


class Stage(NamedTuple):
    sandbox: Sandbox
    containment: Containment | None
    workspace: Path

    @asynccontextmanager
    async def begin(self, *argv: str, terminal: bool = True, grace_seconds: float = GRACE_SECONDS) -> AsyncGenerator["Typing"]:
        """A command under way; it is ended with the block, if it has not by then."""
        control, output = Control(terminal=terminal), Output()
        command = Command(argv, str(self.workspace), ENV, None, self.containment, control=control, grace_seconds=grace_seconds)
        task = asyncio.create_task(self.sandbox.run(command, output))
        try:
            yield Typing(control, output, task)
        finally:
            task.cancel()
            await asyncio.wait([task], timeout=BOUND)


class Typing(NamedTuple):
    control: Control
    output: Output
    task: "asyncio.Task[CommandResult]"

    async def types(self, text: str, until: str) -> None:
        assert self.control.write(text.encode())
        await self.output.until(until)

    async def ended(self) -> CommandResult:
        return await asyncio.wait_for(asyncio.shield(self.task), BOUND)


@pytest.fixture(scope="module")
def ground() -> Generator[Arena]:
    with arena(PLAIN_UID if os.geteuid() == 0 else os.geteuid()) as stage:
        yield stage


@pytest.fixture(params=RUNGS)
async def stage(request: pytest.FixtureRequest, ground: Arena) -> AsyncGenerator[Stage]:
    rung: RungName | None = None if request.param == "uncontained" else request.param
    lists = ("writable_roots", "masked", "protected")
    fields: dict[str, Any] = {name: tuple(value) if name in lists else value for name, value in ground.containment().items()}
    sandbox = Sandbox(rung=rung)
    try:
        yield Stage(sandbox, None if request.param == "uncontained" else Containment(**fields), ground.workspace)
    finally:
        await sandbox.close()


@pytest.mark.quick(1)
async def test_what_is_typed_is_echoed_and_read(stage: Stage) -> None:
    async with stage.begin("bash", "-c", "read x; echo got $x; read y; echo bye $y") as typing:
        await typing.types("hello\n", "got hello\r\n")
        await typing.types("you\n", "bye you")
        assert (await typing.ended()).exit_code == 0
    assert typing.output.text() == "hello\r\ngot hello\r\nyou\r\nbye you\r\n"
    assert not typing.control.write(b"too late\n")


async def test_it_is_a_terminal_in_every_respect(stage: Stage) -> None:
    script = "test -t 0 && test -t 1 && test -t 2 && stty size && echo to the terminal > /dev/tty"
    async with stage.begin("sh", "-c", script) as typing:
        assert (await typing.ended()).exit_code == 0
    assert typing.output.text() == "24 80\r\nto the terminal\r\n"


async def test_ctrl_c_interrupts_the_program_and_not_what_contains_it(stage: Stage) -> None:
    # One long sleep would miss a signal that comes just before it: Python looks for signals between two instructions.
    script = (
        "import time\ntry:\n print('up', flush=True)\n while True: time.sleep(0.05)\nexcept KeyboardInterrupt:\n print('caught')\n"
    )
    async with stage.begin("python3", "-c", script) as typing:
        await typing.types("", "up")
        await typing.types("\x03", "caught")
        assert (await typing.ended()).exit_code == 0


@pytest.mark.quick(1)
async def test_ctrl_c_ends_a_program_that_does_not_catch_it(stage: Stage) -> None:
    async with stage.begin("sh", "-c", "echo up; exec sleep 600") as typing:
        await typing.types("", "up")
        await typing.types("\x03", "^C")
        assert (await typing.ended()).exit_code == 130


async def test_ctrl_d_ends_the_input(stage: Stage) -> None:
    async with stage.begin("cat") as typing:
        await typing.types("word\n", "word\r\nword\r\n")
        assert typing.control.write(b"\x04")
        assert (await typing.ended()).exit_code == 0


async def test_an_interactive_shell_has_job_control(stage: Stage) -> None:
    async with stage.begin("bash", "--norc", "--noprofile", "-i") as typing:
        await typing.types("sh -c 'echo u''p; exec sleep 600'\n", "up\r\n")
        await typing.types("\x1a", "Stopped")


async def test_a_python_prompt_answers(stage: Stage) -> None:
    async with stage.begin("env", "PYTHON_BASIC_REPL=1", "NO_COLOR=1", "python3", "-q", "-i") as typing:
        await typing.types("", ">>> ")
        await typing.types("6 * 7\n", "42")
        await typing.types("exit()\n", "exit()")
        assert (await typing.ended()).exit_code == 0


async def test_all_that_was_printed_last_arrives(stage: Stage) -> None:
    async with stage.begin("python3", "-c", "print('x' * 60_000 + 'last')") as typing:
        assert (await typing.ended()).exit_code == 0
    assert typing.output.text() == "x" * 60_000 + "last\r\n"


async def test_without_a_terminal_there_is_no_input_and_it_can_be_stopped(stage: Stage) -> None:
    async with stage.begin("sh", "-c", "cat; echo empty; sleep 600", terminal=False, grace_seconds=BOUND) as typing:
        await typing.output.until("empty\n")
        assert not typing.control.write(b"x")
        typing.control.stop()
        assert (await typing.ended()).exit_code == 143


async def test_what_ignores_being_asked_to_stop_is_ended(stage: Stage) -> None:
    async with stage.begin("sh", "-c", "trap '' TERM HUP; echo up; while :; do sleep 1; done", terminal=False) as typing:
        await typing.output.until("up\n")
        typing.control.stop()
        assert (await typing.ended()).exit_code in (137, 143)  # bubblewrap itself does not ignore it


async def test_what_was_left_in_sessions_of_its_own_ends_with_the_command(stage: Stage) -> None:
    mark = unique()
    script = (
        f"setsid sh -c 'trap \"\" HUP; sleep {mark}' & (setsid nohup sleep {mark} >/dev/null 2>&1 &) ; sleep 0.2; echo up; read x"
    )
    async with stage.begin("bash", "-c", script) as typing:
        await typing.types("", "up")
        await until(lambda: len(processes_with(mark)) >= 2)
        await typing.types("\n", "\r\n")
        assert (await typing.ended()).exit_code == 0
    await until(lambda: processes_with(mark) == [])


async def test_a_program_that_stops_itself_can_still_be_ended(stage: Stage) -> None:
    mark = unique()
    async with stage.begin("sh", "-c", f"echo up {mark}; kill -STOP $$; echo never") as typing:
        await typing.types("", "up")
        typing.task.cancel()
        await asyncio.wait([typing.task], timeout=BOUND)
        assert typing.task.cancelled()
    await until(lambda: processes_with(mark) == [])


@pytest.mark.slow
async def test_a_flood_is_read_within_bounds_and_other_work_goes_on(stage: Stage) -> None:
    async with stage.begin("sh", "-c", "yes | head -c 3000000; echo over") as typing:
        ticks = 0
        while not typing.task.done():
            await asyncio.sleep(0.01)
            ticks += 1
        assert (await typing.ended()).exit_code == 0
    assert ticks > 1
    assert typing.output.text().endswith("over\r\n")


async def test_input_that_nobody_reads_is_bounded_and_an_interrupt_gets_past_it(stage: Stage) -> None:
    async with stage.begin("sh", "-c", "stty -echo; echo up; exec sleep 600") as typing:
        await typing.types("", "up")
        taken = 0
        while typing.control.write(b"line\n" * 200):
            taken += 1000
            await asyncio.sleep(0)
            assert taken < MOST_UNSENT * 4
        assert typing.control.write(b"\x03")
        assert (await typing.ended()).exit_code == 130


ATTACKS = """
import fcntl, glob, os, sys, termios
for name in set(sys.argv[1:]) - {os.ttyname(0)}:  # in a cell its own may be called like one outside
    try:
        os.close(os.open(name, os.O_RDWR | os.O_NOCTTY)); print("opened", name)
    except OSError as error:
        print("refused", error.strerror)
for path in ("/dev/tty", *glob.glob("/dev/pts/[0-9]*")):
    try:
        terminal = os.open(path, os.O_RDWR | os.O_NOCTTY)
        fcntl.ioctl(terminal, termios.TIOCSTI, b"!"); print("typed into", path)
    except OSError as error:
        print("refused", error.strerror)
"""


async def test_terminals_of_others_cannot_be_opened_nor_anything_typed_into_any(stage: Stage, ground: Arena) -> None:
    if stage.containment is None:
        pytest.skip("nothing is kept from it")
    master, slave = os.openpty()
    try:
        async with stage.begin("python3", "-c", ATTACKS, ground.facts["terminal"], os.ttyname(slave)) as typing:
            await typing.ended()
    finally:
        os.close(master)
        os.close(slave)
    told = typing.output.text()
    assert "opened" not in told, told
    assert "typed into" not in told, told
    assert told.count("refused") >= 2, told


async def test_masks_and_roots_hold_at_a_terminal(stage: Stage, ground: Arena) -> None:
    if stage.containment is None:
        pytest.skip("nothing is kept from it")
    outside, secret = ground.folder / "parent" / "outside" / "made", ground.folder / "home" / ".secrets"
    script = f"touch mine && echo yes; touch {outside} || echo kept; ls -A {secret}; echo x > .git/config || echo kept"
    if stage.sandbox.rung.name == "landlock":
        script = f"touch mine && echo yes; touch {outside} || echo kept; cat {secret}/* || echo kept"
    async with stage.begin("bash", "-c", script) as typing:
        await typing.ended()
    assert not outside.exists()
    assert typing.output.text().count("kept") == 2
    assert "secret content" not in typing.output.text()


async def test_a_time_limit_ends_it(stage: Stage) -> None:
    control, output = Control(terminal=True), Output()
    command = Command(("sh", "-c", "echo up; sleep 600"), str(stage.workspace), ENV, 0.5, stage.containment, control=control)
    result = await asyncio.wait_for(stage.sandbox.run(command, output), BOUND)
    assert (result.exit_code, result.timed_out) == (124, True)


async def test_the_server_of_another_platform_gives_terminals_too(tmp_path: Path) -> None:
    control, output = Control(terminal=True), Output()
    argv = ("bash", "-c", "stty size; read x; echo got $x; sleep 600")
    task = asyncio.create_task(run_directly(argv, cwd=str(tmp_path), env=ENV, timeout=BOUND, on_output=output, control=control))
    await output.until("24 80")
    assert control.write(b"word\n")
    await output.until("got word")
    assert control.write(b"\x03")
    assert (await asyncio.wait_for(task, BOUND)).exit_code == 130
    assert not control.write(b"late")
