"""Several callers on one engine: whose a conversation is, and what somebody else may see and do of it, on every tool."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.connections import Connection, EngineHere, Json
from understudy.protocol.callers import Caller, Right
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import ApprovalDecided, Entry, Opened
from understudy.servers.mcp.asking import MAY_NOT_APPROVE
from understudy.servers.mcp.tool_table import TOOLS
from understudy.testing import HOLD, Script, ScriptedModel, call, deltas, say

ASKING: dict[str, Any] = {"approval_policy": "untrusted"}
UNKNOWN = "67e55044-10b1-426f-9247-bb680e5fe0c8"
ANN = Caller("ann")
IDS = ("conversation_id", "threadId")
ABOUT_ONE = sorted(name for name, tool in TOOLS.items() if any(one in tool.description["inputSchema"]["properties"] for one in IDS))
NEEDED = {
    "codex-reply": "run",
    "conversationSendMessage": "run",
    "conversationInterrupt": "run",
    "conversationCompact": "run",
    "conversationFork": "run",
    "conversationArchive": "run",
    "conversationRename": "run",
    "conversationUnarchive": "run",
    "conversationDelete": "run",
    "conversationApprove": "approve",
    "conversationStream": "read",
}


def somebody(*others: Right) -> Caller:
    """A caller with these rights on everybody's conversations."""
    return Caller("bob", others=frozenset(others))


def arguments_for(tool: str, conversation: str) -> Json:
    everything: Json = {
        "conversation_id": conversation,
        "threadId": conversation,
        "prompt": "2",
        "content": [{"type": "text", "text": "2"}],
        "call_id": "call1",
        "title": "t",
        "decision": "approved",
    }
    wanted = TOOLS[tool].description["inputSchema"]["properties"]
    return {name: value for name, value in everything.items() if name in wanted}


@asynccontextmanager
async def scene(script: Script, folder: Path) -> AsyncGenerator[tuple[ScriptedModel, EngineHere, Connection]]:
    async with ScriptedModel(script) as model, EngineHere(folder, model.url, config=ASKING) as here:
        yield model, here, here.connect(ANN)


async def create(connection: Connection, folder: Path, **more: Any) -> str:
    return (await connection.ask("conversationCreate", cwd=str(folder), **more))["structuredContent"]["conversation_id"]


async def asking(connection: Connection, folder: Path) -> str:
    """A conversation whose question is in the log and was put to whoever made it."""
    conversation = await create(connection, folder)
    connection.call("conversationStream", conversation_id=conversation)
    connection.call("conversationSendMessage", conversation_id=conversation, content=[{"type": "text", "text": "1"}])
    await connection.message("elicitation/create")
    return conversation


async def entries(here: EngineHere, conversation: str) -> list[Entry]:
    return list(await here.engine.log.read(ConversationId(conversation)))


def test_every_tool_about_one_conversation_is_known_here() -> None:
    assert sorted(NEEDED) == ABOUT_ONE


@pytest.mark.parametrize("tool", ABOUT_ONE)
async def test_who_may_not_read_a_conversation_does_not_learn_that_it_exists(tmp_path: Path, tool: str) -> None:
    async with scene([call("shell", command=["touch", "made"])], tmp_path) as (_, here, ann):
        conversation = await asking(ann, tmp_path)
        before = await entries(here, conversation)
        for caller in (somebody(), somebody("run", "approve")):
            bob = here.connect(caller)
            real = await bob.answer(bob.call(tool, **arguments_for(tool, conversation)))
            unknown = await bob.answer(bob.call(tool, **arguments_for(tool, UNKNOWN)))
            assert real["result"]["isError"] is True
            told = json.dumps(real["result"]).replace(conversation, UNKNOWN)
            assert json.loads(told) == unknown["result"], "as an unknown id is answered, to the letter"
            assert [message for message in bob.sink.messages if "method" in message] == []
        assert await entries(here, conversation) == before


@pytest.mark.parametrize("tool", [tool for tool in ABOUT_ONE if NEEDED[tool] != "read"])
async def test_who_lacks_the_right_is_told_which_and_nothing_is_recorded(tmp_path: Path, tool: str) -> None:
    needed = NEEDED[tool]
    async with scene([call("shell", command=["touch", "made"])], tmp_path) as (_, here, ann):
        conversation = await asking(ann, tmp_path)
        before = await entries(here, conversation)
        bob = here.connect(somebody("read", "approve" if needed == "run" else "run"))
        result = await bob.ask(tool, **arguments_for(tool, conversation))
        assert result["isError"] is True
        assert f"bob does not have the right to {needed}" in result["content"][0]["text"]
        assert await entries(here, conversation) == before
        assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("tool", ["codex", "conversationCreate"])
