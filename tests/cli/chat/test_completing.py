"""What the chat offers while one types: commands, and the files that the agent may read."""

import base64
import json
import re

import pytest

from tests.cli.chat.screens import ENTER, TAB, Terminal
from tests.cli.program import Program

READY = "  scripted ·"
PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==")


@pytest.mark.slow
def test_files_are_offered_behind_at_but_not_those_that_are_masked(program: Program) -> None:
    program.script({"say": "Read."}, approval_policy="never")
    (program.home / "config.toml").write_text(
        (program.home / "config.toml").read_text() + f"[understudy.sandbox]\nmask = [{json.dumps(str(program.cwd / 'secrets'))}]\n"
    )
    (program.cwd / "secrets").mkdir()
    for name in ("secrets/report.txt", "report.txt", "other.md"):
        (program.cwd / name).write_text("x")
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type("Look at @rep")
        shown = terminal.wait("  report.txt")
        assert "secrets" not in shown
        assert "other.md" not in shown
        terminal.type(TAB)
        terminal.wait("❯ Look at @report.txt")
        terminal.type(ENTER + ENTER)
        terminal.wait("● Read.")
        assert "❯ Look at @report.txt" in terminal.text


def test_commands_are_offered_with_what_they_do(program: Program) -> None:
    program.script({"say": "Never."})
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type("/pl")
        terminal.wait("the plan as it stands")
        terminal.type(TAB)
        terminal.wait("❯ /plan")
        terminal.type(ENTER)
        terminal.wait("there is no plan yet")


@pytest.mark.slow
def test_an_image_named_by_its_path_is_sent_along(program: Program) -> None:
    program.script({"say": "A pixel."}, {"say": "Another one."})
    (program.cwd / "dot.png").write_bytes(PIXEL)
    outside = program.home / "a dot.png"
    outside.write_bytes(PIXEL)
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type("What is @dot.png ?" + ENTER)
        terminal.wait_for_turn("● A pixel.")
        assert "[1 image]" in terminal.text
        terminal.paste(f"'{outside}'")  # as a terminal pastes a file that is dropped on it
        terminal.wait(f'❯ @"{outside}"'[:60])
        terminal.type("?" + ENTER)
        terminal.wait_for_turn("● Another one.")
        assert len(re.findall(r"\[1\s+image\]", terminal.text)) == 2  # a long path breaks the line
        terminal.type("/image nowhere.png" + ENTER)
        terminal.wait("image nowhere.png cannot be read")
