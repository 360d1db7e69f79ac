"""A call as a viewer: its own events and questions, one answer at the end, and nothing after it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from tests.e2e.scenes import answered, failed, kinds, session_of, text_of, thread_of, users_in
from tests.e2e.talking import Stream, create, send
from tests.support.server_here import ServerHere
from understudy.engine.conversation.conversation import Conversation
from understudy.errors import StoreError
from understudy.protocol.callers import LOCAL
from understudy.protocol.jsonrpc import Notification
from understudy.servers.mcp import progress
from understudy.servers.mcp.call import OTHER_FORM
from understudy.testing import HOLD, Call, Script, ScriptedModel, call, deltas, hang, say

ASKING: dict[str, Any] = {"approval_policy": "untrusted"}


@asynccontextmanager
async def scene(script: Script, folder: Path, **options: Any) -> AsyncGenerator[tuple[ScriptedModel, ServerHere]]:
    async with ScriptedModel(script) as model, ServerHere(model.url, cwd=folder, home=folder / "home", **options) as server:
        yield model, server


async def the_conversation(server: ServerHere) -> Conversation:
    [listed] = (await server.engine.list(LOCAL, 1)).rows
    handle = await server.engine.find(LOCAL, listed.conversation_id)
    return handle._conversation  # pyright: ignore[reportPrivateUsage]


def answers(server: ServerHere, call_: Call) -> list[dict[str, Any]]:
    return [frame for frame in server.frames if frame.get("id") == call_.id and "method" not in frame]


async def test_events_come_first_and_the_answer_is_the_last_thing_said(tmp_path: Path) -> None:
    async with scene([deltas(["Hel", "lo"])], tmp_path) as (_, server):
        call_ = server.call_tool("codex", prompt="hi", cwd=str(tmp_path))
        result = await call_
        assert result == answered("Hello", thread_of(result))
        assert kinds(server.events(call_)) == [
            "session_configured",
            "task_started",
            "agent_message_delta",
            "agent_message_delta",
            "agent_message",
            "task_complete",
        ]
        assert server.frames[-1]["id"] == call_.id
        assert {frame["params"]["_meta"]["requestId"] for frame in server.notifications("codex/event")} == {call_.id}


async def test_a_call_that_joins_gets_only_its_answer_and_the_first_all_events(tmp_path: Path) -> None:
    async with scene([deltas(["one", HOLD]), say("two")], tmp_path) as (model, server):
        first = server.call_tool("codex", prompt="1", cwd=str(tmp_path))
        thread = await session_of(server, first)
        await server.event("agent_message_delta", first)
        second = server.call_tool("codex-reply", threadId=thread, prompt="2")
        model.release()
        assert await first == await second == answered("two", thread)
        assert server.events(second) == []
        assert kinds(server.events(first)).count("task_complete") == 1
        assert (len(answers(server, first)), len(answers(server, second))) == (1, 1)


async def test_a_call_is_not_shown_the_turn_before_or_after_its_own(tmp_path: Path) -> None:
    async with scene([say("a"), say("b"), say("c")], tmp_path) as (_, server):
        conversation = await create(server, cwd=str(tmp_path))
        for text, answer in (("1", "a"), ("2", "b"), ("3", "c")):
            call_ = server.call_tool("codex-reply", threadId=conversation, prompt=text)
            assert await call_ == answered(answer, conversation)
            told = [event["message"] for event in server.events(call_) if event["type"] == "agent_message"]
            assert told == [answer]
            assert "session_configured" not in kinds(server.events(call_))


async def test_a_message_by_the_other_door_is_no_business_of_a_finished_call(tmp_path: Path) -> None:
    async with scene([say("a"), say("b")], tmp_path) as (_, server):
        first = server.call_tool("codex", prompt="1", cwd=str(tmp_path))
        thread = thread_of(await first)
        seen = len(server.events(first))
        await send(server, thread, "2")
        await server.call_tool("conversationInterrupt", conversation_id=thread)
        assert len(server.events(first)) == seen
        assert len(answers(server, first)) == 1
        conversation = await the_conversation(server)
        assert conversation.waiting == []


async def test_a_failed_turn_is_a_failed_result_with_the_reason(tmp_path: Path) -> None:
    async with scene([hang()], tmp_path) as (model, server):
        call_ = server.call_tool("codex", prompt="1", cwd=str(tmp_path))
        await model.next_request(1)
        await server.cancel(call_)
        result = await call_
        assert result == failed("Turn interrupted", thread_of(result))
        assert kinds(server.events(call_))[-2:] == ["error", "task_complete"]


async def test_whoever_is_told_that_the_log_failed_is_told_once(tmp_path: Path) -> None:
    async with scene([hang()], tmp_path) as (model, server):
        call_ = server.call_tool("codex", prompt="1", cwd=str(tmp_path))
        await model.next_request(1)
        thread = await session_of(server, call_)
        conversation = await the_conversation(server)
        for follower in tuple(conversation.tail.broadcast.followers):
            follower.fail(StoreError("the disk is full"))
            follower.fail(StoreError("and again"))
        result = await call_
        assert result == failed("the disk is full", thread)
        assert len(answers(server, call_)) == 1
        assert (conversation.tail.broadcast.followers, conversation.waiting) == ([], [])


@pytest.mark.parametrize("can_be_asked", [True, False])
async def test_a_question_goes_to_the_call_that_began_the_turn_or_is_denied(tmp_path: Path, can_be_asked: bool) -> None:
    script = [call("shell", command=["touch", "made"]), say("done")]
    async with scene(script, tmp_path, config=ASKING, can_be_asked=can_be_asked) as (_, server):
        call_ = server.call_tool("codex", prompt="1", cwd=str(tmp_path))
        if can_be_asked:
            question = await server.next_request("elicitation/create")
            assert question["params"]["codex_mcp_tool_call_id"] == str(call_.id)
            await server.respond(question, {"decision": "approved"})
        assert text_of(await call_).startswith("done")
        assert (tmp_path / "made").exists() is can_be_asked


async def test_a_question_that_is_settled_otherwise_is_withdrawn(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made"]), say("done")]
    async with scene(script, tmp_path, config=ASKING) as (_, server):
        call_ = server.call_tool("codex", prompt="1", cwd=str(tmp_path))
        question = await server.next_request("elicitation/create")
        thread = await session_of(server, call_)
        await server.call_tool("conversationApprove", conversation_id=thread, call_id="call1", decision="denied")
        assert text_of(await call_).startswith("done")
        withdrawn = [frame["params"]["requestId"] for frame in server.notifications("notifications/cancelled")]
        assert withdrawn == [question["id"]]


async def test_no_heartbeat_follows_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "HEARTBEAT_SECONDS", 0.01)
    async with scene([deltas(["a", HOLD]), deltas(["b", 0.1])], tmp_path) as (model, server):
        first = server.call_tool("codex", {"prompt": "1", "cwd": str(tmp_path)}, meta={"progressToken": "p"})
        await server.next_notification("notifications/progress", 5)  # it beats while the turn runs
        model.release()
        thread = thread_of(await first)
        beats = len(server.notifications("notifications/progress"))
        assert text_of(await server.call_tool("codex-reply", threadId=thread, prompt="2")).startswith("b")
        assert len(server.notifications("notifications/progress")) == beats


async def test_a_turn_taken_up_from_a_dead_process_puts_its_questions_to_the_call_that_joined(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made"]), say("done")]
    async with ScriptedModel(script) as model:
        home = tmp_path / "home"
        async with ServerHere(model.url, cwd=tmp_path, home=home, config=ASKING) as dead:
            first = dead.call_tool("codex", prompt="1", cwd=str(tmp_path))
            await dead.next_request("elicitation/create")
            thread = await session_of(dead, first)
            async with ServerHere(model.url, cwd=tmp_path, home=home, config=ASKING) as server:
                joined = server.call_tool("codex-reply", threadId=thread, prompt="2")
                await server.request("ping")
                assert server.events(joined) == []
                await dead.end()  # an open question is left as it is, as by a crash
                question = await server.next_request("elicitation/create")
                assert question["params"]["codex_mcp_tool_call_id"] == str(joined.id)
                await server.respond(question, {"decision": "approved"})
                assert text_of(await joined).startswith("done")
                assert kinds(server.events(joined))[-1] == "task_complete"
        assert (tmp_path / "made").exists()


async def test_of_replies_to_a_turn_that_is_ending_the_first_begins_a_turn_and_the_second_only_joins_it(tmp_path: Path) -> None:
    """So cancelling the second leaves the turn alone. One that is cancelled before that is taken back."""
    command = "echo started; sleep 60"
    script = [call("shell", command=["sh", "-c", command], timeout=100_000), deltas(["half", HOLD])]
    async with scene(script, tmp_path, config={"sandbox_mode": "danger-full-access"}) as (model, server):
        first = server.call_tool("codex", prompt="go", cwd=str(tmp_path))
        thread = await session_of(server, first)
        await server.event("exec_command_output_delta", first)
        server.server.receive(Notification("notifications/cancelled", Raw(b'{"requestId":%d}' % first.id)))
        begins, joins, taken_back = (server.call_tool("codex-reply", threadId=thread, prompt=text) for text in "ABC")
        await server.cancel(taken_back)
        assert text_of(await taken_back) == "the message was cancelled before its turn began"
        assert text_of(await first) == "Turn interrupted"
        await server.event("agent_message_delta", begins)
        assert server.events(joins) == []
        assert users_in(model.requests[1])[-2:] == ["A", "B"]
        await server.cancel(joins)
        assert text_of(await joins) == "the call was cancelled; the turn it had joined goes on"
        model.release()
        assert text_of(await begins) == "half"


# -- an answer in the form that the caller wants


def form(name: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "boolean"}}, "required": [name], "additionalProperties": False}


async def test_an_answer_in_a_form_is_its_value_and_has_no_notes(tmp_path: Path) -> None:
    async with scene([say('```json\n{"ok": true}\n```'), say("in words")], tmp_path) as (_, server):
        result = await server.call_tool("codex", {"prompt": "go", "cwd": str(tmp_path), "output-schema": form("ok")})
        thread = thread_of(result)
        assert result["content"] == [{"type": "text", "text": '{"ok": true}'}]
        assert (result["structuredContent"]["content"], result["structuredContent"]["output"]) == ('{"ok": true}', {"ok": True})
        reply = await server.call_tool("codex-reply", threadId=thread, prompt="and now in words")
        assert reply == answered("in words", thread)


async def test_a_turn_that_fails_has_no_answer_in_any_form(tmp_path: Path) -> None:
    async with scene([say("no form"), say("still none")], tmp_path) as (_, server):
        result = await server.call_tool("codex", {"prompt": "go", "cwd": str(tmp_path), "output-schema": form("ok")})
        assert (result["isError"], "output" in result["structuredContent"], len(result["content"])) == (True, False, 1)
        assert OTHER_FORM not in text_of(result)


async def test_a_call_whose_turn_was_asked_for_another_form_is_told_so(tmp_path: Path) -> None:
    async with scene([deltas(["{", HOLD]), say('{"b": true}')], tmp_path) as (model, server):
        first = server.call_tool("codex", {"prompt": "1", "cwd": str(tmp_path), "output-schema": form("a")})
        thread = await session_of(server, first)
        await server.event("agent_message_delta", first)
        second = server.call_tool("codex-reply", {"threadId": thread, "prompt": "2", "output-schema": form("b")})
        await Stream(server, thread, after=0).until("user_message", 2)
        model.release()
        assert (await second)["structuredContent"]["output"] == {"b": True}
        refused = await first
        assert (refused["isError"], text_of(refused)) == (True, OTHER_FORM)


async def test_a_call_that_only_waits_is_answered_in_the_form_that_its_turn_was_asked_for(tmp_path: Path) -> None:
    async with scene([deltas(["{", HOLD, '"ok": true}']), say("in words")], tmp_path) as (model, server):
        asked = {"prompt": "1", "cwd": str(tmp_path), "output-schema": form("ok"), "wait-seconds": 0.01}
        thread = thread_of(await server.call_tool("codex", asked))
        waiting = server.call_tool("codex-reply", threadId=thread)
        model.release()
        result = await waiting
        assert result["content"] == [{"type": "text", "text": '{"ok": true}'}]
        assert result["structuredContent"]["output"] == {"ok": True}
        assert await server.call_tool("codex-reply", threadId=thread) == result, "it is over by now"
        await server.call_tool("codex-reply", threadId=thread, prompt="and now in words")
        assert await server.call_tool("codex-reply", threadId=thread) == answered("in words", thread)
