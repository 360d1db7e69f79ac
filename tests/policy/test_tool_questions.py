"""What a person is asked about a tool of another server: all of its arguments, to their end."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from understudy.policy.mcp_tools import tool_message
from understudy.protocol.records import ToolApprovalAsked
from understudy.text import make_visible

ENDINGS = st.sampled_from(["x", "; rm -rf /precious", '"', "\n", "`", " = "])


def _text(letter: str, count: int, end: str) -> str:
    return letter * count + end


TEXTS = st.builds(_text, st.sampled_from(list("a \n`")), st.integers(0, 3000), ENDINGS)


def ask(arguments: dict[str, Any]) -> list[str]:
    return tool_message(ToolApprovalAsked("call", "srv", "run", arguments, "key", False, ())).split("\n")


def test_the_end_of_a_long_argument_is_shown_and_shown_again() -> None:
    command = "echo " + "a" * 5000 + "; rm -rf /precious"
    _, argument, about, ending, where, covered = ask({"command": command})
    assert argument == f'| command = "{command}"'
    assert about == f"This argument is {len(argument) - 2} characters long. It ends with:"
    assert ending.endswith('; rm -rf /precious"')
    assert where == "The server runs outside the sandbox."
    assert covered == "A yes for the session also answers for later calls of this tool, whatever their arguments."


def test_no_number_of_small_arguments_hides_the_last() -> None:
    lines = ask({**{f"a{number}": number for number in range(500)}, "force": True})
    assert "| force = true" in lines


def test_of_one_that_nobody_could_read_the_end_is_shown_and_the_rest_is_counted() -> None:
    lines = ask({"text": "a" * 200_000 + "; rm -rf /precious"})
    argument = len('text = ""') + 200_000 + len("; rm -rf /precious")
    shown = len(lines[1]) + len(lines[3]) - len("| ") * 2
    assert lines[2] == (
        f"{argument - shown} characters of this argument are not shown here; "
        "`understudy approvals --json` has all of it. It ends with:"
    )
    assert lines[3].endswith('; rm -rf /precious"')
    assert sum(map(len, lines)) < 60_000


def test_the_name_of_an_argument_cannot_pass_for_its_value() -> None:
    assert ask({'path = "/safe"': "/etc"})[1] == r'| "path = \"/safe\"" = "/etc"'


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), TEXTS, min_size=1, max_size=8))
def test_every_argument_stands_whole_on_a_line_that_is_marked_as_the_models(arguments: dict[str, str]) -> None:
    lines = ask(arguments)
    for name, value in arguments.items():
        assert f"| {make_visible(f'{name} = {json.dumps(value)}')}" in lines
