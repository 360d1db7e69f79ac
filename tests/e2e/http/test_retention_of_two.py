"""Two servers of one home that both delete what is too old, while a third one's clients follow conversations and decide."""

import asyncio
from pathlib import Path

import pytest

from tests.e2e.http.test_decided_from import understudy
from tests.e2e.http.test_retention import age
from tests.support.http_server import HttpServer
from tests.support.rest_client import RestClient, Stream
from understudy.testing import Answer, ReceivedRequest, ScriptedModel, call, say
from understudy.testing.waiting import WAIT_SECONDS

QUIET, WATCHED, ASKING = 24, 8, 8


def answer(request: ReceivedRequest) -> Answer:
    last = request.body["messages"][-1]
    if last["role"] == "user" and "ask" in str(last["content"]):
        return call("shell", command=["touch", "made"], with_escalated_permissions=True, justification="it is needed")
    return say("done")


async def until_gone(client: RestClient, conversations: list[str]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        for conversation in conversations:
            while (await client.status("GET", f"/v1/conversations/{conversation}"))[0] != 404:  # noqa: ASYNC110
                await asyncio.sleep(0.02)


async def decide(client: RestClient, conversation: str) -> int:
    [question] = (await client.get(f"/v1/conversations/{conversation}"))["questions"]
    decision = {"call_id": question["call_id"], "decision": "approved", "mark": question["mark"]}
    status, _ = await client.status("POST", f"/v1/conversations/{conversation}/decisions", decision)
    return status


async def shows(client: RestClient, conversation: str, kind: str) -> None:
    stream = await client.stream(conversation)
    await stream.until(kind)
    stream.close()


async def over(stream: Stream) -> bool:
    async with asyncio.timeout(WAIT_SECONDS):
        return await stream.is_over()


@pytest.mark.slow
async def test_what_waits_stays_and_can_be_decided_and_the_rest_goes_once(tmp_path: Path) -> None:
    async with ScriptedModel(answer) as model, HttpServer(tmp_path, model) as here:
        client = RestClient(here.port, here.token)
        quiet = [(await client.create(here.cwd, "hi"))["id"] for _ in range(QUIET + WATCHED)]
        asking = [
            (await client.create(here.cwd, "ask", approval_policy="on-request", sandbox="workspace-write"))["id"]
            for _ in range(ASKING)
        ]
        for conversation in quiet:
            await shows(client, conversation, "task_complete")
        for conversation in asking:
            await shows(client, conversation, "exec_approval_request")
        streams = [await client.stream(conversation) for conversation in quiet[:WATCHED]]
        age(here, dict.fromkeys([*quiet, *asking], 100))
        others: list[HttpServer] = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            other = HttpServer(tmp_path / name, model, config={"understudy.serve.keep_days": 7})
            other.home.path.joinpath("config.toml").replace(here.home.path / "config.toml")
            other.home = here.home
            others.append(other)
        await asyncio.gather(*(other.start() for other in others))
        try:
            decided = await asyncio.gather(*(decide(client, conversation) for conversation in asking))
            assert decided == [200] * ASKING
            await until_gone(client, quiet)
            assert all(await asyncio.gather(*(over(stream) for stream in streams)))  # whoever follows is told
            for server in others:
                there = RestClient(server.port, here.token)
                rows = (await there.get("/v1/conversations?limit=100"))["conversations"]
                assert {row["id"] for row in rows} == set(asking)
            for conversation in asking:
                await shows(client, conversation, "task_complete")
        finally:
            codes = [await other.stop() for other in others]
        assert codes == [0, 0]
        told = "".join(other.stderr for other in others)
        assert "Traceback" not in told, told
        deleted = [line for line in told.splitlines() if "was deleted" in line]
        assert len(deleted) == len(set(deleted)) == len(quiet)
        await understudy(here, "verify")
