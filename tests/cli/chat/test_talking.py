"""`understudy chat`: a person types, the agent works, and what both say stays on the terminal."""

import json
from pathlib import Path

import pytest

from tests.cli.chat.screens import CTRL_C, CTRL_D, CTRL_O, ENTER, ESC, TAB, UP, Terminal
from tests.cli.program import Program

READY = "  scripted ·"
LOOK = {"call": "shell", "arguments": {"command": ["seq", "1", "40"]}}
SLOW = {"call": "shell", "arguments": {"command": ["sleep", "60"]}}


def conversations(program: Program) -> list[str]:
    return [entry["conversation_id"] for entry in program.json("conversations", "--json")]


def test_an_answer_streams_as_markdown_and_stays_in_the_terminals_history(program: Program) -> None:
    text = "# A title\n\nSome **bold** words and `code`.\n\n- one\n- two\n\n```python\ndef f():\n    return 1\n```\n"
    program.script([{"say": text, "pace": 0.001}], {"say": "Second."})
    with Terminal(program, "chat", lines=12) as terminal:
        terminal.wait(READY)
        terminal.type("Hello\r")
        terminal.wait("return 1")
        terminal.wait("  scripted ·", gone="working")
        terminal.type("Again\r")
        terminal.wait("● Second.")
        lines = terminal.text.splitlines()
        for line in (
            "❯ Hello",
            "● A title",
            "  Some bold words and code.",
            "   • one",
            "    def f():",
            "        return 1",
            "❯ Again",
        ):
            assert lines.count(line) == 1, f"{line}:\n{terminal.text}"
        terminal.type(CTRL_D)
        assert terminal.wait_for_end() == 0
        assert f"understudy chat {conversations(program)[0]}" in terminal.text


@pytest.mark.slow
def test_output_is_folded_and_unfolds_by_key_and_by_command(program: Program) -> None:
    program.script([{"say": "I look."}, LOOK], {"say": "Forty."})
    with Terminal(program, "chat", lines=60) as terminal:
        terminal.wait(READY)
        terminal.type("Count\r")
        terminal.wait("● Forty.")
        assert "│ … 35 more lines · /show 1" in terminal.text
        assert "│ 20" not in terminal.text
        terminal.type(CTRL_O)
        terminal.wait(lambda text: text.count("│ 20\n") == 1)
        terminal.type("/show 1\r")
        terminal.wait(lambda text: text.count("│ 20\n") == 2)
        terminal.type("/show 7\r")
        terminal.wait("nothing is folded under 7")


@pytest.mark.slow
def test_what_is_typed_while_it_works_steers_the_turn(program: Program) -> None:
    program.script(LOOK | {"arguments": {"command": ["sh", "-c", "read x < go"]}}, {"say": "I read both."})
    fifo = program.cwd / "go"
    make_fifo(fifo)
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type("First\r")
        terminal.wait("$ sh -c 'read x < go'")
        assert "Enter steers" in terminal.wait("working")
        terminal.type("And this too\r")
        terminal.wait_until_sent("And this too")
        fifo.write_text("on\n")
        terminal.wait("● I read both.")
    one = conversations(program)[0]
    told = [json.loads(line)["msg"]["type"] for line in program.run("show", one, "--json").out.splitlines()]
    assert told.count("task_started") == 1, "the message joined the turn"


@pytest.mark.slow
def test_a_queued_message_is_sent_when_the_turn_is_over(program: Program) -> None:
    program.script(LOOK | {"arguments": {"command": ["sh", "-c", "read x < go"]}}, {"say": "One."}, {"say": "Two."})
    fifo = program.cwd / "go"
    make_fifo(fifo)
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type("First\r")
        terminal.wait("$ sh -c")
        terminal.type(f"Later{TAB}")
        terminal.wait("queued: Later")
        assert "❯ Later" not in terminal.text
        fifo.write_text("on\n")
        terminal.wait("● Two.", gone="queued:")
        assert terminal.text.index("● One.") < terminal.text.index("❯ Later") < terminal.text.index("● Two.")


@pytest.mark.slow
def test_escape_interrupts_and_the_next_message_begins_a_new_turn(program: Program) -> None:
    program.script(SLOW, {"say": "Back again."})
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type("Rest\r")
        terminal.wait("$ sleep 60")
        terminal.type(ESC)
        terminal.wait("interrupted", gone="Esc interrupts")
        terminal.type("And now?\r")
        terminal.wait("● Back again.")


@pytest.mark.slow
def test_ctrl_c_clears_the_line_and_twice_leaves(program: Program) -> None:
    program.script({"say": "Hello."})
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type("never sent")
        terminal.wait("❯ never sent")
        terminal.type(CTRL_C)
        terminal.wait(READY, gone="never sent")
        assert terminal.leave_with_ctrl_c() == 0
    assert "never sent" not in program.run("show", conversations(program)[0]).out


@pytest.mark.slow
def test_a_new_line_is_typed_with_alt_enter_or_a_backslash(program: Program) -> None:
    program.script({"say": "Three lines."})
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type(f"one{ESC}{ENTER}two\\{ENTER}three")
        terminal.wait("  three")
        terminal.type(ENTER)
        terminal.wait("● Three lines.")
    assert "one\n  two\n  three" in program.run("show", conversations(program)[0]).out


@pytest.mark.slow
def test_earlier_messages_come_back_with_up_also_in_the_next_chat(program: Program) -> None:
    program.script({"say": "One."}, {"say": "Two."})
    key = "sk-" + "a1b2c3d4" * 4
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type("remember me\r")
        terminal.wait("● One.")
        terminal.type(f"my key is {key}\r")
        terminal.wait("● Two.")
    kept = program.home / "understudy" / "chat-history.jsonl"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.read_text() == '"remember me"\n', "what looks like a secret is not kept"
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type("x")
        terminal.wait("❯ x")  # the history is read while the first screen is drawn
        terminal.type(UP)
        terminal.wait("❯ remember me")


@pytest.mark.slow
@pytest.mark.parametrize(("typed", "told"), [("/modell", "/model"), ("/dif", "/diff"), ("/xyzzy", "/help lists")])
def test_an_unknown_command_is_answered_with_what_was_meant(program: Program, typed: str, told: str) -> None:
    program.script({"say": "Never."})
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type(f"{typed} {ENTER}")
        assert told in terminal.wait(f"there is no {typed}")


def make_fifo(path: Path) -> None:
    import os

    os.mkfifo(path)
