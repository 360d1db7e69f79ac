"""`understudy top`: what goes on in all conversations, once for programs and again and again for a person."""

import json
import re
from typing import Any

import pytest

from tests.cli.program import CTRL_C, Program
from understudy.testing import McpProcess

ESCAPE = "\x1b"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
ASKING = {"command": ["touch", "made.txt"], "with_escalated_permissions": True, "justification": "to see it made"}


def asks() -> dict[str, Any]:
    return {"call": "shell", "arguments": ASKING, "id": "c1"}


def seen(program: Program) -> dict[str, Any]:
    ended = program.run("top", "--json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


@pytest.mark.slow
async def test_a_question_waits_with_and_without_its_process(program: Program) -> None:
    program.script(asks(), approval_policy="on-request")
    async with McpProcess(cwd=program.cwd, home=program.home) as client:
        client.call_tool("codex", {"prompt": f"Make{ESCAPE}[2J a file", "cwd": str(program.cwd)})
        await client.next_request("elicitation/create")
        sight = seen(program)
        assert (sight["totals"]["waiting"], sight["totals"]["running"]) == (1, 0)
        row = sight["conversations"][0]
        assert (row["status"], row["pending"], row["cwd"], row["owner"]) == ("waiting", ["c1"], str(program.cwd), "local")
        assert row["held_by"]["process"] > 0
        assert row["seconds"] >= 0
        told = program.run("top", "--once").out
        assert "1 waiting for an answer" in told.splitlines()[0]
        assert row["conversation_id"][:8] in told
        assert "asks a question" in told
        assert str(program.cwd) in told
        assert ESCAPE not in told
        for columns in (60, 100, 160):  # in which all the same can be seen whose question it is
            told = program.at_terminal("top", "--once", columns=columns).out
            assert row["conversation_id"][:8] in told
            assert "waiting" in told
            assert max(len(COLOURS.sub("", line)) for line in told.splitlines()) <= columns
        await client.kill()
    sight = seen(program)
    assert (sight["conversations"][0]["status"], sight["conversations"][0]["held_by"]) == ("waiting", None)
    assert "nobody runs its turn" in program.run("top").out


@pytest.mark.slow
async def test_a_command_in_the_background_and_what_is_idle(program: Program) -> None:
    program.script(
        {"call": "exec_command", "arguments": {"cmd": "sleep 600", "yield_time_ms": 250}},
        {"say": "It runs."},
        approval_policy="never",
        sandbox_mode="workspace-write",
    )
    async with McpProcess(cwd=program.cwd, home=program.home) as client:
        await client.call_tool("codex", {"prompt": "Start it", "cwd": str(program.cwd)})
        sight = seen(program)
        assert sight["totals"]["commands"] == 1
        row = sight["conversations"][0]
        assert (row["status"], row["running"]["commands"][0]["command"]) == ("idle", "sleep 600")
        assert "runs sleep 600" in program.run("top", "--once").out
    assert seen(program)["conversations"] == []  # its process has ended, and the command with it


def test_where_nothing_is_stored_yet(program: Program) -> None:
    sight = seen(program)
    assert (sight["conversations"], sight["totals"]["cost_usd"]) == ([], 0)
    assert program.run("top", "--once").out == "0 running · 0 waiting for an answer\n"


@pytest.mark.parametrize("key", ["q", CTRL_C], ids=["q", "ctrl-c"])
def test_a_person_watches_until_they_have_seen_enough(program: Program, key: str) -> None:
    ended = program.at_terminal("top", "--every", "0.2", answers=[("Nothing runs", key)])
    assert ended.code == 0
    assert "Traceback" not in ended.out
    assert "\x1b[?1049l" in ended.out  # what stood in the terminal before is back


@pytest.mark.parametrize("every", ["0", "x", "-1", "nan"])
def test_how_often_is_a_number_of_seconds(program: Program, every: str) -> None:
    ended = program.call("top", "--every", every)
    assert (ended.code, "no number of seconds" in ended.err) == (2, True)
