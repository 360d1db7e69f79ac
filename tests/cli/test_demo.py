"""The demo is what a newcomer sees first: it has to run anywhere, show everything, and leave nothing behind."""

from pathlib import Path

import pytest

from tests.cli.program import Program

IN_THIS_ORDER = (
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
    "→ tools/call codex-reply",
    "? Allow Codex to run `rm -r ../release`",
    "└ denied",
    "● You said no",
    "→ tools/call conversationsList",
)


def test_the_demo_shows_a_command_an_approval_a_patch_an_answer_and_a_reply(program: Program, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    ended = program.run("demo", env={"TMPDIR": str(temporary)})
    assert (ended.code, ended.err) == (0, "")
    place = 0
    for piece in IN_THIS_ORDER:
        found = ended.out.find(piece, place)
        assert found >= 0, f"{piece!r} is missing after\n{ended.out[:place]}\nin\n{ended.out[place:]}"
        place = found + len(piece)
    assert "\x1b" not in ended.out, "no colours where there is no terminal"
    assert not list(temporary.iterdir())
    assert not list(program.home.iterdir()), "the user's own state is not touched"


@pytest.mark.slow
def test_a_person_can_answer_and_see_the_wire(program: Program) -> None:
    ended = program.run("demo", "--ask", "--wire", stdin="d\na\n")
    assert ended.code == 0, ended.err
    assert ended.out.index("└ denied") < ended.out.index("└ approved")
    assert '"method": "initialize"' in ended.out
    assert '"method":"elicitation/create"' in ended.out
