"""`wait-seconds` and `codex-reply` without a prompt: for clients that cannot wait as long as a turn takes."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import FORBIDDING, answered, scene, text_of, thread_of
from tests.e2e.talking import create, listed
from understudy.testing import HOLD, CodexHome, McpProcess, ScriptedModel, call, deltas, say


async def test_a_call_that_waits_for_a_while_is_answered_and_the_turn_goes_on(tmp_path: Path) -> None:
    async with scene([deltas(["so ", HOLD, "it is"])], tmp_path) as (model, client):
        first: dict[str, Any] = await client.codex("x", {"wait-seconds": 0.2})
        thread = thread_of(first)
        assert "isError" not in first
        assert "codex-reply" in text_of(first)
        assert first["structuredContent"]["running"]["turn"] == "1"
        waiting = client.call_tool("codex-reply", {"threadId": thread})
        again = await client.call_tool("codex-reply", {"threadId": thread, "wait_seconds": 0.2})
        assert again["structuredContent"]["running"]["turn"] == "1"
        [row] = await listed(client)
        assert (row["status"], row["running"]) == ("running", {"turn": "1", "commands": []})
        model.release()
        assert await waiting == answered("so it is", thread)
        [row] = await listed(client)
        assert (row["status"], "running" in row) == ("idle", False)
        late = await client.call_tool("codex-reply", threadId=thread)  # it is over by now: the answer is still there
        assert late == answered("so it is", thread)


async def test_whoever_waits_on_gets_the_form_that_was_asked_for(tmp_path: Path) -> None:
    home, schema = CodexHome(tmp_path / "home"), {"type": "object"}
    async with ScriptedModel([deltas(['{"so": ', HOLD, "1}"])]) as model:
        async with McpProcess(model, home=home, cwd=tmp_path) as client:
            thread = thread_of(await client.codex("x", {"wait-seconds": 0.2, "output-schema": schema}))
            waiting = client.call_tool("codex-reply", threadId=thread)
            again = await client.call_tool("codex-reply", {"threadId": thread, "wait-seconds": 0.2})
            assert "codex-reply" in text_of(again)
            model.release()
            result = await waiting
            assert result["content"] == [{"text": '{"so": 1}', "type": "text"}]
            assert result["structuredContent"]["output"] == {"so": 1}
        async with McpProcess(model, home=home, cwd=tmp_path) as client:  # it is over by now, and read by another process
            assert await client.call_tool("codex-reply", threadId=thread) == result


async def test_a_call_that_ends_in_time_is_answered_as_ever(tmp_path: Path) -> None:
    async with scene([say("quick")], tmp_path) as (_, client):
        result = await client.codex("x", {"wait-seconds": 60})
        assert result == answered("quick", thread_of(result))


async def test_whoever_waits_on_is_asked_what_is_open(tmp_path: Path) -> None:
    script = [deltas(["wait ", HOLD]) + call("shell", command=["touch", "made.txt"]), say("done")]
    async with scene(script, tmp_path, config=FORBIDDING) as (model, client):
        thread = thread_of(await client.codex("x", {"wait-seconds": 0.2}))
        waiting = client.call_tool("codex-reply", threadId=thread)
        model.release()
        question = await client.next_question()
        await client.respond(question.request, {"action": "accept"})
        assert (await waiting)["structuredContent"]["content"] == "done"
        assert (tmp_path / "made.txt").exists()


async def test_a_message_that_joins_a_turn_which_nobody_else_sees_to_is_asked_what_is_open(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made.txt"]), say("done")]
    async with scene(script, tmp_path, config=FORBIDDING) as (_, client):
        thread = await create(client, prompt="x")
        while not (await listed(client))[0]["pending"]:
            pass
        waiting = client.call_tool("codex-reply", threadId=thread, prompt="more")
        question = await client.next_question()
        await client.respond(question.request, {"action": "accept"})
        assert (await waiting)["structuredContent"]["content"] == "done"
        assert (tmp_path / "made.txt").exists()


@pytest.mark.slow
async def test_of_those_that_joined_one_is_asked_and_its_client_s_answer_counts_when_it_has_left(tmp_path: Path) -> None:
    script = [deltas(["wait ", HOLD]) + call("shell", command=["touch", "made.txt"]), say("done")]
    async with scene(script, tmp_path, config=FORBIDDING) as (model, client):
        thread = thread_of(await client.codex("x", {"wait-seconds": 0.2}))
        first, second = (client.call_tool("codex-reply", threadId=thread, prompt=prompt) for prompt in ("1", "2"))
        await listed(client)  # both have joined by now
        model.release()
        question = await client.next_question()
        assert len(client.questions) == 1
        await client.cancel(first)
        assert text_of(await first)
        await client.respond(question.request, {"action": "accept"})
        assert (await second)["structuredContent"]["content"] == "done"
        assert (tmp_path / "made.txt").exists()


@pytest.mark.slow
async def test_cancelling_a_call_that_waits_on_leaves_the_turn_alone(tmp_path: Path) -> None:
    async with scene([deltas(["a", HOLD, "b"])], tmp_path) as (model, client):
        thread = thread_of(await client.codex("x", {"wait-seconds": 0.2}))
        waiting = client.call_tool("codex-reply", threadId=thread)
        await client.cancel(waiting)
        assert "goes on" in text_of(await waiting)
        model.release()
        assert await client.call_tool("codex-reply", threadId=thread) == answered("ab", thread)


@pytest.mark.slow
async def test_where_nothing_ever_ran_a_prompt_is_asked_for(tmp_path: Path) -> None:
    async with scene([], tmp_path) as (_, client):
        made = await client.call_tool("conversationCreate", {})
        thread = made["structuredContent"]["conversation_id"]
        assert "Give a message as `prompt`" in text_of(await client.call_tool("codex-reply", threadId=thread))
        schema = await client.call_tool("codex-reply", {"threadId": thread, "output-schema": {"type": "object"}})
        assert "missing field `prompt`" in text_of(schema)
