"""`conversationFork`: a new conversation that begins like another one, which stays as it is."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.contexts import shown
from tests.e2e.scenes import scene, text_of, thread_of
from tests.e2e.talking import Stream, create, listed, send, structured
from understudy.testing import HOLD, McpProcess, ScriptedModel, call, deltas, say

NOBODY = "67e55044-10b1-426f-9247-bb680e5fe0c8"


async def fork(client: McpProcess, conversation: str, **arguments: Any) -> str:
    return str(structured(await client.call_tool("conversationFork", conversation_id=conversation, **arguments))["conversation_id"])


async def send_first(client: McpProcess, conversation: str) -> str:
    content = [{"type": "text", "text": "1"}]
    sent = await client.call_tool("conversationSendMessage", conversation_id=conversation, content=content)
    return str(sent["_meta"]["messageId"])


async def reply(client: McpProcess, thread: str, prompt: str) -> str:
    return text_of(await client.call_tool("codex-reply", threadId=thread, prompt=prompt))


async def test_each_goes_its_own_way_from_the_end_of_the_last_turn(tmp_path: Path) -> None:
    async with scene([say("one"), say("here"), say("there")], tmp_path) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="first", model="other", sandbox="read-only"))
        copy = await fork(client, thread)
        assert copy != thread
        assert await reply(client, thread, "a") == "here"
        assert await reply(client, copy, "b") == "there"
        assert shown(model.requests[1]) == [("user", "first"), ("assistant", "one"), ("user", "a")]
        assert shown(model.requests[2]) == [("user", "first"), ("assistant", "one"), ("user", "b")]
        assert [request["model"] for request in model.requests] == ["other"] * 3
        rows = {row["conversation_id"]: row for row in await listed(client)}
        assert [rows[one]["message_count"] for one in (thread, copy)] == [4, 4]
        assert rows[copy]["cwd"] == rows[thread]["cwd"]
        stream = Stream(client, copy, after=0)
        told = await stream.snapshot()
        assert f"forked from conversation {thread}" in str(told)


@pytest.mark.slow
async def test_it_can_begin_at_the_end_of_an_earlier_messages_turn(tmp_path: Path) -> None:
    async with scene([say("one"), say("two"), say("again")], tmp_path) as (model, client):
        conversation = await create(client)
        message_id = await send_first(client, conversation)
        stream = Stream(client, conversation)
        await stream.until("task_complete")
        await send(client, conversation, "2")
        await stream.until("task_complete", 2)
        copy = await fork(client, conversation, message_id=message_id)
        assert await reply(client, copy, "3") == "again"
        assert shown(model.requests[2]) == [("user", "1"), ("assistant", "one"), ("user", "3")]
        refused = await client.call_tool("conversationFork", conversation_id=conversation, message_id=NOBODY)
        assert refused["isError"]
        assert "no turn that is over has read message" in text_of(refused)
        unknown = await client.call_tool("conversationFork", conversation_id=NOBODY)
        assert "Session does not exist" in text_of(unknown)


async def test_a_turn_that_runs_is_not_part_of_it_and_runs_on(tmp_path: Path) -> None:
    async with scene([say("one"), deltas(["half", HOLD, " whole"]), say("other")], tmp_path) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="first"))
        running = client.call_tool("codex-reply", threadId=thread, prompt="second")
        await client.event("agent_message_delta", running)
        copy = await fork(client, thread)
        assert await reply(client, copy, "third") == "other"
        assert shown(model.requests[2]) == [("user", "first"), ("assistant", "one"), ("user", "third")]
        model.release()
        assert text_of(await running) == "half whole"


@pytest.mark.slow
async def test_what_was_summed_up_stays_summed_up_and_the_whole_can_still_be_forked(tmp_path: Path) -> None:
    script = [say("one"), say("SUMMARY"), say("two"), say("short"), say("long")]
    async with scene(script, tmp_path, config={"compact_prompt": "Sum it up."}) as (model, client):
        conversation = await create(client)
        message_id = await send_first(client, conversation)
        await Stream(client, conversation).until("task_complete")
        await client.call_tool("conversationCompact", conversation_id=conversation)
        await reply(client, conversation, "2")
        assert await reply(client, await fork(client, conversation), "3") == "short"
        assert "SUMMARY" in str(model.requests[3])
        assert await reply(client, await fork(client, conversation, message_id=message_id), "4") == "long"
        assert shown(model.requests[4]) == [("user", "1"), ("assistant", "one"), ("user", "4")]
        assert "SUMMARY" not in str(model.requests[4])


@pytest.mark.slow
async def test_an_approval_for_the_session_is_not_carried_along(tmp_path: Path) -> None:
    asking: dict[str, Any] = {"approval_policy": "untrusted"}
    touch = call("shell", command=["touch", "made"])
    async with scene([touch, say("done"), touch, say("asked")], tmp_path, config=asking) as (_, client):
        first = client.call_tool("codex", prompt="make it")
        question = await client.next_request("elicitation/create")
        await client.respond(question, {"action": "accept", "decision": "approved_for_session"})
        thread = thread_of(await first)
        second = client.call_tool("codex-reply", threadId=await fork(client, thread), prompt="again")
        again = await client.next_request("elicitation/create")
        await client.respond(again, {"action": "decline", "decision": "denied"})
        assert text_of(await second) == "asked"


@pytest.mark.slow
async def test_another_process_forks_it_and_the_original_can_be_deleted(tmp_path: Path) -> None:
    async with ScriptedModel([say("one"), say("two")]) as model, McpProcess(model.url, cwd=tmp_path) as client:
        thread = thread_of(await client.call_tool("codex", prompt="first"))
        async with McpProcess(model.url, cwd=tmp_path, home=client.home) as other:
            copy = await fork(other, thread)
        assert structured(await client.call_tool("conversationDelete", conversation_id=thread)) == {"status": "ok"}
        assert await reply(client, copy, "second") == "two"
        assert shown(model.requests[1]) == [("user", "first"), ("assistant", "one"), ("user", "second")]


@pytest.mark.slow
async def test_one_that_is_not_kept_is_forked_in_memory(tmp_path: Path) -> None:
    async with scene([say("one"), say("two")], tmp_path, config={"history": {"persistence": "none"}}) as (_, client):
        thread = thread_of(await client.call_tool("codex", prompt="first"))
        assert await reply(client, await fork(client, thread), "second") == "two"
