"""The demo is what a newcomer sees first: it has to run anywhere, show everything, and leave nothing behind."""

import os
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cli.program import Program

IN_THIS_ORDER = (
    "1. A client gives the agent a task.",
    "→ tools/call codex",
    "❯ sh check.sh fails.",
    "$ sh check.sh",
    "└ exit 1",
    "± update hello.sh (+1 -1)",
    '-echo "Helo, $name!"',
    '+echo "Hello, $name!"',
    "└ applied",
    "└ exit 0",
    "? Allow Codex to run `cp hello.sh ../release/`",
    "└ approved",
    "● Done. `hello.sh` says",
    "2. A second client",
    "← everything so far, at once: 1 message, 3 commands, 1 patch, 1 question, 1 finished turn",
    "→ tools/call codex-reply",
    "? Allow Codex to run `rm -r ../release`",
    "✗ kill -9 ",
    "→ tools/call conversationsList",
    ", waiting, ",
    "→ tools/call conversationStream",
    "? Allow Codex to run `rm -r ../release`",
    "└ denied",
    "● You said no",
    "client 2 watched all of it: 2 messages, 3 commands, 1 patch, 2 questions, 2 finished turns",
    ", idle, ",
    "That took ",
)


def _hold(pieces: Sequence[str], out: str) -> None:
    place = 0
    for piece in pieces:
        found = out.find(piece, place)
        assert found >= 0, f"{piece!r} is missing after\n{out[:place]}\nin\n{out[place:]}"
        place = found + len(piece)


def test_the_demo_shows_an_approval_a_patch_a_second_client_and_a_question_that_outlives_its_server(
    program: Program, tmp_path: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    ended = program.run("demo", env={"TMPDIR": str(temporary)})
    assert (ended.code, ended.err) == (0, "")
    _hold(IN_THIS_ORDER, ended.out)
    killed = ended.out.partition("kill -9 ")[2].partition(":")[0]
    assert not Path("/proc", killed).exists()
    assert ended.out.count(f"process {killed}\n") == 1, "the one that was killed had been met as a server"
    assert "\x1b" not in ended.out, "no colours where there is no terminal"
    assert not list(temporary.iterdir())
    assert not list(program.home.iterdir()), "the user's own state is not touched"


ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused by the landlock rung: run the tests as root for it")


@pytest.mark.slow
@pytest.mark.parametrize("rung", ["none of them", pytest.param("landlock", marks=ROOT)])
def test_where_no_sandbox_is_possible_the_demo_says_so_and_asks_about_every_command(program: Program, rung: str) -> None:
    ended = program.run("demo", env={"UNDERSTUDY_SANDBOX_RUNG": rung})
    assert (ended.code, ended.err) == (0, "")
    assert "No sandbox is possible on this machine" in ended.out.splitlines()[2]
    asked = "? Allow Codex to run `sh check.sh`", "There is no sandbox in this mode", "└ approved", "└ exit 1"
    _hold((*asked, "✗ kill -9"), ended.out)


@pytest.mark.slow
def test_a_person_at_a_terminal_is_shown_what_can_be_answered(program: Program) -> None:
    prompt = "  [y]es, yes for the [s]ession, [n]o, [q]uit the turn? "
    ended = program.at_terminal("demo", "--ask", answers=[(prompt, "maybe\n"), (prompt, "n\n"), (prompt, "y\n")])
    assert ended.code == 0, ended.out
    assert ended.out.count(prompt) == 3
    _hold(("Please answer y, s, n or q.", "└ denied", "kill -9", "└ approved"), _plain(ended.out))


def _plain(printed: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", printed)


@pytest.mark.slow
def test_the_wire_is_shown_a_readable_line_a_message(program: Program) -> None:
    ended = program.run("demo", "--wire", "--ask", stdin="d\na\n")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.index("└ denied") < ended.out.index("└ approved")
    lines = [line for line in ended.out.splitlines() if line[2:10] in ("client 1", "client 2")]
    assert lines[0].startswith('→ client 1  initialize #1 {"protocolVersion": "2025-11-25"')
    assert '← client 1  agent_message_delta × 7 {"delta": "I will run the check and see."}' in lines
    assert any(line.startswith("← client 1  elicitation/create #0 {") for line in lines)
    assert any(line.startswith('→ client 1  result of #0 {"action": "accept"') for line in lines)
    assert '← client 1  exec_command_output_delta {"delta": "the greeting is right\\n"}' in lines
    assert any(line.startswith("← client 2  notifications/initial_state {") for line in lines)
    assert max(map(len, lines)) <= 243
    assert not re.search(r"\[\d+, \d+, \d+, \d+, \d+, \d+, \d+", ended.out), "no arrays of bytes"
    for client in ("client 1", "client 2"):
        kinds = [line.split()[3] for line in lines if line[2:10] == client]
        assert not any(one == other and one.endswith("_delta") for one, other in pairwise(kinds))
