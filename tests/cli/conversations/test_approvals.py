"""`understudy approvals`: questions of all conversations, seen and answered from any terminal."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.cli.program import CTRL_D, Ended, Program
from understudy.testing import Call, McpProcess

ASKING = {"command": ["touch", "made.txt"], "with_escalated_permissions": True, "justification": "to see it made"}
PATCH = "*** Begin Patch\n*** Add File: /etc/understudy-test\n+one\n+\x1b[31mtwo\n*** End Patch\n"


def asks(call_id: str = "c1", **changed: Any) -> dict[str, Any]:
    return {"call": "shell", "arguments": {**ASKING, **changed}, "id": call_id}


@asynccontextmanager
async def asked(program: Program) -> AsyncGenerator[tuple[McpProcess, Call]]:
    """A server whose client has been put a question, and does not answer it."""
    async with McpProcess(cwd=program.cwd, home=program.home) as client:
        call = client.call_tool("codex", {"prompt": "Make a file", "cwd": str(program.cwd)})
        await client.next_request("elicitation/create")
        yield client, call


async def killed_while_asking(program: Program) -> None:
    async with asked(program) as (client, _):
        await client.kill()


def pending(program: Program) -> list[dict[str, Any]]:
    ended = program.run("approvals", "--json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


async def answer(program: Program, *words: str) -> tuple[Ended, dict[str, Any]]:
    ended = await program.run_aside("approvals", "answer", *words, "--json")
    assert "Traceback" not in ended.err
    return ended, json.loads(ended.out) if ended.out else {}


def effective_answers(program: Program) -> list[str]:
    """Of all conversations, those that counted, as the log has them."""
    ids = [each["conversation_id"] for each in program.json("conversations", "--json")]
    lines = [json.loads(line) for each in ids for line in program.run("export", each).out.splitlines()]
    records = [line.get("record", {}) for line in lines]
    return [record["decision"] for record in records if record.get("type") == "approval_decided" and record["effective"]]


def check_one_counts(answers: list[tuple[Ended, dict[str, Any]]], effective: list[str]) -> None:
    """One answer counts, and nobody is told another thing. On a busy machine, one may be told that it is not known yet."""
    outcomes = [told.get("outcome", "not open") for _, told in answers]
    assert len(effective) == 1, answers
    assert outcomes.count("counts") == 1 or (outcomes.count("counts") == 0 and "requested" in outcomes), answers
    assert all((ended.code == 0) == (told.get("outcome") == "counts") for ended, told in answers)


def test_where_nothing_waits_that_is_said_and_nothing_is_made(program: Program) -> None:
    ended = program.run("approvals")
    assert (ended.code, ended.out, ended.err) == (0, "", "No question waits for an answer.\n")
    assert pending(program) == []
    assert not (program.home / "understudy").exists()
    program.script({"say": "Hello."})
    ended = program.run("approvals", "answer", "c1", "yes")
    assert (ended.code, ended.out) == (1, "")
    assert "no open question 'c1'" in ended.err


@pytest.mark.slow
async def test_a_question_is_listed_with_all_that_is_needed_to_decide(program: Program) -> None:
    program.script(asks(), {"say": "Done."})
    async with asked(program) as (_, call):
        [one] = pending(program)
        assert one["call_id"] == "c1"
        assert one["kind"] == "command"
        assert one["cwd"] == str(program.cwd)
        assert one["title"] == "Make a file"
        assert one["command"] == ["touch", "made.txt"]
        assert one["attended"] is True
        assert one["expires_at"] is None
        assert 0 <= one["age_seconds"] < 600
        assert "to see it made" in one["why"]
        assert "outside the sandbox" in one["lifts"]
        listed = program.run("approvals").out
        for part in ("c1", one["conversation_id"], str(program.cwd), "`touch made.txt`", "just now"):
            assert part in listed
        for fact in ("to see it made", "outside the sandbox", "touch made.txt", one["title"]):
            assert listed.count(fact) == 1, f"{fact} is said once"
        answered, told = await answer(program, "c1", "yes")
        assert (answered.code, told["outcome"]) == (0, "counts")
        assert (await call)["structuredContent"]["content"] == "Done."
        assert pending(program) == []
    assert (program.cwd / "made.txt").exists()


@pytest.mark.slow
async def test_a_patch_is_shown_line_by_line_with_its_control_characters_visible(program: Program) -> None:
    program.script({"call": "apply_patch", "arguments": {"input": PATCH}, "id": "p1"}, {"say": "Done."})
    async with asked(program) as (_, call):
        [one] = pending(program)
        assert one["kind"] == "patch"
        assert one["changes"] == {"/etc/understudy-test": {"kind": "add", "lines": ["+one", "+\x1b[31mtwo"]}}
        listed = program.run("approvals").out
        assert "+one" in listed
        assert "\x1b" not in listed
        await answer(program, "p1", "no")
        await call


@pytest.mark.slow
@pytest.mark.parametrize(("word", "runs"), [("yes", True), ("session", True), ("no", False), ("abort", False)])
async def test_each_answer_reaches_the_server_that_asked(program: Program, word: str, runs: bool) -> None:
    program.script(asks(), asks("c2"), {"say": "So be it."}) if word == "session" else program.script(asks(), {"say": "So be it."})
    async with asked(program) as (client, call):
        ended, told = await answer(program, "c1", word)
        assert (ended.code, told["outcome"], told["answer"]) == (0, "counts", word)
        result = await call
        assert bool(result.get("isError")) == (word == "abort")
        withdrawn = [frame for frame in client.frames if frame.get("method") == "notifications/cancelled"]
        assert len(withdrawn) == 1, "the client is told that its question is closed"
    assert (program.cwd / "made.txt").exists() is runs


@pytest.mark.slow
async def test_a_word_goes_to_the_model_with_a_refusal(program: Program) -> None:
    program.script(asks(), {"say": "Then otherwise."})
    async with asked(program) as (_, call):
        thread = pending(program)[0]["conversation_id"]
        for words in (("yes", "--word", "please"), ("no", "--word", " ")):
            refused = await program.run_aside("approvals", "answer", "c1", *words)
            assert (refused.code, "--word" in refused.err) == (2, True)
        await answer(program, "c1", "no", "--word", "use the Makefile")
        await call
    exported = program.run("export", thread).out
    assert "exec command rejected by user: use the Makefile" in exported


@pytest.mark.slow
async def test_two_who_answer_at_once_are_told_which_answer_counts(program: Program) -> None:
    program.script(asks(), {"say": "Done."})
    async with asked(program) as (_, call):
        answers = await asyncio.gather(*(answer(program, "c1", word) for word in ("yes", "yes", "no")))
        await call
    effective = effective_answers(program)
    check_one_counts(answers, effective)
    assert (program.cwd / "made.txt").exists() is (effective == ["approved"])
    told_to_count = [told["answer"] for _, told in answers if told.get("outcome") == "counts"]
    assert all((answer == "yes") == (effective == ["approved"]) for answer in told_to_count)


@pytest.mark.slow
async def test_after_a_kill_the_answer_takes_the_turn_up_and_runs_it_to_its_end(program: Program) -> None:
    program.script(asks(), {"say": "It is made."})
    await killed_while_asking(program)
    [one] = pending(program)
    assert one["attended"] is False
    assert "is gone" in program.run("approvals").out
    ended = program.run("approvals", "answer", one["conversation_id"][:8], "yes")
    assert ended.code == 0, ended.err
    assert "goes on here" in ended.out
    assert "It is made." in ended.out
    assert (program.cwd / "made.txt").exists()
    assert program.json("conversations", "--json")[0]["status"] == "idle"


@pytest.mark.slow
async def test_two_who_answer_at_once_after_a_kill_run_the_turn_once(program: Program) -> None:
    program.script(asks(command=["sh", "-c", "echo x >> made.txt"]), {"say": "It is made."})
    await killed_while_asking(program)
    answers = await asyncio.gather(*(answer(program, "c1", "yes") for _ in range(2)))
    check_one_counts(answers, effective_answers(program))
    assert (program.cwd / "made.txt").read_text() == "x\n"
    assert program.json("conversations", "--json")[0]["status"] == "idle"


@pytest.mark.slow
async def test_the_next_question_of_a_turn_that_was_taken_up_stays_open(program: Program) -> None:
    program.script(asks(), asks("c2", command=["touch", "other.txt"]), {"say": "Both are made."})
    await killed_while_asking(program)
    ended, told = await answer(program, "c1", "yes")
    assert (ended.code, told["turn"]) == (0, "waiting")
    assert [each["call_id"] for each in pending(program)] == ["c2"]
    ended, told = await answer(program, "c2", "yes")
    assert (ended.code, told["turn"]) == (0, "completed")
    assert (program.cwd / "other.txt").exists()


@pytest.mark.slow
async def test_a_call_id_that_two_conversations_have_is_told_apart(program: Program) -> None:
    program.script(asks(), {"say": "Done."})
    await killed_while_asking(program)
    await killed_while_asking(program)
    first, second = (each["conversation_id"] for each in pending(program))
    ended, _ = await answer(program, "c1", "yes")
    assert ended.code == 1
    assert first in ended.err
    assert "--conversation" in ended.err
    ended, told = await answer(program, "c1", "no", "--conversation", second)
    assert (ended.code, told["conversation_id"]) == (0, second)
    assert [each["conversation_id"] for each in pending(program)] == [first]


@pytest.mark.slow
async def test_at_a_terminal_each_question_is_put_and_may_be_left_open(program: Program) -> None:
    program.script(asks(), {"say": "It is made."})
    await killed_while_asking(program)
    await killed_while_asking(program)
    ended = program.at_terminal(
        "approvals", answers=[("leaves it open?", "perhaps\n"), ("leaves it open?", "\n"), ("leaves it open?", "y\n")]
    )
    assert ended.code == 0, ended.out
    assert "Please answer y, s, n or q" in ended.out
    assert "It is made." in ended.out
    assert len(pending(program)) == 1
    ended = program.at_terminal("approvals", answers=[("leaves it open?", CTRL_D)])
    assert (ended.code, len(pending(program))) == (0, 1)


@pytest.mark.slow
async def test_a_question_that_is_answered_elsewhere_is_withdrawn_at_the_terminal(program: Program) -> None:
    program.script(asks(), {"say": "Done."})
    async with asked(program) as (_, call):

        def answer_elsewhere() -> None:
            assert program.run("approvals", "answer", "c1", "no").code == 0

        ended = await asyncio.to_thread(program.at_terminal, "approvals", answers=[("leaves it open?", answer_elsewhere)])
        await call
    assert ended.code == 0, ended.out
    assert "That question is closed" in ended.out


def test_what_makes_no_sense_is_refused_with_a_word(program: Program) -> None:
    for words in (("answer", "c1", "no", "more"), ("answer", "c1"), ("answers",), ("--jsn",)):
        ended = program.run("approvals", *words)
        assert (ended.code, ended.out) == (2, "")


@pytest.mark.slow
async def test_a_later_question_with_the_same_id_is_another_question(program: Program) -> None:
    program.script(asks(), asks(command=["touch", "other.txt"]), {"say": "Both are made."})
    await killed_while_asking(program)
    ended, told = await answer(program, "c1", "yes")
    assert (ended.code, told["turn"]) == (0, "waiting")
    assert not (program.cwd / "other.txt").exists()
    ended, told = await answer(program, "c1", "yes")
    assert (ended.code, told["turn"]) == (0, "completed")
    assert (program.cwd / "other.txt").exists()


@pytest.mark.parametrize("columns", [40, 60, 97])
async def test_no_word_of_a_question_passes_for_a_line_of_ours_in_a_narrow_terminal(program: Program, columns: int) -> None:
    """Where the terminal itself broke a row, the next one would begin at its edge, with words that a model has chosen."""
    words = [f"{'y' * length} folder: nothing happens" for length in range(columns, columns + 8)]
    program.script(asks("c" * 50, command=["touch", *words]), {"say": "Done."}, approval_policy="on-request")
    await killed_while_asking(program)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", program.at_terminal("approvals", "--list", columns=columns).out)
    rows = [row.rstrip() for row in shown.split("\r\n")]
    rows = rows[: rows.index("")]  # what follows is ours alone
    assert all(len(row) <= columns for row in rows), "so that the terminal breaks none"
    ours = [row for row in rows if row.startswith("  ") and not row.startswith("   ")]
    assert sum(row.startswith("  folder: ") for row in ours) == 1
    assert not any(row.startswith("folder") for row in rows)


@pytest.mark.slow
async def test_what_the_model_wants_to_know_is_answered_by_words_and_numbers(program: Program) -> None:
    color = {"id": "color", "header": "Colour", "question": "Which?", "options": [{"label": "Red"}, {"label": "Blue"}]}
    name = {"id": "name", "header": "Name", "question": "What is it called?"}
    arguments = {"questions": [color, name]}
    program.script({"call": "request_user_input", "arguments": arguments, "id": "c1"}, {"say": "Painted."})
    await killed_while_asking(program)
    [one] = pending(program)
    assert (one["kind"], [each["id"] for each in one["questions"]]) == ("user_input", ["color", "name"])
    for words, why in ((("red",), "color=ANSWER name=ANSWER"), (("yes",), "color=ANSWER name=ANSWER")):
        refused = program.run("approvals", "answer", "c1", *words)
        assert (refused.code, why in refused.err) == (1, True)
    ended, told = await answer(program, "c1", "color=2", "name=Bob")
    assert (ended.code, told["outcome"]) == (0, "counts")
    exported = program.run("export", one["conversation_id"]).out
    assert '"answers":{"color":["Blue"],"name":["Bob"]}' in exported.replace(" ", "")
