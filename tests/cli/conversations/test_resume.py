"""`understudy resume`: a turn from the terminal, with questions for whoever sits there."""

import asyncio
import json
import sys

import pytest

from tests.cli.program import CTRL_C, CTRL_D, LONGEST, Program
from understudy.cli.tell.viewing import prompt
from understudy.testing import HOLD, McpProcess, ScriptedModel, deltas, say

ASKING = {"command": ["touch", "made.txt"], "with_escalated_permissions": True, "justification": "to see it made"}


async def test_a_conversation_goes_on_from_the_terminal(program: Program) -> None:
    program.script({"say": "Hello."}, [{"say": "Once ", "pace": 0.001}, {"say": "more."}])
    one = await program.begin("Greet me")
    ended = program.run("resume", one[:8], "-", stdin="And again\n")
    assert (ended.code, ended.out, ended.err) == (0, "❯ And again\n\n● Once\n\n● more.\n", "")
    assert program.json("conversations", "--json")[0]["message_count"] == 5


@pytest.mark.slow
async def test_where_nobody_can_be_asked_a_question_is_denied_and_the_turn_goes_on(program: Program) -> None:
    program.script({"say": "Hello."}, {"call": "shell", "arguments": ASKING, "id": "c1"}, {"say": "Then not."})
    one = await program.begin("Greet me")
    ended = program.run("resume", one, "Make a file", "--json")
    assert ended.code == 0, ended.err
    lines = [json.loads(line) for line in ended.out.splitlines()]
    told = [line["msg"]["type"] for line in lines if "seq" in line]
    assert told == ["user_message", "task_started", "exec_approval_request", "background_event", "agent_message", "task_complete"]
    numbers = [line["seq"] for line in lines if "seq" in line]
    assert numbers == sorted(numbers)
    assert any(line["msg"]["type"] == "agent_message_delta" and line["after"] for line in lines if "after" in line)
    assert "standard input is not a terminal" in ended.out
    assert not (program.cwd / "made.txt").exists()


@pytest.mark.slow
async def test_a_person_at_the_terminal_is_asked_and_may_say_yes(program: Program) -> None:
    program.script({"say": "Hello."}, {"call": "shell", "arguments": ASKING}, {"say": "It is made."})
    one = await program.begin("Greet me")
    ended = program.at_terminal("resume", one, "Make a file", answers=[("uit the turn?", "what\n"), ("uit the turn?", "a\n")])
    assert ended.code == 0, ended.out
    assert "Allow the agent to run `touch made.txt`" in ended.out
    assert '"to see it made"' in ended.out
    assert "It is made." in ended.out
    assert (program.cwd / "made.txt").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "decision", "runs", "code"),
    [
        ("y", "approved", True, 0),
        ("YES", "approved", True, 0),
        ("a", "approved", True, 0),
        ("s", "approved for session", True, 0),
        ("session", "approved for session", True, 0),
        ("n", "denied", False, 0),
        ("no", "denied", False, 0),
        ("d", "denied", False, 0),
        ("q", "abort", False, 130),
        ("abort", "abort", False, 130),
    ],
)
async def test_a_question_is_put_once_and_answered_by_letter_or_word(
    program: Program, typed: str, decision: str, runs: bool, code: int
) -> None:
    program.script({"say": "Hello."}, {"call": "shell", "arguments": ASKING}, {"say": "So be it."})
    one = await program.begin("Greet me")
    ended = program.at_terminal("resume", one, "Make a file", answers=[("uit the turn?", f"{typed}\n")])
    assert ended.code == code, ended.out
    assert ended.out.count("Allow the agent to run") == 1
    assert ended.out.count("uit the turn?") == 1
    assert f"└ {decision}" in ended.out
    assert (program.cwd / "made.txt").exists() is runs


@pytest.mark.slow
async def test_what_is_no_answer_is_asked_again_and_approves_nothing(program: Program) -> None:
    program.script({"say": "Hello."}, {"call": "shell", "arguments": ASKING}, {"say": "Then not."})
    one = await program.begin("Greet me")
    unclear = ("absolutely not", "", "yep?", "s\x00", "[bold]y")
    answers = [("uit the turn?", f"{typed}\n") for typed in (*unclear, "n")]
    ended = program.at_terminal("resume", one, "Make a file", answers=answers)
    assert ended.code == 0, ended.out
    assert ended.out.count("Please answer y, s, n or q.") == len(unclear)
    assert ended.out.count("Allow the agent to run") == 1
    assert not (program.cwd / "made.txt").exists()


@pytest.mark.slow
async def test_the_end_of_input_leaves_the_question_open_and_says_how_to_go_on(program: Program) -> None:
    asking = [{"say": "I will make one."}, {"call": "shell", "arguments": ASKING}]
    program.script({"say": "Hello."}, asking, {"say": "It is made."})
    one = await program.begin("Greet me")
    ended = program.at_terminal("resume", one, "Make a file", answers=[("uit the turn?", CTRL_D)])
    assert ended.code == 1, ended.out
    assert f"The question stays open; to be asked again: understudy resume {one}" in ended.out
    assert program.json("conversations", "--json")[0]["status"] == "waiting"
    refused = program.run("resume", one)
    assert (refused.code, "standard input is not a terminal" in refused.err) == (1, True)
    assert program.json("conversations", "--json")[0]["status"] == "waiting"
    ended = program.at_terminal("resume", one, answers=[("uit the turn?", "y\n")])
    assert ended.code == 0, ended.out
    assert "Hello." not in ended.out, "only the turn that the question belongs to is told again"
    told = [ended.out.index(text) for text in ("Make a file", "I will make one.", "Allow the agent to run", "It is made.")]
    assert told == sorted(told)
    assert ended.out.count("Allow the agent to run") == 1
    assert (program.cwd / "made.txt").exists()
    idle = program.run("resume", one)
    assert (idle.code, idle.err) == (
        1,
        f'understudy: nothing is under way in {one}; say something: understudy resume {one} "…"\n',
    )


