"""docs/chat.md: its lines are started, and its tables say what there is."""

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.chat.screens import Terminal
from tests.cli.program import Program
from understudy.cli.chat.typed import SLASHES

PAGE = (Path(__file__).parents[3] / "docs" / "chat.md").read_text()
LINES = re.findall(r"^understudy chat.*$", PAGE, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES)
async def test_each_line_of_the_page_starts_a_chat(program: Program, line: str) -> None:
    program.script({"say": "Hello."})
    (program.cwd / "src").mkdir()
    await program.begin("Something earlier")
    words = shlex.split(line, comments=True)
    model = words[words.index("-m") + 1] if "-m" in words else "scripted"
    with Terminal(program, *words[1:]) as terminal:
        terminal.wait(f"  {model} ·")


def test_the_page_has_every_command() -> None:
    assert re.findall(r"^\| `/(\w+)", PAGE, re.MULTILINE) == [slash.name for slash in SLASHES]
