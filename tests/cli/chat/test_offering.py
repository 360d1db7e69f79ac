"""Who is offered a chat, and what is said where it cannot be had."""

import sys

import pytest

from tests.cli.chat.screens import ENTER, Terminal
from tests.cli.program import Program

WITHOUT_LIBRARY = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "prompt_toolkit":
            raise ImportError(name)
sys.meta_path.insert(0, Missing())
sys.argv = ["understudy", *sys.argv[1:]]
from understudy.cli.main import main
sys.exit(main())
"""


def test_bare_understudy_at_a_terminal_offers_a_chat(program: Program) -> None:
    program.script({"say": "Hello."})
    with Terminal(program) as terminal:
        terminal.wait("Start a chat here?")
        terminal.type(ENTER)
        terminal.wait("  scripted ·")
        terminal.type("Hi" + ENTER)
        terminal.wait("● Hello.")


@pytest.mark.slow
def test_whoever_does_not_want_it_is_left_alone(program: Program) -> None:
    with Terminal(program) as terminal:
        terminal.wait("[Y/n]")
        terminal.type("n" + ENTER)
        assert terminal.wait_for_end() == 0
    assert program.json("conversations", "--json") == []


def test_in_a_pipe_nothing_is_offered(program: Program) -> None:
    ended = program.run()
    assert (ended.code, ended.out) == (2, "")
    assert "usage: understudy" in ended.err


def test_without_the_library_it_says_how_to_install_it(program: Program) -> None:
    with Terminal(program, "chat", columns=200, command=(sys.executable, "-c", WITHOUT_LIBRARY)) as terminal:
        assert terminal.wait_for_end() == 1
        assert "uv tool install '.[chat]'" in terminal.text
        assert "Traceback" not in terminal.text


@pytest.mark.slow
def test_an_unknown_conversation_is_said_before_anything_is_drawn(program: Program) -> None:
    with Terminal(program, "chat", "12345678") as terminal:
        assert terminal.wait_for_end() == 1
        assert "understudy: no conversation 12345678" in terminal.text
