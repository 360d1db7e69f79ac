"""Questions in `understudy chat`: shown whole, answered by one key, and never by accident."""

import json

import pytest

from tests.cli.chat.screens import ENTER, ESC, TAB, Terminal
from tests.cli.program import Program

READY = "  scripted ·"
ASKING = {
    "call": "shell",
    "arguments": {"command": ["touch", "made.txt"], "with_escalated_permissions": True, "justification": "to see it made"},
}
PATCH = """*** Begin Patch
*** Update File: old.txt
@@
-one
+two\u202e
*** End Patch
"""


def asked(terminal: Terminal, prompt: str = "Make a file") -> str:
    """Type it, and wait until keys answer the question."""
    terminal.wait(READY)
    terminal.type(prompt + ENTER)
    return terminal.wait("[y] yes")


def test_a_question_shows_the_exact_command_and_what_a_yes_lifts_and_y_approves(program: Program) -> None:
    program.script(ASKING, {"say": "It is made."})
    with Terminal(program, "chat") as terminal:
        shown = asked(terminal)
        assert "? Allow the agent to run `touch made.txt`" in shown
        assert "If approved it runs outside the sandbox" in shown
        assert '"to see it made"' in shown
        for key in ("[y]", "[s]", "[n]", "[q]"):
            assert key in shown
        terminal.type("y")
        terminal.wait("● It is made.", gone="[y]")
        assert "└ approved" in terminal.text
    assert (program.cwd / "made.txt").exists()


@pytest.mark.slow
def test_s_approves_the_same_for_the_conversation(program: Program) -> None:
    program.script(ASKING, ASKING, {"say": "Twice."})
    with Terminal(program, "chat") as terminal:
        asked(terminal)
        terminal.type("s")
        terminal.wait("● Twice.")
        assert terminal.text.count("Allow the agent to run") == 1


@pytest.mark.slow
def test_n_denies_with_a_word_that_the_model_reads(program: Program) -> None:
    program.script(ASKING, {"say": "Then not."})
    with Terminal(program, "chat") as terminal:
        asked(terminal)
        terminal.type("n")
        terminal.wait("no, because:")
        terminal.type("use another name" + ENTER)
        terminal.wait("● Then not.")
        assert "└ denied" in terminal.text
        assert "❯ use another name" in terminal.text
    assert not (program.cwd / "made.txt").exists()
    one = program.json("conversations", "--json")[0]["conversation_id"]
    told = [json.loads(line)["msg"] for line in program.run("show", one, "--json").out.splitlines()]
    assert [msg["type"] for msg in told].count("task_started") == 1, "the word is read by the same turn"


@pytest.mark.slow
def test_n_and_enter_alone_denies_and_escape_goes_back_to_the_question(program: Program) -> None:
    program.script(ASKING, {"say": "Then not."})
    with Terminal(program, "chat") as terminal:
        asked(terminal)
        terminal.type("n")
        terminal.wait("no, because:")
        terminal.type(ESC)
        terminal.wait("[y] yes", gone="because")
        terminal.type("n")
        terminal.wait("no, because:")
        terminal.type(ENTER)
        terminal.wait("● Then not.")


@pytest.mark.slow
def test_q_aborts_the_turn_and_escape_interrupts_it(program: Program) -> None:
    program.script(ASKING, ASKING, {"say": "Never."})
    with Terminal(program, "chat") as terminal:
        asked(terminal)
        terminal.type("q")
        terminal.wait("└ abort")
        terminal.wait(READY, gone="[y]")
        asked(terminal, "Again")
        terminal.type(ESC)
        terminal.wait(READY, gone="[y]")
    assert not (program.cwd / "made.txt").exists()


@pytest.mark.slow
def test_what_is_being_typed_when_a_question_comes_does_not_answer_it(program: Program) -> None:
    program.script([{"say": "Wait.", "pace": 0.2}, ASKING], {"say": "Done."})
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type("Make a file\ryyyy sss")  # at once: typed later, on a slow machine, it could be an answer
        terminal.wait("[y] yes")
        assert "❯ yyyy sss" in terminal.display
        assert not (program.cwd / "made.txt").exists()
        terminal.type("y")
        terminal.wait("● Done.")
        assert "❯ yyyy sss" in terminal.display, "what was typed is still there"


@pytest.mark.slow
def test_something_else_can_be_typed_while_a_question_is_open(program: Program) -> None:
    program.script(ASKING, {"say": "Done."})
    with Terminal(program, "chat") as terminal:
        asked(terminal)
        terminal.type(TAB)
        terminal.wait("a question is open")
        terminal.type("/plan" + ENTER)
        terminal.wait("there is no plan yet")
        terminal.type(TAB)
        terminal.wait("[y] yes", gone="a question is open")
        terminal.type("y")
        terminal.wait("● Done.")


@pytest.mark.slow
def test_a_patch_is_shown_whole_before_it_is_asked_about_and_once(program: Program) -> None:
    (program.cwd / "old.txt").write_text("one\n")
    program.script({"call": "apply_patch", "arguments": {"input": PATCH}}, {"say": "Patched."}, approval_policy="untrusted")
    with Terminal(program, "chat") as terminal:
        shown = asked(terminal, "Patch it")
        assert "± update old.txt (+1 -1)" in shown
        assert "  -one" in shown
        assert "  +two\\u{202e}" in shown, "what cannot be seen is made visible"
        assert "Allow the agent to apply proposed code changes?" in shown
        assert "[s]" not in shown
        terminal.type("y")
        terminal.wait("● Patched.")
        assert terminal.text.count("± update old.txt") == 1
        assert "└ applied" in terminal.text
        terminal.type("/diff" + ENTER)
        terminal.wait("changed by turn")
    assert (program.cwd / "old.txt").read_text() == "two\u202e\n"


@pytest.mark.slow
def test_of_a_very_long_patch_all_can_be_viewed_before_the_answer(program: Program) -> None:
    patch = "*** Begin Patch\n*** Add File: long.txt\n" + "".join(f"+line {number}\n" for number in range(300)) + "*** End Patch\n"
    program.script({"call": "apply_patch", "arguments": {"input": patch}}, {"say": "Added."}, approval_policy="untrusted")
    with Terminal(program, "chat", columns=120) as terminal:
        terminal.wait(READY)
        terminal.type("Add it" + ENTER)
        terminal.wait("[v] view all of it")
        assert "+line 250" not in terminal.text
        terminal.type("v")
        terminal.wait("+line 299")
        assert "+line 250" in terminal.text
        terminal.type("y")
        terminal.wait("● Added.")
    assert (program.cwd / "long.txt").exists()


@pytest.mark.slow
@pytest.mark.parametrize("columns", [40, 200])
def test_a_question_and_its_keys_fit_narrow_and_wide_terminals(program: Program, columns: int) -> None:
    program.script(ASKING, {"say": "Done."})
    with Terminal(program, "chat", columns=columns) as terminal:
        shown = asked(terminal)
        assert "[q]" in shown
        terminal.type("y")
        terminal.wait("● Done.")


@pytest.mark.slow
def test_ctrl_c_twice_leaves_the_question_open_and_the_next_chat_asks_it_again(program: Program) -> None:
    program.script(ASKING, {"say": "It is made."})
    with Terminal(program, "chat") as terminal:
        asked(terminal)
        assert terminal.leave_with_ctrl_c() == 0
    with Terminal(program, "chat", "--last") as terminal:
        terminal.wait("[y] yes")
        terminal.type("y")
        terminal.wait("● It is made.")
    assert (program.cwd / "made.txt").exists()
