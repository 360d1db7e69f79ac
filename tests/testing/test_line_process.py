"""A program that speaks in lines: what it says is handed out in order, and its end is told."""

import os
import sys
from pathlib import Path

import pytest

from understudy.testing import LineProcess, ServerDied

ECHO = """
import sys
for line in sys.stdin:
    if line == "die\\n":
        sys.exit("the reason")
    print("heard", line, end="", flush=True)
"""


def echo(cwd: Path) -> LineProcess:
    return LineProcess([sys.executable, "-c", ECHO], cwd=cwd, env=dict(os.environ))


async def test_lines_are_handed_out_in_order_and_the_end_of_input_ends_it(tmp_path: Path) -> None:
    async with echo(tmp_path) as program:
        program.send("one")
        program.send("tw\u00f6")
        assert [await program.next_line(), await program.next_line()] == ["heard one", "heard tw\u00f6"]
    assert (program.exit_code, program.lines) == (0, ["heard one", "heard tw\u00f6"])


async def test_one_that_dies_fails_whoever_waits_with_its_stderr(tmp_path: Path) -> None:
    async with echo(tmp_path) as program:
        program.send("die")
        with pytest.raises(ServerDied, match="exit code 1\nthe reason"):
            await program.next_line()


async def test_one_that_is_killed_is_gone(tmp_path: Path) -> None:
    async with echo(tmp_path) as program:
        await program.kill()
        with pytest.raises(ServerDied, match="after we ended it, exit code -9"):
            await program.next_line()
