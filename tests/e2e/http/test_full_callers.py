"""A caller who has as many requests open as they may can still answer what these ask, and end them."""

from pathlib import Path

import pytest

from tests.e2e.http.test_callers import client_of
from tests.e2e.scenes import FORBIDDING
from tests.support.http_server import Json, Response, serving
from tests.support.rest_client import RestClient
from understudy.testing import ScriptedModel, call, hang, say

FULL_WITH_TWO = FORBIDDING | {"understudy.serve.concurrency": 2}
SCRIPT = [call("shell", command=["touch", "made.txt"]), say("done")]


async def next_question(running: Response) -> Json:
    async for event in running.events():
        if event.get("data") and event["data"].get("method") == "elicitation/create":
            return event["data"]
    raise AssertionError("nothing was asked")


async def test_a_question_is_answered_though_no_further_request_may_be_open(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model, serving(tmp_path, model, config=FULL_WITH_TWO) as (server, _):
        alice = await client_of(server, "alice")
        waiting = await alice.listen()
        running = await alice.call("codex", {"prompt": "make it"})
        question = await next_question(running)
        refused = await alice.post("ping", request_id="one too many")
        assert (refused.status, refused.headers["retry-after"], (await refused.json())["id"]) == (429, "1", "one too many")
        assert (await alice.listen()).status == 429
        assert (await alice.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}})).status == 202
        assert (await running.messages())[-1]["result"]["structuredContent"]["content"] == "done"
        assert (await alice.post("ping")).status == 200  # the call is over
        waiting.close()


@pytest.mark.slow
async def test_a_call_is_cancelled_and_a_session_ended_though_no_further_request_may_be_open(tmp_path: Path) -> None:
    async with ScriptedModel([hang()]) as model, serving(tmp_path, model, config=FULL_WITH_TWO) as (server, _):
        alice = await client_of(server, "alice")
        waiting = await alice.listen()
        running = await alice.post("tools/call", {"name": "codex", "arguments": {"prompt": "think"}}, "long")
        await model.next_request(1)
        assert (await alice.notify("notifications/cancelled", {"requestId": "long"})).status == 202
        assert (await running.messages())[-1]["result"]["error"] == "Turn interrupted"
        other = await alice.listen()
        assert (await alice.request("DELETE", alice.session_headers())).status == 200
        for each in (waiting, other):
            assert [event async for event in each.events()] == []


@pytest.mark.slow
async def test_a_decision_counts_though_no_further_stream_may_be_open(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model, serving(tmp_path, model, config=FULL_WITH_TWO) as (server, _):
        alice = await client_of(server, "alice")
        running = await alice.call("codex", {"prompt": "make it"})
        question = await next_question(running)
        rest = RestClient(server.port, alice.token)
        changes = await rest.request("GET", "/v1/changes")
        place = f"/v1/conversations/{question['params']['threadId']}"
        assert (await rest.request("GET", f"{place}/events?stream=1")).status == 429
        decision = {"call_id": "call1", "decision": "approved"}
        assert (await rest.request("POST", f"{place}/decisions", decision)).status == 200
        assert (await running.messages())[-1]["result"]["structuredContent"]["content"] == "done"
        changes.close()
