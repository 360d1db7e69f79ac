"""A command can be given a pipe as its standard input, by every way to run it, and has no other descriptor of ours."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.sandbox.stage import BOUND, ENV, Output
from tests.sandbox.test_probes import needs_bubblewrap
from understudy.sandbox import Command, Containment, Sandbox
from understudy.sandbox.direct import run_directly
from understudy.sandbox.spec import RungName


async def answers(sandbox: Sandbox, containment: Containment | None, cwd: Path) -> str:
    reader, writer = os.pipe()
    output = Output()
    command = Command(
        ("sh", "-c", "while read line; do echo got $line; done; echo over"), str(cwd), ENV, 15, containment, input=reader
    )
    running = asyncio.create_task(sandbox.run(command, output))
    try:
        os.write(writer, b"one\n")
        await output.until("got one\n")
        os.write(writer, b"two\n")
    finally:
        os.close(writer)
        os.close(reader)
    result = await asyncio.wait_for(running, BOUND)
    assert result.exit_code == 0, (result, output.text("stderr"))
    return output.text()


async def test_what_is_written_is_read_and_its_end_is_noticed(
    sandbox: Sandbox, either: Containment | None, workspace: Path
) -> None:
    assert await answers(sandbox, either, workspace) == "got one\ngot two\nover\n"
    assert await answers(sandbox, either, workspace) == "got one\ngot two\nover\n", "also while a cell waits for a command"


@pytest.mark.parametrize("rung", ["full", "landlock", pytest.param("bubblewrap", marks=needs_bubblewrap)])
async def test_it_is_so_on_every_rung(rung: RungName, contained: Containment, workspace: Path) -> None:
    if os.geteuid() == 0 and rung == "landlock":  # without namespaces nothing runs as root, so the folder is another user's
        os.chown(workspace, 1000, 1000)
        for folder in workspace.parents:
            if folder.stat().st_mode & 0o005 != 0o005:
                folder.chmod(0o755)
    sandbox = Sandbox(rung=rung)
    try:
        assert await answers(sandbox, contained, workspace) == "got one\ngot two\nover\n"
    finally:
        await sandbox.close()


async def test_it_is_so_without_the_helper(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"one\n")
    os.close(writer)
    output = Output()
    running = run_directly(("cat",), cwd=str(tmp_path), env=ENV, timeout=10, on_output=output, source=reader)
    result = await asyncio.wait_for(running, BOUND)
    os.close(reader)
    assert (result.exit_code, output.text()) == (0, "one\n")