async def test_who_may_not_run_anything_begins_no_conversation(tmp_path: Path, tool: str) -> None:
    async with scene([], tmp_path) as (_, here, _ann):
        bob = here.connect(Caller("bob", rights=frozenset({"read", "approve"})))
        result = await bob.ask(tool, prompt="1", cwd=str(tmp_path))
        assert result["isError"] is True
        assert "bob does not have the right to run" in result["content"][0]["text"]
        listed = await bob.ask("conversationsList")
        assert listed["structuredContent"]["conversations"] == []


async def test_a_viewer_without_the_right_to_approve_is_shown_the_question_and_not_asked(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made"]), say("done")]
    async with scene(script, tmp_path) as (_, here, ann):
        conversation = await create(ann, tmp_path)
        bob = here.connect(somebody("read"))
        bob.call("conversationStream", conversation_id=conversation)
        ann.call("conversationStream", conversation_id=conversation)
        ann.call("conversationSendMessage", conversation_id=conversation, content=[{"type": "text", "text": "1"}])
        question = await ann.message("elicitation/create")
        await bob.message("exec_approval_request")
        bob.say({"id": question["id"], "result": {"decision": "approved"}})  # nobody asked him
        ann.say({"id": question["id"], "result": {"decision": "denied"}})
        await bob.message("task_complete")
        assert not any(message.get("method") == "elicitation/create" for message in bob.sink.messages)
        assert not (tmp_path / "made").exists()


async def test_the_log_names_the_owner_and_who_decided(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made"]), say("done")]
    async with scene(script, tmp_path) as (_, here, ann):
        conversation = await asking(ann, tmp_path)
        bob = here.connect(somebody("read", "approve"))
        result = await bob.ask("conversationApprove", conversation_id=conversation, call_id="call1", decision="approved")
        assert result["structuredContent"] == {"status": "ok"}
        await ann.message("task_complete")
        records = [entry.record for entry in await entries(here, conversation)]
        assert [record.owner for record in records if isinstance(record, Opened)] == ["ann"]
        assert [(record.by, record.decision) for record in records if isinstance(record, ApprovalDecided)] == [("bob", "approved")]
        assert (tmp_path / "made").exists()


async def test_a_turn_is_its_owner_s_also_where_others_join_it(tmp_path: Path) -> None:
    async with scene([deltas(["one", HOLD]), say("two")], tmp_path) as (model, here, ann):
        conversation = await create(ann, tmp_path, prompt="1")
        await model.next_request(1)
        bob = here.connect(somebody("read", "run"))
        joined = bob.call("codex-reply", threadId=conversation, prompt="2")
        model.release()
        assert (await bob.answer(joined))["result"]["structuredContent"]["content"] == "two"


@pytest.mark.parametrize("watches", [True, False])
async def test_a_call_of_somebody_who_may_not_approve_is_denied_unless_somebody_watches_who_may(
    tmp_path: Path, watches: bool
) -> None:
    runner = Caller("run", rights=frozenset({"run", "read"}))
    boss = Caller("boss", others=frozenset({"read", "approve"}))
    script = [say("ready"), call("shell", command=["touch", "made"]), say("done")]
    async with scene(script, tmp_path) as (_, here, _ann):
        connection, other = here.connect(runner), here.connect(boss)
        first = await connection.ask("codex", prompt="1", cwd=str(tmp_path))
        thread = first["structuredContent"]["threadId"]
        if watches:
            other.call("conversationStream", conversation_id=thread)
            await other.message("notifications/initial_state")
        reply = connection.call("codex-reply", threadId=thread, prompt="2")
        if watches:
            question = await other.message("elicitation/create")
            other.say({"id": question["id"], "result": {"decision": "approved"}})
        result = (await connection.answer(reply))["result"]
        assert not any(message.get("method") == "elicitation/create" for message in connection.sink.messages)
        assert (tmp_path / "made").exists() is watches
        refused = result["structuredContent"].get("refused", [])
        assert [one["reason"] for one in refused] == ([] if watches else [MAY_NOT_APPROVE])


async def test_a_list_has_what_the_caller_may_read_and_no_more(tmp_path: Path) -> None:
    async with scene([], tmp_path) as (_, here, ann):
        anns = [await create(ann, tmp_path) for _ in range(3)]
        bob, boss = here.connect(somebody()), here.connect(somebody("read"))
        bobs = [await create(bob, tmp_path)]
        anns.append(await create(ann, tmp_path))

        async def listed(connection: Connection, limit: int) -> list[str]:
            found: list[str] = []
            cursor: Json = {}
            while True:
                page = (await connection.ask("conversationsList", limit=limit, **cursor))["structuredContent"]
                assert len(page["conversations"]) <= limit
                assert page["conversations"] or not found, "a cursor leads to something"
                found += [row["conversation_id"] for row in page["conversations"]]
                if "next_cursor" not in page:
                    return found
                cursor = {"cursor": page["next_cursor"]}

        for limit in (1, 2, 50):
            assert await listed(ann, limit) == anns[::-1]
            assert await listed(bob, limit) == bobs
            assert await listed(boss, limit) == [anns[3], bobs[0], *anns[2::-1]]
