"""`conversationCompact`: a summary when somebody wants one, whatever the conversation is doing."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.contexts import begins_like, shown, texts
from tests.e2e.scenes import kinds, scene, text_of, thread_of
from tests.e2e.talking import Stream, create, listed, send, structured
from tests.support.pausing import pause
from understudy.testing import HOLD, McpProcess, ScriptedModel, call, deltas, say, status

ASK = "Sum it up."
CONFIG: dict[str, Any] = {"compact_prompt": ASK}


async def compact(client: McpProcess, conversation: str) -> dict[str, Any]:
    return structured(await client.call_tool("conversationCompact", conversation_id=conversation))


@pytest.mark.quick(1)
@pytest.mark.parametrize("wire", ["chat", "responses"])
async def test_an_idle_conversation_is_summed_up_in_a_turn_of_its_own(tmp_path: Path, wire: str) -> None:
    script = [say("one", usage=(700, 20)), say("SUMMARY", usage=(760, 20)), say("two")]
    async with scene(script, tmp_path, wire=wire, config=CONFIG) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="first"))
        stream = Stream(client, thread, after=0)
        await stream.snapshot()
        done = await compact(client, thread)
        assert done == {"status": "ok", "tokens_before": 720, "tokens_after": done["tokens_after"]}
        await stream.until("task_complete", 2)
        told = kinds(stream.messages())
        assert told[told.index("task_complete") + 1 :] == ["task_started", "token_count", "background_event", "task_complete"]
        assert (await listed(client))[0]["status"] == "idle"
        assert text_of(await client.call_tool("codex-reply", threadId=thread, prompt="second")) == "two"
        assert shown(model.requests[1]) == [("user", "first"), ("assistant", "one"), ("user", ASK)]
        assert "SUMMARY" in texts(model.requests[2])
        assert shown(model.requests[2])[-1] == ("user", "second")


@pytest.mark.slow
async def test_it_is_refused_with_a_word_where_there_is_nothing_to_sum_up(tmp_path: Path) -> None:
    async with scene([say("one"), say("SUMMARY")], tmp_path) as (_, client):
        conversation = await create(client)
        refused = await client.call_tool("conversationCompact", conversation_id=conversation)
        assert refused["isError"]
        assert "there is nothing to sum up" in text_of(refused)
        await send(client, conversation, "first")
        await Stream(client, conversation).until("task_complete")
        assert (await compact(client, conversation))["status"] == "ok"
        again = await client.call_tool("conversationCompact", conversation_id=conversation)
        assert again["isError"]
        assert "since the last summary" in text_of(again)


async def test_in_a_running_turn_it_takes_effect_before_the_next_request(tmp_path: Path) -> None:
    script = [say("one"), deltas(["let me ", HOLD, "see"]) + call("shell", command=["echo", "x"]), say("SUMMARY"), say("done")]
    async with scene(script, tmp_path, config=CONFIG) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="first"))
        turn = client.call_tool("codex-reply", threadId=thread, prompt="second")
        await client.event("agent_message_delta", turn)
        assert (await compact(client, thread))["status"] == "requested"
        model.release()
        assert text_of(await turn) == "done"
        assert [who for who, _ in shown(model.requests[2])][-3:] == ["call", "output", "user"]
        assert "SUMMARY" in texts(model.requests[3])


@pytest.mark.slow
async def test_in_a_turn_without_another_request_it_takes_effect_at_its_end(tmp_path: Path) -> None:
    script = [deltas(["on", HOLD, "e"]), say("SUMMARY"), say("two")]
    async with scene(script, tmp_path, config=CONFIG) as (model, client):
        turn = client.call_tool("codex", prompt="first")
        await client.event("agent_message_delta", turn)
        conversation = (await listed(client))[0]["conversation_id"]
        assert (await compact(client, conversation))["status"] == "requested"
        model.release()
        assert text_of(await turn) == "one"
        assert kinds(client.events(turn))[-2:] == ["background_event", "task_complete"]
        await client.call_tool("codex-reply", threadId=conversation, prompt="second")
        assert "SUMMARY" in texts(model.requests[2])


@pytest.mark.slow
async def test_a_summary_that_fails_is_told_and_changes_nothing(tmp_path: Path) -> None:
    script = [say("one"), status(400, "no"), say("two")]
    async with scene(script, tmp_path) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="first"))
        failed = await client.call_tool("conversationCompact", conversation_id=thread)
        assert failed["isError"]
        assert "the conversation could not be summed up: " in text_of(failed)
        await client.call_tool("codex-reply", threadId=thread, prompt="second")
        assert begins_like(model.requests[2], model.requests[0])


async def test_cancelling_the_call_ends_its_turn_and_it_is_answered(tmp_path: Path) -> None:
    script = [say("one"), deltas(["SUM", HOLD, "MARY"]), say("two")]
    async with scene(script, tmp_path) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="first"))
        asked = client.call_tool("conversationCompact", conversation_id=thread)
        await model.next_request(2)
        await client.notify("notifications/cancelled", {"requestId": asked.id})
        assert "Turn interrupted" in text_of(await asked)
        await client.call_tool("codex-reply", threadId=thread, prompt="second")
        assert begins_like(model.requests[2], model.requests[0])


@pytest.mark.slow
async def test_a_message_that_comes_while_it_is_summed_up_is_answered_in_that_turn(tmp_path: Path) -> None:
    script = [say("one"), deltas(["SUM", HOLD, "MARY"]), say("two")]
    async with scene(script, tmp_path) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="first"))
        asked = client.call_tool("conversationCompact", conversation_id=thread)
        await model.next_request(2)
        reply = client.call_tool("codex-reply", threadId=thread, prompt="second")
        assert len(await listed(client)) == 1  # the message has been taken by now
        model.release()
        assert text_of(await reply) == "two"
        assert structured(await asked)["status"] == "ok"
        assert "SUMMARY" in texts(model.requests[2])
        assert shown(model.requests[2])[-1] == ("user", "second")


@pytest.mark.slow
async def test_another_process_asks_the_one_that_runs_the_turn(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    script = [deltas(["on", HOLD, "e"]), say("SUMMARY"), say("two")]
    async with (
        ScriptedModel(script) as model,
        McpProcess(model.url, cwd=work, home=home, config=CONFIG) as first,
        McpProcess(model.url, cwd=work, home=home, config=CONFIG) as second,
    ):
        turn = first.call_tool("codex", prompt="first")
        await first.event("agent_message_delta", turn)
        conversation = (await listed(second))[0]["conversation_id"]
        assert (await compact(second, conversation))["status"] == "requested"
        model.release()
        assert text_of(await turn) == "one"
        assert "background_event" in kinds(first.events(turn))
        assert text_of(await second.call_tool("codex-reply", threadId=conversation, prompt="second")) == "two"
        assert "SUMMARY" in texts(model.requests[2])


@pytest.mark.slow
async def test_a_summary_asked_of_a_process_that_is_killed_before_it_reads_that_is_made_by_the_next_turn(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    script = [say("one"), deltas(["tw", HOLD, "o"]), say("SUMMARY"), say("three")]
    async with ScriptedModel(script) as model, McpProcess(model.url, cwd=work, home=home, config=CONFIG) as second:
        async with McpProcess(model.url, cwd=work, home=home, config=CONFIG, check_frames=False) as first:
            conversation = thread_of(await first.call_tool("codex", prompt="first"))
            turn = first.call_tool("codex-reply", threadId=conversation, prompt="second")
            await first.event("agent_message_delta", turn)
            await pause(first.process.pid, first.home)
            assert (await compact(second, conversation))["status"] == "requested"
            await first.kill()
        assert text_of(await second.call_tool("codex-reply", threadId=conversation, prompt="third")) == "three"
        assert "SUMMARY" in texts(model.requests[3])
