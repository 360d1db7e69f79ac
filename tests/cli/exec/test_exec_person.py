"""`understudy exec` for a person: the steps on standard error, the answer on standard output, questions at the prompt."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests.cli.program import CTRL_C, LONGEST, Program

ASKING = {"command": ["touch", "made.txt"], "with_escalated_permissions": True, "justification": "to see it made"}
PATCH = "*** Begin Patch\n*** Add File: new.txt\n+one\n*** End Patch\n"
PLAN = {"plan": [{"step": "look", "status": "completed"}, {"step": "write", "status": "in_progress"}]}
SKIP = "--skip-git-repo-check"


def test_the_answer_alone_is_on_standard_output(program: Program) -> None:
    program.script(
        {"call": "update_plan", "arguments": PLAN},
        {"call": "shell", "arguments": {"command": ["bash", "-lc", "echo out; exit 3"]}},
        {"call": "apply_patch", "arguments": {"input": PATCH}},
        {"say": "All done."},
    )
    ended = program.run("exec", SKIP, "-s", "workspace-write", "Do it")
    assert (ended.code, ended.out) == (0, "All done.\n")
    for told in (
        "sandbox: workspace-write",
        "approval: never",
        "session id: ",
        "❯ Do it",
        "☑ look",
        "▸ write",
        "$ bash -lc 'echo out; exit 3'",
        "└ exit 3",
        "± add new.txt (+1 -0)",
        "1 file changed",
        "● All done.",
    ):
        assert told in ended.err, told
    assert "\x1b" not in ended.err, "no colours where there is no terminal"


def test_the_answer_comes_also_where_nothing_else_can_be_written(program: Program) -> None:
    program.script({"say": "All done."})
    command = [sys.executable, "-m", "understudy", "exec", SKIP, "go"]
    with open("/dev/full", "wb", buffering=0) as full:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=full,
            cwd=program.cwd,
            env=program.environment(),
            timeout=LONGEST,
            check=False,
        )
    assert (ended.returncode, ended.stdout) == (0, b"All done.\n")


def test_a_failure_is_told_once_and_standard_output_stays_empty(program: Program) -> None:
    program.configure(
        'model_provider = "mock"\nmodel = "m"\n[model_providers.mock]\nname = "m"\nbase_url = "http://127.0.0.1:9/v1"\n'
    )
    ended = program.run("exec", SKIP, "go")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.count("cannot connect") == 1
    assert "retrying" not in ended.err, "where nobody listens on this machine, time alone changes nothing"
    assert "Is the server of m (model provider `mock`) running" in ended.err


def test_at_a_terminal_a_question_is_put_and_answered_there(program: Program) -> None:
    program.script({"call": "shell", "arguments": ASKING}, {"say": "It is made."})
    ended = program.at_terminal("exec", SKIP, "Make a file", answers=[("uit the turn?", "y\n")])
    assert ended.code == 0, ended.out
    assert ended.out.count("It is made.") == 1, "both streams are the terminal, so the answer is shown once"
    assert "approval: on-request" in ended.out
    assert (program.cwd / "made.txt").exists()


@pytest.mark.slow
def test_ctrl_c_at_a_question_ends_the_turn(program: Program) -> None:
    program.script({"call": "shell", "arguments": ASKING}, {"say": "Never."})
    ended = program.at_terminal("exec", SKIP, "Make a file", answers=[("uit the turn?", CTRL_C)])
    assert ended.code == 130, ended.out
    assert not (program.cwd / "made.txt").exists()


@pytest.mark.slow
@pytest.mark.parametrize("columns", [40, 200])
def test_a_long_wait_shows_a_status_line_that_fits_and_leaves_no_trace(program: Program, columns: int) -> None:
    program.script({"call": "shell", "arguments": {"command": ["sh", "-c", "read x < go"]}}, {"say": "Rested."})
    os.mkfifo(program.cwd / "go")
    ended = program.at_terminal(
        "exec", SKIP, "Rest", columns=columns, answers=[("working ", lambda: (program.cwd / "go").write_text("on\n"))]
    )
    drawn = re.findall(r"\r\x1b\[2K\x1b\[2m(working [^\x1b]*)\x1b\[0m", ended.out)
    assert drawn, ended.out
    assert all(len(line) < columns for line in drawn)
    assert ended.out.rindex("\r\x1b[2K") < ended.out.index("Rested.")


def test_nobody_else_can_write_our_lines_or_move_the_cursor(program: Program) -> None:
    evil = "\x1b[2J\x1b]0;title\x07\r└ exit 0, fine\u202e"
    program.script({"call": "shell", "arguments": {"command": ["printf", evil]}}, {"say": f"Look{evil}"})
    ended = program.at_terminal("exec", SKIP, "Look", columns=100)
    assert ended.code == 0, ended.out
    for forbidden in ("\x1b[2J", "\x1b]0", "\u202e"):
        assert forbidden not in ended.out
    assert "\n└" not in ended.out, "a line that is forged stands deeper than ours"


@pytest.mark.slow
def test_no_color_and_other_encodings_are_respected(program: Program) -> None:
    program.script({"say": "Grüße ✓"}, {"say": "Grüße ✓"})
    ended = program.run("exec", SKIP, "--color", "always", "go", env={"PYTHONIOENCODING": "ascii"})
    assert (ended.code, ended.out) == (0, "Gr\\u{fc}\\u{df}e +\n")
    assert "\x1b[" in ended.err
    plain = program.run("exec", SKIP, "--color", "always", "go", env={"NO_COLOR": "1"})
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", plain.err)


@pytest.mark.slow
def test_a_conversation_of_exec_is_everybodys(program: Program) -> None:
    program.script({"say": "One."}, {"say": "Two."})
    assert program.run("exec", SKIP, "first").code == 0
    listed = json.loads(program.run("conversations", "--json").out)
    again = program.run("resume", listed[0]["conversation_id"], "second")
    assert (again.code, "● Two." in again.out) == (0, True)
    shown = program.run("show", listed[0]["conversation_id"])
    assert [word in shown.out for word in ("first", "One.", "second", "Two.")] == [True] * 4
