"""A stream that breaks is resumed by the id of its last event, from the log: exactly the rest, whoever serves it then."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import FORBIDDING, answered
from tests.support.http_server import HttpClient, Response, serving
from understudy.testing import HOLD, ScriptedModel, call, deltas, reasoning, say
from understudy.testing.waiting import WAIT_SECONDS

Json = dict[str, Any]


def shown(events: list[Json]) -> list[Json]:
    """The messages, with deltas of the same item joined. What a command printed is in its end; that is enough once it is over."""
    joined: list[Json] = []
    for event in events:
        data = event.get("data")
        if not data:
            continue
        msg = data.get("params", {}).get("msg", {})
        if msg.get("type") == "exec_command_output_delta" or data.get("method") == "agent_message_delta":
            continue
        if data.get("method") == "notifications/progress":
            data = {"method": "progress", "message": data["params"]["message"]}
        if str(msg.get("type", "")).endswith("_delta") and "delta" in msg:
            before = joined[-1] if joined else {}
            if before.get("type") == msg["type"]:
                before["delta"] += msg["delta"]
                continue
            data = dict(msg)
        joined.append(data)
    return joined


def text_in(events: list[Json]) -> str:
    """What the deltas say."""
    messages = [
        event["data"]["params"]["msg"] for event in events if event.get("data") and "msg" in event["data"].get("params", {})
    ]
    return "".join(msg["delta"] for msg in messages if msg["type"] == "agent_message_delta")


async def take(response: Response, count: int) -> list[Json]:
    """Its first events."""
    taken: list[Json] = []
    async for event in response.events():
        taken.append(event)
        if len(taken) == count:
            break
    return taken


async def take_until_text(response: Response, text: str) -> list[Json]:
    taken: list[Json] = []
    async for event in response.events():
        taken.append(event)
        if text_in(taken) == text:
            return taken
    raise AssertionError(f"the stream ended without {text!r}")


async def rest_of(client: HttpClient, last: str) -> list[Json]:
    response = await client.listen(last)
    assert response.status == 200, await response.body()
    return [event async for event in response.events()]


SCRIPT = [
    reasoning("let me see") + deltas(["I ", "look ", "first."]) + call("shell", command=["echo", "one"]),
    call("shell", command=["echo", "two"], call_id="call2"),
    deltas(["all ", "is ", "well"]),
]


@pytest.mark.quick(1)
@pytest.mark.parametrize("events", ["codex/event", "both", "none"])
async def test_from_every_event_on_a_client_gets_exactly_the_rest(tmp_path: Path, events: str) -> None:
    async with (
        ScriptedModel(SCRIPT) as model,
        serving(tmp_path, model, config={"understudy.events": events}) as (_, client),
    ):
        await client.initialize()
        response = await client.call("codex", {"prompt": "hi"}, progress="p")
        whole = [event async for event in response.events()]
        numbered = [number for number, event in enumerate(whole) if "id" in event]
        assert len(numbered) == len(whole) - 1
        for number in numbered:
            rest = await rest_of(client, whole[number]["id"])
            both = shown([*whole[: number + 1], *rest])
            assert both == shown(whole), f"after event {number}"


@pytest.mark.slow
async def test_a_stream_cut_in_the_middle_of_an_answer_goes_on_where_it_was(tmp_path: Path) -> None:
    words = [f"word{number} " for number in range(60)]
    script = [deltas([words[0], HOLD, *(part for word in words[1:] for part in (word, 0.005))])]
    async with ScriptedModel(script) as model, serving(tmp_path, model) as (_, client):
        await client.initialize()
        response = await client.call("codex", {"prompt": "tell"})
        got = await take_until_text(response, words[0])
        model.release()
        while "result" not in got[-1]["data"]:  # cut again and again, after one event each time
            response.close()
            response = await client.listen(next(event["id"] for event in reversed(got) if "id" in event))
            got += await take(response, 1)
    assert text_in(got) == "".join(words)
    assert got[-1]["data"]["result"]["structuredContent"]["content"] == "".join(words)
    finished = [e for e in got if e.get("data") and e["data"].get("params", {}).get("msg", {}).get("type") == "agent_message"]
    assert len(finished) == 1


@pytest.mark.slow
async def test_a_server_killed_in_the_middle_of_an_answer_gives_the_rest_when_it_is_back(tmp_path: Path) -> None:
    script = [deltas(["Once ", "upon ", HOLD, "a time"]), say("again")]
    async with ScriptedModel(script) as model, serving(tmp_path, model) as (server, client):
        await client.initialize()
        response = await client.call("codex", {"prompt": "tell"}, progress=1)
        got = await take_until_text(response, "Once upon ")
        await server.kill()
        await server.start()
        got += await rest_of(client, got[-1]["id"])
        result = got[-1]["data"]["result"]
        assert text_in(got) == "Once upon "
        assert result["isError"] is True
        assert result["error"] == "Turn interrupted"
        thread = result["structuredContent"]["threadId"]
        assert await client.result("codex-reply", {"threadId": thread, "prompt": "go on"}) == answered("again", thread)
        counted = [e["data"]["params"]["progress"] for e in got if e.get("data") and "progress" in e["data"].get("params", {})]
        assert counted == sorted(set(counted))


@pytest.mark.slow
async def test_a_question_asked_before_a_restart_is_answered_after_it(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made.txt"]), say("done")]
    async with ScriptedModel(script) as model, serving(tmp_path, model, config=FORBIDDING) as (server, client):
        await client.initialize()
        response = await client.call("codex", {"prompt": "make it"})
        got: list[Json] = []
        async for event in response.events():
            got.append(event)
            if event.get("data") and event["data"].get("method") == "elicitation/create":
                break
        question = got[-1]["data"]
        await server.kill()
        await server.start()
        again = await client.listen(got[-1]["id"])
        assert (await client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}})).status == 202
        got += [event async for event in again.events()]
        thread = question["params"]["threadId"]
        result = got[-1]["data"]["result"]
        assert result["structuredContent"]["content"] == "done", result
        assert result["structuredContent"]["threadId"] == thread
        assert (server.cwd / "made.txt").exists()
        asked = [e for e in got if e.get("data") and e["data"].get("method") == "elicitation/create"]
        assert len(asked) == 1


@pytest.mark.slow
async def test_a_question_that_the_client_missed_is_asked_when_it_comes_back(tmp_path: Path) -> None:
    script = [deltas(["wait ", HOLD]) + call("shell", command=["touch", "made.txt"]), say("done")]
    async with ScriptedModel(script) as model, serving(tmp_path, model, config=FORBIDDING) as (server, client):
        await client.initialize()
        response = await client.call("codex", {"prompt": "make it"})
        got = await take_until_text(response, "wait ")
        response.close()
        model.release()
        again = await client.listen(got[-1]["id"])
        async for event in again.events():
            got.append(event)
            if event.get("data") and event["data"].get("method") == "elicitation/create":
                await client.send({"jsonrpc": "2.0", "id": event["data"]["id"], "result": {"action": "accept"}})
        assert got[-1]["data"]["result"]["structuredContent"]["content"] == "done"
        assert (server.cwd / "made.txt").exists()


async def test_a_call_that_was_resumed_can_be_cancelled_and_is_answered_by_a_result(tmp_path: Path) -> None:
    async with ScriptedModel([deltas(["so ", HOLD, "on"])]) as model, serving(tmp_path, model) as (_, client):
        await client.initialize()
        response = await client.post("tools/call", {"name": "codex", "arguments": {"prompt": "tell"}}, "mine")
        got = await take_until_text(response, "so ")
        response.close()
        again = await client.listen(got[-1]["id"])
        await client.notify("notifications/cancelled", {"requestId": "mine"})
        got += [event async for event in again.events()]
        assert got[-1]["data"]["id"] == "mine"
        assert got[-1]["data"]["result"]["error"] == "Turn interrupted"


@pytest.mark.slow
async def test_a_question_put_while_nobody_was_there_is_put_again(tmp_path: Path) -> None:
    script = [deltas(["wait ", HOLD]) + call("shell", command=["touch", "made.txt"]), say("done")]
    async with ScriptedModel(script) as model, serving(tmp_path, model, config=FORBIDDING) as (server, client):
        await client.initialize()
        response = await client.call("codex", {"prompt": "make it"})
        got = await take_until_text(response, "wait ")
        response.close()
        model.release()
        async with asyncio.timeout(WAIT_SECONDS):
            while not (await client.result("conversationsList", {}))["structuredContent"]["conversations"][0]["pending"]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        again = await client.listen(got[-1]["id"])
        async for event in again.events():
            got.append(event)
            if event.get("data") and event["data"].get("method") == "elicitation/create":
                await client.send({"jsonrpc": "2.0", "id": event["data"]["id"], "result": {"action": "accept"}})
        assert got[-1]["data"]["result"]["structuredContent"]["content"] == "done"
        assert (server.cwd / "made.txt").exists()


async def test_an_id_of_another_session_does_not_take_the_place_of_a_request_that_is_open(tmp_path: Path) -> None:
    """Clients number their requests alike, in each session anew."""
    script = [say("first"), deltas(["so ", HOLD, "on"])]
    async with ScriptedModel(script) as model, serving(tmp_path, model) as (server, client):
        await client.initialize()
        response = await client.post("tools/call", {"name": "codex", "arguments": {"prompt": "one"}}, 7)
        ids = [event["id"] async for event in response.events() if event.get("id")]
        other = HttpClient(server.port, client.token)
        await other.initialize()
        response = await other.post("tools/call", {"name": "codex", "arguments": {"prompt": "two"}}, 7)
        got = await take_until_text(response, "so ")
        foreign = await other.listen(ids[0])
        assert (foreign.status, (await foreign.json())["error"]["message"]) == (
            400,
            "Last-Event-ID names no stream that can be resumed",
        )
        model.release()
        got += [event async for event in response.events()]
        assert got[-1]["data"]["result"]["structuredContent"]["content"] == "so on"
        resumed = await other.listen(ids[0])  # nothing is open under that number any more
        assert (await resumed.messages())[-1]["result"]["structuredContent"]["content"] == "first"
