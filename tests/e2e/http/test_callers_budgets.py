"""Budgets and named callers: anyone may lower one; raising one, and a yes at a limit, take the right `budget`."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.http_server import HttpClient, HttpServer, serving
from tests.support.rest_client import RestClient
from tests.support.task_clients import ASKABLE, HttpDoor, TaskClient
from understudy.testing import Script, ScriptedModel, call, say

Json = dict[str, Any]
LIMITED: Json = {
    "approval_policy": "on-request",
    "sandbox_mode": "read-only",
    "understudy.budget.tokens": 100,
    "understudy.budget.call.requests": 5,
}
MAY_RAISE = ("--rights", "run,approve,read,budget")
BUSY = call("shell", command=["true"]) + say("", usage=(120, 0))


@asynccontextmanager
async def stage(tmp_path: Path, script: Script) -> AsyncGenerator[tuple[ScriptedModel, HttpServer]]:
    async with ScriptedModel(script) as model, serving(tmp_path, model, config=LIMITED) as (server, _):
        yield model, server


async def initialized(server: HttpServer, name: str, *flags: str) -> HttpClient:
    client = HttpClient(server.port, await server.add_token(name, *flags))
    await client.initialize()
    return client


def words(result: Json) -> str:
    return " ".join(part["text"] for part in result["content"])


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("budget", "told"),
    [
        ({"tokens": 101}, "101 tokens, where a conversation may have 100 tokens"),
        ({"requests": 6, "tokens": 5}, "6 requests, where a call may have 5 requests"),
    ],
)
async def test_more_than_is_configured_is_refused_at_every_door_and_nothing_is_recorded(
    tmp_path: Path, budget: Json, told: str
) -> None:
    """Refused, not lowered."""
    async with stage(tmp_path, []) as (model, server):
        client = await initialized(server, "ann")
        rest = RestClient(server.port, client.token)
        thread = (await rest.create(server.cwd))["id"]
        text = [{"type": "text", "text": "x"}]
        tools: list[tuple[str, Json]] = [
            ("codex", {"prompt": "x"}),
            ("codex-reply", {"threadId": thread, "prompt": "x"}),
            ("conversationCreate", {"prompt": "x"}),
            ("conversationSendMessage", {"conversation_id": thread, "content": text}),
        ]
        for tool, arguments in tools:
            given = {**arguments, "budget": budget}
            result = await client.result(tool, given)
            assert result["isError"] is True, tool
            assert "ann does not have the right `budget`" in words(result), tool
            assert told in words(result), tool
            [*_, last] = await (await client.modern("tools/call", {"name": tool, "arguments": given})).messages()
            assert told in words(last["result"]), tool
        for path, body in (("", {"prompt": "x", "folder": str(server.cwd)}), (f"/{thread}/messages", {"text": "x"})):
            refused = await rest.request("POST", f"/v1/conversations{path}", {**body, "budget": budget})
            assert (refused.status, told in (await refused.body()).decode()) == (403, True), path
        [row] = (await rest.get("/v1/conversations"))["conversations"]
        assert row["id"] == thread, "none was begun for what was refused"
        events = (await rest.get(f"/v1/conversations/{thread}/events?limit=1000"))["events"]
        assert not [event for event in events if event["msg"]["type"] in ("user_message", "task_started")]
        assert not model.requests


@pytest.mark.parametrize("flags", [(), MAY_RAISE], ids=["asks for less", "may raise"])
async def test_less_is_anybodys_and_more_takes_the_right(tmp_path: Path, flags: tuple[str, ...]) -> None:
    async with stage(tmp_path, [say("done")]) as (_, server):
        client = await initialized(server, "ann", *flags)
        budget = {"tokens": 1000, "requests": 50} if flags else {"tokens": 100, "requests": 1, "seconds": 900}
        result = await client.result("codex", {"prompt": "x", "budget": budget})
        assert result["structuredContent"]["content"] == "done"


async def test_at_a_limit_who_may_not_raise_it_is_not_asked_and_the_turn_says_so(tmp_path: Path) -> None:
    async with stage(tmp_path, [BUSY, BUSY]) as (_, server):
        client = TaskClient(HttpDoor(HttpClient(server.port, await server.add_token("ann"))), ASKABLE)
        done = await client.over(await client.begin(cwd=str(server.cwd)))
        assert "120 of 100 tokens, and it was not raised (the caller does not have the right `budget`" in words(done["result"])
        session = await initialized(server, "ben")
        messages = await (await session.call("codex", {"prompt": "x"})).messages()
        assert not [message for message in messages if message.get("method") == "elicitation/create"]
        assert "the caller does not have the right `budget`" in words(messages[-1]["result"])


@pytest.mark.quick(1)
@pytest.mark.parametrize("tool", [True, False], ids=["by a tool", "by REST"])
async def test_an_open_question_is_answered_with_a_yes_only_with_the_right(tmp_path: Path, tool: bool) -> None:
    async with stage(tmp_path, [BUSY, say("done")]) as (model, server):
        ann, boss = await initialized(server, "ann"), await initialized(server, "boss", "--others", "read,approve,budget")
        hers, his = RestClient(server.port, ann.token), RestClient(server.port, boss.token)
        thread = (await hers.create(server.cwd, "go"))["id"]
        stream = await his.stream(thread)
        asked = await stream.until("approval_request")
        call_id = asked["msg"]["call_id"]
        assert (await hers.get(f"/v1/conversations/{thread}"))["may"] == ["run", "approve", "read"]
        assert (await his.get(f"/v1/conversations/{thread}"))["may"] == ["approve", "read", "budget"]
        for decision in ("approved", "approved_for_session"):
            answer = {"call_id": call_id, "decision": decision}
            if tool:
                said = await ann.result("conversationApprove", {"conversation_id": thread, **answer})
                assert "ann does not have the right to budget" in words(said)
            else:
                assert await hers.status("POST", f"/v1/conversations/{thread}/decisions", answer) == (403, "forbidden")
        assert (await hers.get(f"/v1/conversations/{thread}"))["state"] == "waiting"
        await his.post(f"/v1/conversations/{thread}/decisions", {"call_id": call_id, "decision": "approved"})
        ended = await stream.until("task_complete")
        assert ended["msg"]["last_agent_message"] == "done"
        stream.close()
        assert len(model.requests) == 2


@pytest.mark.slow
async def test_whoever_may_approve_may_stop_the_turn_at_a_limit(tmp_path: Path) -> None:
    async with stage(tmp_path, [BUSY]) as (model, server):
        hers = RestClient(server.port, await server.add_token("ann"))
        thread = (await hers.create(server.cwd, "go"))["id"]
        stream = await hers.stream(thread)
        call_id = (await stream.until("approval_request"))["msg"]["call_id"]
        await hers.post(f"/v1/conversations/{thread}/decisions", {"call_id": call_id, "decision": "denied"})
        await stream.until("error")
        stream.close()
        assert len(model.requests) == 1
