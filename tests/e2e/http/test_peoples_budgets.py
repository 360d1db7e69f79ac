"""A token with a budget for a day, a week or a month: counted in the store, over conversations, doors, processes and restarts."""

import asyncio
from pathlib import Path

import pytest

from tests.support.http_server import HttpServer
from tests.support.rest_client import RestClient
from understudy.testing import HOLD, Answer, ScriptedModel, call, deltas, say
from understudy.testing.waiting import WAIT_SECONDS

FREE = {"approval_policy": "never", "sandbox_mode": "read-only"}
ANSWER = say("Yes.", usage=(80, 20))


async def until_idle(client: RestClient, conversation: str) -> str:
    async with asyncio.timeout(WAIT_SECONDS):
        while (row := await client.get(f"/v1/conversations/{conversation}"))["state"] == "working":  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return str(row["state"])


async def refused(client: RestClient, cwd: Path) -> tuple[int, str]:
    return await client.status("POST", "/v1/conversations", {"prompt": "More", "folder": str(cwd)})


async def test_what_is_used_up_stays_used_up_over_conversations_and_a_restart(tmp_path: Path) -> None:
    async with ScriptedModel([ANSWER, ANSWER, ANSWER]) as model:
        async with HttpServer(tmp_path, model, config=FREE) as server:
            token = await server.add_token("mia", "--budget", "tokens=200/month", "--budget", "requests=50/day")
            mia, anybody = RestClient(server.port, token), RestClient(server.port, server.token)
            rows = [await mia.create(server.cwd, "Say yes") for _ in range(2)]
            assert [await until_idle(mia, row["id"]) for row in rows] == ["idle", "idle"]
            assert await refused(mia, server.cwd) == (403, "budget_spent")
            before = len((await mia.get("/v1/conversations"))["conversations"])
            response = await mia.request("POST", f"/v1/conversations/{rows[0]['id']}/messages", {"text": "More"})
            assert (response.status, b"200 tokens a month" in await response.body()) == (403, True)
            assert len((await mia.get("/v1/conversations"))["conversations"]) == before == 2, "nothing was begun"
        async with HttpServer(tmp_path, model, config=FREE) as server:
            mia, anybody = RestClient(server.port, token), RestClient(server.port, server.token)
            assert await refused(mia, server.cwd) == (403, "budget_spent")
            other = await anybody.create(server.cwd, "Say yes")
            assert await until_idle(anybody, other["id"]) == "idle", "it is nobody else's"


async def test_a_turn_ends_when_its_caller_has_used_up_what_they_may_use(tmp_path: Path) -> None:
    answers = [Answer(call("shell", command=["true"]).parts, (80, 20))] * 2
    async with ScriptedModel(answers) as model, HttpServer(tmp_path, model, config=FREE) as server:
        mia = RestClient(server.port, await server.add_token("mia", "--budget", "tokens=150/week"))
        row = await mia.create(server.cwd, "Go on and on")
        assert await until_idle(mia, row["id"]) == "failed"
        events = (await mia.get(f"/v1/conversations/{row['id']}/events"))["events"]
        assert any("the budget of mia is used up: 150 tokens a week" in str(event["msg"]) for event in events)


async def test_turns_at_once_share_what_is_left(tmp_path: Path) -> None:
    """Each may have one answer under way; nobody gets a second one."""
    answers = [deltas(["Yes", HOLD], usage=(80, 20))] * 3
    async with ScriptedModel(answers) as model, HttpServer(tmp_path, model, config=FREE) as server:
        mia = RestClient(server.port, await server.add_token("mia", "--budget", "tokens=100/day"))
        rows = [await mia.create(server.cwd, f"Say yes {number}") for number in range(3)]
        await model.next_request(3)
        model.release()
        for row in rows:
            await until_idle(mia, row["id"])
        assert await refused(mia, server.cwd) == (403, "budget_spent")


async def test_more_than_is_left_is_refused_and_not_lowered(tmp_path: Path) -> None:
    async with ScriptedModel([ANSWER]) as model, HttpServer(tmp_path, model, config=FREE) as server:
        mia = RestClient(server.port, await server.add_token("mia", "--budget", "tokens=500/month"))
        body = {"prompt": "Say yes", "folder": str(server.cwd), "budget": {"tokens": 501}}
        response = await mia.request("POST", "/v1/conversations", body)
        assert (response.status, b"more than is left: 500 tokens of 500 tokens this month" in await response.body()) == (403, True)
        row = await mia.post("/v1/conversations", body | {"budget": {"tokens": 400}})
        assert await until_idle(mia, row["id"]) == "idle"


@pytest.mark.slow
async def test_without_a_price_a_budget_in_dollars_refuses_to_guess(tmp_path: Path) -> None:
    async with ScriptedModel([]) as model, HttpServer(tmp_path, model, config=FREE) as server:
        mia = RestClient(server.port, await server.add_token("mia", "--budget", "cost_usd=0.5/day"))
        row = await mia.create(server.cwd, "Say yes")
        assert await until_idle(mia, row["id"]) == "failed"
        events = (await mia.get(f"/v1/conversations/{row['id']}/events"))["events"]
        assert any("because it has no price" in str(event["msg"]) for event in events)
