"""Clients of MCP whose front end dies: another one takes their session, their questions and the rest of their answers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.http.test_resuming import rest_of, take_until_text, text_in
from tests.support.http_server import HttpClient, Response
from tests.support.machines import Machines, content, machines, thread
from understudy.testing import HOLD, call, deltas, say

Json = dict[str, Any]
ASKING = {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}
LONG = {"understudy.cluster.lease_seconds": 300}
ASKS = call("shell", command=["touch", "made"], with_escalated_permissions=True, justification="it is needed")
ASKABLE: Json = {"elicitation": {"form": {}}}


def moved(those: Machines, client: HttpClient, name: str) -> HttpClient:
    """The same client with its session, at another front end."""
    other = HttpClient(those.servers[name].port, client.token)
    other.session = client.session
    return other


async def take_until_question(response: Response) -> list[Json]:
    taken: list[Json] = []
    async for event in response.events():
        taken.append(event)
        if event.get("data") and event["data"].get("method") == "elicitation/create":
            return taken
    raise AssertionError(f"the stream ended without a question: {taken}")


@pytest.mark.slow
async def test_the_rest_of_an_answer_comes_through_another_front_end(tmp_path: Path) -> None:
    script = [deltas(["Once ", "upon ", HOLD, "a time"]), say("again")]
    async with machines(tmp_path, script, workers=("a",)) as those:
        x = await those.client("x")
        response = await x.call("codex", {"prompt": "tell", "cwd": str(those.work("w"))}, progress=1)
        got = await take_until_text(response, "Once upon ")
        await those.servers["x"].kill()
        y = moved(those, x, "y")
        those.model.release()
        got += await rest_of(y, next(event["id"] for event in reversed(got) if "id" in event))
        result = got[-1]["data"]["result"]
        assert (text_in(got), content(result)) == ("Once upon a time", "Once upon a time")
        assert content(await y.result("codex-reply", {"threadId": thread(result), "prompt": "more"})) == "again"


@pytest.mark.slow
async def test_a_question_that_was_put_by_a_front_end_that_died_is_answered_through_another(tmp_path: Path) -> None:
    async with machines(tmp_path, [ASKS, say("Made.")], workers=("a",), config={**LONG, **ASKING}) as those:
        x, work = await those.client("x"), those.work("w")
        got = await take_until_question(await x.call("codex", {"prompt": "make it", "cwd": str(work)}))
        question = got[-1]["data"]
        await those.servers["x"].kill()
        await those.servers["a"].kill()
        y = moved(those, x, "y")
        again = await y.listen(got[-1]["id"])
        answer = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}}
        assert (await y.send(answer)).status == 202
        await those.servers["a"].start()
        got += [event async for event in again.events()]
        assert content(got[-1]["data"]["result"]) == "Made."
        assert (work / "made").exists()
        asked = [event for event in got if event.get("data") and event["data"].get("method") == "elicitation/create"]
        assert len(asked) == 1


@pytest.mark.slow
async def test_rounds_of_one_call_go_through_different_front_ends(tmp_path: Path) -> None:
    async with machines(tmp_path, [ASKS, say("Made.")], workers=("a",), config={**LONG, **ASKING}) as those:
        work = those.work("w")

        async def ask(name: str, more: Json) -> Json:
            client = HttpClient(those.servers[name].port, those.servers[name].token)
            params = {"name": "codex", "arguments": {"prompt": "make it", "cwd": str(work)}, **more}
            return (await (await client.modern("tools/call", params, capabilities=ASKABLE)).messages())[-1]["result"]

        asked = await ask("x", {})
        assert asked["resultType"] == "input_required"
        await those.servers["x"].kill()
        await those.servers["a"].kill()
        await those.servers["a"].start()
        answers: Json = {key: {"action": "accept"} for key in asked["inputRequests"]}
        given = {"requestState": asked["requestState"], "inputResponses": answers}
        done = await ask("y", given)
        assert (done["resultType"], content(done)) == ("complete", "Made.")
        assert (work / "made").exists()
        await those.servers["x"].start()
        assert content(await ask("x", given)) == "Made.", "the same round again: it is over, and nothing runs twice"
        assert len(those.model.received) == 2


@pytest.mark.slow
async def test_a_stream_of_a_conversation_goes_on_while_its_worker_is_killed_and_started_again(tmp_path: Path) -> None:
    script = [deltas(["half ", HOLD]), say("after")]
    async with machines(tmp_path, script, workers=("a",), config=LONG) as those:
        x, y = those.rest("x"), those.rest("y")
        row = await x.create(those.work("w"), "begin")
        streams = [await front.stream(row["id"]) for front in (x, y)]
        for stream in streams:
            await stream.until("agent_message_content_delta")
        await those.servers["a"].kill()
        await those.servers["a"].start()
        for stream in streams:
            await stream.until("turn_aborted")
        await y.post(f"/v1/conversations/{row['id']}/messages", {"text": "more"})
        for stream in streams:
            await stream.until("task_complete")
        whole = await x.get(f"/v1/conversations/{row['id']}/events")
        for stream in streams:
            assert [event["data"]["seq"] for event in stream.records()] == [event["seq"] for event in whole["events"]]


@pytest.mark.slow
async def test_a_call_that_waits_waits_for_what_was_sent_through_another_front_end_just_before(tmp_path: Path) -> None:
    script = [say("hello"), deltas(["one ", HOLD, "two"])]
    async with machines(tmp_path, script, workers=("a",)) as those:
        x, y, work = await those.client("x"), await those.client("y"), str(those.work("w"))
        name = thread(await y.result("codex", {"prompt": "begin", "cwd": work}))
        await those.rest("x").post(f"/v1/conversations/{name}/messages", {"text": "more"})
        waits = asyncio.create_task(y.result("codex-reply", {"threadId": name}))
        await those.model.next_request(2)
        those.model.release()
        assert content(await waits) == "one two"
        assert content(await x.result("codex-reply", {"threadId": name})) == "one two", "it is over"
