"""`understudy chat` on terminals of every kind: narrow, wide, resized, plain, in other encodings, or none at all."""

import os
import re
import signal

import pytest

from tests.cli.chat.screens import CTRL_C, CTRL_D, ENTER, Terminal
from tests.cli.chat.test_questions import ASKING, asked
from tests.cli.program import LONGEST, Program

READY = "  scripted ·"
EVIL = "\x1b[2J\x1b]0;title\x07\x1b[31mred\x1b[0m\r└ exit 0, fine\u202e\x9b5A\x07"
ALLOWED = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>78]|\x1b\[[0-9]+ q")


def test_what_models_and_commands_write_cannot_reach_the_terminal(program: Program) -> None:
    program.script(
        [
            {
                "say": f"Look{EVIL}\n\n```\n{EVIL}\n```\n\n| a |\n|---|\n| {EVIL} [x](http://e\x1b]8;;evil) |\n",
                "pace": 0.01,
            }
        ],
        [{"think": f"Hm{EVIL}"}, {"call": "shell", "arguments": {"command": ["printf", EVIL]}}],
        {"call": "shell", "arguments": {"command": ["printf", EVIL], "with_escalated_permissions": True, "justification": EVIL}},
        {"say": "Done."},
    )
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type("Look" + ENTER)
        terminal.wait_for_turn("● Look")
        asked(terminal, "Go on")
        terminal.type("y")
        terminal.wait("● Done.")
        written = terminal.raw.decode()
        for forbidden in ("\x1b[2J", "\x1b]", "\x07", "\u202e", "\x9b"):
            assert forbidden not in written, repr(forbidden)
        assert "\n└" not in terminal.text, "a line that is forged stands deeper than ours"
        rest = ALLOWED.sub(b"", terminal.raw)
        assert b"\x1b" not in rest, rest


@pytest.mark.slow
@pytest.mark.parametrize("columns", [40, 200])
def test_no_line_is_wider_than_the_terminal(program: Program, columns: int) -> None:
    words = "Some words that go on for a while, with `code` and **more** of it. " * 8
    program.script(
        [{"say": words + "\n\n- an item " * 3 + "\n\n| one | two |\n|---|---|\n| a | " + "b " * 60 + "|\n"}],
        {"call": "shell", "arguments": {"command": ["seq", "-s", " ", "1", "200"]}},
        {"say": "Done."},
    )
    with Terminal(program, "chat", columns=columns) as terminal:
        terminal.wait(READY)
        terminal.type("Tell me" + ENTER)
        terminal.wait_for_turn("● Some words")
        terminal.type("/help" + ENTER)
        terminal.wait("/quit")
        text = terminal.text
        assert max(len(line) for line in text.splitlines()) <= columns
        told = text[text.index("● Some") : text.index("an item")]
        assert set(told.split()) <= {*words.replace("`", "").replace("*", "").split(), "●", "•"}, "no word is cut"


@pytest.mark.slow
def test_the_window_can_change_its_size_at_any_time(program: Program) -> None:
    program.script(ASKING, {"say": "Done " * 30})
    with Terminal(program, "chat", columns=120) as terminal:
        asked(terminal)
        terminal.resize(50, 30)
        terminal.wait("[y] yes  [s] always")
        terminal.resize(160, 45)
        terminal.wait("[s] yes, for the session")
        terminal.type("y")
        terminal.wait_for_turn("● Done")
        terminal.resize(44, 20)
        terminal.type("still here")
        assert terminal.wait("❯ still here").count("❯ still here") == 1


@pytest.mark.slow
def test_a_paste_of_ten_thousand_lines_is_one_mark_and_is_sent_whole(program: Program) -> None:
    program.script({"say": "Long."})
    text = "\n".join(f"line {number}" for number in range(10_000))
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type("Look: ")
        terminal.paste(text)
        terminal.wait("❯ Look: [paste 1: 10000 lines]")
        terminal.type(" and more" + ENTER)
        terminal.wait_for_turn("● Long.")
        assert "… 9995 more lines · /show 1" in terminal.text
    one = program.json("conversations", "--json")[0]["conversation_id"]
    shown = program.run("show", one, "--json").out
    assert "line 0\\nline 1\\n" in shown
    assert "line 9999 and more" in shown


@pytest.mark.slow
def test_no_color_is_respected(program: Program) -> None:
    program.script([{"say": "# Title\n\n`code`\n\n```python\nx = 1\n```\n"}], ASKING, {"say": "Done."})
    with Terminal(program, "chat", env={"NO_COLOR": "1"}) as terminal:
        terminal.wait(READY)
        terminal.type("Look" + ENTER)
        terminal.wait_for_turn("● Title")
        asked(terminal, "Go on")
        assert not re.search(rb"\x1b\[[0-9;]*[349][0-7](;[0-9;]*)?m", terminal.raw)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_other_encodings_get_plain_marks(program: Program, encoding: str) -> None:
    program.script([{"say": "Grüße ✓\n\n- one\n"}, ASKING], {"say": "Done."})
    env = {"PYTHONIOENCODING": encoding, "LANG": "C", "PYTHONUTF8": "0"}
    with Terminal(program, "chat", env=env, encoding=encoding) as terminal:
        terminal.wait(READY.replace("·", "-" if encoding == "ascii" else "·"))
        terminal.type("Look" + ENTER)
        terminal.wait("[y] yes")
        assert "* Gr" in terminal.text
        terminal.type("y")
        terminal.wait("* Done.")
        assert terminal.raw.decode(encoding)
        assert "> Look" in terminal.text


@pytest.mark.slow
def test_a_dumb_terminal_is_read_and_written_line_by_line(program: Program) -> None:
    program.script(ASKING, ASKING, {"say": "As you like."})
    with Terminal(program, "chat", env={"TERM": "dumb"}) as terminal:
        terminal.wait("conversation ")
        terminal.type("Make a file\n")
        terminal.wait("uit the turn?")
        terminal.type("what?\n")
        terminal.wait("Please answer y, s, n or q.")
        terminal.type("n not that one\n")
        terminal.wait("not that one")
        terminal.wait(lambda text: text.count("uit the turn?") == 3)
        terminal.type("y\n")
        terminal.wait_for_turn("● As you like.")
        terminal.type("/modle\n")
        terminal.wait("did you mean /model?")
        terminal.type(CTRL_D)
        assert terminal.wait_for_end() == 0
        assert b"\x1b" not in terminal.raw
    assert (program.cwd / "made.txt").exists()


@pytest.mark.slow
def test_ctrl_c_on_a_dumb_terminal_interrupts_and_then_leaves(program: Program) -> None:
    program.script({"call": "shell", "arguments": {"command": ["sh", "-c", "touch begun; sleep 60"]}})
    with Terminal(program, "chat", env={"TERM": "dumb"}) as terminal:
        terminal.wait("conversation ")
        terminal.type("Rest\n")
        terminal.wait("$ sh -c")
        terminal.type(CTRL_C)
        terminal.wait("interrupted")
        terminal.type(CTRL_C)
        assert terminal.wait_for_end() == 0


def test_where_there_is_no_terminal_it_says_what_to_use(program: Program) -> None:
    ended = program.run("chat")
    assert (ended.code, ended.out) == (1, "")
    assert "needs a terminal" in ended.err
    assert "understudy exec" in ended.err


@pytest.mark.slow
def test_the_terminal_is_left_as_it_was_found(program: Program) -> None:
    program.script({"say": "Hello."})
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        assert terminal.settings() != terminal.initial_settings
        terminal.type(CTRL_D)
        assert terminal.wait_for_end() == 0
        assert terminal.settings() == terminal.initial_settings


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_leaves_the_terminal_as_it_was(program: Program, number: signal.Signals) -> None:
    program.script({"call": "shell", "arguments": {"command": ["sleep", "60"]}})
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type("Rest" + ENTER)
        terminal.wait("$ sleep 60")
        os.kill(terminal.process.pid, number)
        assert terminal.wait_for_end() == 128 + number
        assert terminal.settings() == terminal.initial_settings
        assert "Traceback" not in terminal.text


@pytest.mark.slow
def test_a_terminal_that_goes_away_ends_it_without_a_word(program: Program) -> None:
    program.script({"call": "shell", "arguments": {"command": ["sh", "-c", "read x < go"]}}, {"say": "Never."})
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type("Rest" + ENTER)
        terminal.wait("$ sh -c")
        terminal.hang_up()
        assert terminal.process.wait(LONGEST) != 0
    listed = program.json("conversations", "--json")[0]
    assert listed["status"] == "idle", "the turn is closed"


@pytest.mark.slow
def test_bytes_that_are_no_text_can_be_typed_and_sent(program: Program) -> None:
    program.script({"say": "Odd."})
    with Terminal(program, "chat") as terminal:
        terminal.wait(READY)
        terminal.type_bytes(b"odd \xff\xfe bytes\r")
        terminal.wait_for_turn("● Odd.")
        assert "❯ odd ?? bytes" in terminal.text
