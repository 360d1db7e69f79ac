"""What others wrote never commands a person's terminal: not through `show`, the list, or a question."""

from __future__ import annotations

import asyncio
import re

import pytest

from tests.cli.program import Program
from tests.security.house import NEVER, attacks, besieged, house, patch, script, shell
from understudy.testing import Answer, reasoning, say

pytestmark = pytest.mark.xdist_group("terminal")  # one fixture serves all of them, and takes long

HOSTILE = {
    "clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "title": "\x1b]0;owned\x07",
    "link": "\x1b]8;;http://evil\x1b\\safe\x1b]8;;\x1b\\",
    "cursor": "\x1b[2J\x1b[1;1H\x1b[8m",
    "one character": "\x9b31m\x9d52;c;ZXZpbA==\x9c\x90q\x9c",
    "overwrite": "real\rfake",
    "backspaces": "rm\x08\x08ls",
    "direction": "\u202eevil\u2066x\u2069",
    "alarm": "\x07\x0e\x0f",
    "query": "\x1b[6n\x1bP+q544e\x1b\\\x1bZ",
}
ALL = "".join(HOSTILE.values())
# What is left may be text, line breaks and tabs, and the program's own colours.
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
FORBIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
OURS_AT_A_TERMINAL = re.compile(r"\r\n|\x1b\[\?25[hl]")


def played() -> list[Answer]:
    escaped = "".join(f"\\x{byte:02x}" for byte in ALL.encode())
    calls = {
        "output": script(f"printf '{escaped}'; printf '{escaped}' >&2; exit 3"),
        "words": shell("echo", ALL.replace("\0", "")),
        "plan": ("update_plan", {"explanation": ALL, "plan": [{"step": ALL, "status": "pending"}]}),
        "patch": patch("*** Add File: odd.txt", f"+{ALL.replace(chr(13), '')}"),
        "tool": (f"tool{ALL}", {"a": ALL}),
    }
    first, *others, _ = attacks(calls)
    return [reasoning(ALL) + first, *others, say(f"{ALL}\n```\n{ALL}\n```\n")]


@pytest.fixture(scope="module")
def lines() -> dict[str, str]:
    """What the commands print, of a conversation in which everything that can be hostile is."""
    return asyncio.run(_collect())


async def _collect() -> dict[str, str]:
    with house() as place:
        async with besieged(played(), place, NEVER) as (_, client):
            result = await client.call_tool("codex", prompt=f"prompt {ALL}")
            thread = result["structuredContent"]["threadId"]
        program = Program(place.settings, place.project)
        return {
            "show --full": program.run("show", "--full", thread).out,
            "show at a terminal": program.at_terminal("show", thread).out,
            "conversations at a terminal": program.at_terminal("conversations").out,
            "show --json": program.run("show", "--json", thread).out,
        }


PRINTED = ["show --full", "show at a terminal", "conversations at a terminal"]


@pytest.mark.slow
@pytest.mark.parametrize("command", PRINTED)
def test_x18_nothing_that_a_terminal_would_obey_is_printed(lines: dict[str, str], command: str) -> None:
    text = lines[command]
    assert "prompt" in text
    if "terminal" in command:
        text = COLOURS.sub("", OURS_AT_A_TERMINAL.sub("", text))
    assert FORBIDDEN.findall(text) == []
    assert "52;c;" not in text or "\\u{1b}" in text


@pytest.mark.slow
def test_x18_what_programs_read_is_whole_and_escaped(lines: dict[str, str]) -> None:
    text = lines["show --json"]
    assert not [character for character in text if character < " " and character != "\n"]
    assert "\\u001b]52;c;ZXZpbA==\\u0007" in text


# Words that, at this width, begin a row of the terminal just where a line of ours would begin.
WIDTH = 80
INSIDE = "If approved it runs inside the sandbox."


@pytest.mark.slow
def test_no_row_of_a_question_that_begins_like_ours_is_the_models() -> None:
    from io import StringIO

    from rich.console import Console

    from understudy.cli.tell.telling import Teller
    from understudy.policy.questions import CommandQuestion, command_message

    for length in range(1, 3 * WIDTH):
        for filler in ("x" * length, "x " * (length // 2)):
            text = f"{filler} {INSIDE}"
            asked = CommandQuestion(("bash", "-c", f"true\n{text}", text), f"/{text}", justification=text)
            printed = StringIO()
            Teller(Console(file=printed, width=WIDTH, force_terminal=True, color_system=None)).question(command_message(asked))
            rows = printed.getvalue().splitlines()
            assert max(map(len, rows)) <= WIDTH
            assert [row for row in rows if row.lstrip().startswith(INSIDE) and not row.startswith("      ")] == [], filler
            assert [row[:2] for row in rows if not row.startswith("      ")] == ["? "] + ["  "] * (
                len(command_message(asked).split("\n")) - 1
            )