@pytest.mark.slow
async def test_a_question_of_a_server_is_answered_from_the_terminal_without_saying_anything(program: Program) -> None:
    program.script({"call": "shell", "arguments": ASKING}, {"say": "It is made."})
    async with McpProcess(cwd=program.cwd, home=program.home) as client:
        call = client.call_tool("codex", {"prompt": "Make a file", "cwd": str(program.cwd)})
        await client.next_request("elicitation/create")
        one = program.json("conversations", "--json")[0]["conversation_id"]
        ended = await asyncio.to_thread(program.at_terminal, "resume", one, answers=[("uit the turn?", "y\n")])
        assert ended.code == 0, ended.out
        assert ended.out.count("Allow the agent to run") == 1
        assert (await call)["structuredContent"]["content"] == "It is made."


@pytest.mark.slow
async def test_a_question_that_outlived_its_server_is_asked_again(program: Program) -> None:
    program.script({"call": "shell", "arguments": ASKING}, {"say": "It is made."}, {"say": "And more."})
    async with McpProcess(cwd=program.cwd, home=program.home) as client:
        client.call_tool("codex", {"prompt": "Make a file", "cwd": str(program.cwd)})
        await client.next_request("elicitation/create")
        await client.kill()
    row = program.json("conversations", "--json")[0]
    assert row["status"] == "waiting"
    ended = program.at_terminal("resume", row["conversation_id"], "Go on", answers=[("uit the turn?", "a\n")])
    assert ended.code == 0, ended.out
    assert "It is made." in ended.out
    assert (program.cwd / "made.txt").exists()


@pytest.mark.slow
async def test_ctrl_c_interrupts_the_turn(program: Program) -> None:
    program.script({"say": "Hello."}, [{"say": "Thinking about it", "unfinished": True}, {"hang": True}])
    one = await program.begin("Greet me")
    ended = program.at_terminal("resume", one, "Think", answers=[("about", CTRL_C)])
    assert ended.code == 130, ended.out
    assert "Turn interrupted" in ended.out
    assert program.json("conversations", "--json")[0]["status"] == "idle"


@pytest.mark.slow
async def test_what_goes_wrong_is_said_and_told_by_the_exit_code(program: Program) -> None:
    program.script({"say": "Hello."}, {"fail": "no luck today"})
    one = await program.begin("Greet me")
    for words, code, said in (
        (("Fail",), 1, "✗ no luck today"),
        (("  ",), 1, "understudy: there is nothing to say: the prompt is empty"),
        (("Hi", "-c", "approval_policy=sometimes"), 1, "`approval_policy`"),
        (("Hi", "-c", "nonsense"), 2, "has no `=`"),
    ):
        ended = program.run("resume", one, *words)
        assert ended.code == code, ended
        assert said in ended.out + ended.err
        assert "Traceback" not in ended.err


@pytest.mark.slow
async def test_a_message_joins_a_turn_that_runs_in_a_server_and_is_watched_from_here(program: Program) -> None:
    async with (
        ScriptedModel([deltas(["Working", HOLD, "."]), say("Both done.")]) as model,
        McpProcess(model.url, cwd=program.cwd, home=program.home) as client,
    ):
        call = client.call_tool("codex", {"prompt": "Do one thing", "cwd": str(program.cwd)})
        await client.event("agent_message_delta", call)
        thread = program.json("conversations", "--json")[0]["conversation_id"]
        resumed = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "understudy", "resume", thread, "And another"),
            cwd=program.cwd,
            env=program.environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
        assert resumed.stdout is not None
        heard = await asyncio.wait_for(resumed.stdout.readuntil(b"And another\n"), LONGEST)
        model.release()
        rest, _ = await asyncio.wait_for(resumed.communicate(), LONGEST)
        assert (await call)["structuredContent"]["content"] == "Both done."
    blocks = (heard + rest).decode().split("\n\n")
    assert "❯ And another" in blocks
    assert blocks[-1] == "● Both done.\n"
    assert resumed.returncode == 0
    assert [message["content"] for message in model.requests[1]["messages"][-2:]] == ["Working.", "And another"]


@pytest.mark.parametrize("width", [36, 40, 60, 80, 200])
def test_the_prompt_leaves_room_for_the_answer_in_its_row(width: int) -> None:
    assert len(prompt(width)) < width


@pytest.mark.slow
@pytest.mark.parametrize("words", [("compact", "ID"), ("resume", "ID", "/compact"), ("resume", "ID", " /compact\n")])
async def test_a_conversation_is_summed_up_from_the_terminal(program: Program, words: tuple[str, ...]) -> None:
    program.script({"say": "Hello."}, {"say": "They were greeted."}, {"say": "Again."})
    one = await program.begin("Greet me")
    ended = program.run(*(one if word == "ID" else word for word in words))
    assert ended.code == 0, ended.err
    assert "They were greeted." in ended.out
    again = program.run(*(one if word == "ID" else word for word in words))
    assert again.code != 0
    assert "there is nothing to sum up" in again.err
