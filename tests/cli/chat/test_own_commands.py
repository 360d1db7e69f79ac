"""Commands and skills of the user's own in `understudy chat`."""

import pytest

from tests.cli.chat.screens import ENTER, TAB, Terminal
from tests.cli.program import Program
from tests.e2e.test_files_on_disk import plant


@pytest.mark.slow
def test_they_are_slash_commands_and_in_the_help(program: Program) -> None:
    plant(program.home.parent)
    program.script({"say": "Fixed."})
    with Terminal(program, "chat") as terminal:
        terminal.wait("  scripted ·")
        terminal.type("/sub:fix 12" + ENTER)
        terminal.wait_for_turn("● Fixed.")
        terminal.type("/nothing" + ENTER)
        terminal.wait("there is no /nothing")
        terminal.type("\x15/help" + ENTER)
        terminal.wait("Answer in verse.")


def test_they_are_offered_while_one_types_and_completed_by_tab(program: Program) -> None:
    plant(program.home.parent)
    program.script({"say": "Fixed."})
    with Terminal(program, "chat") as terminal:
        terminal.wait("  scripted ·")
        terminal.type("/SU")
        terminal.wait("/sub:fix")
        terminal.wait("Fix a ticket")
        terminal.type(TAB)
        terminal.wait("❯ /sub:fix")
        terminal.type("12" + ENTER)
        terminal.wait_for_turn("● Fixed.")
        assert "/sub:fix 12" in terminal.text
