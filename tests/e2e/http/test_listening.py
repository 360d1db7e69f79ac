"""The stream of a session that belongs to no call: after a break it goes on from the id of its last event, whoever serves it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.http.test_resuming import shown, text_in
from tests.e2e.scenes import FORBIDDING
from tests.support.http_server import HttpClient, Response, serving
from understudy.testing import HOLD, ScriptedModel, call, deltas, reasoning, say
from understudy.testing.waiting import WAIT_SECONDS

Json = dict[str, Any]


def kind_of(event: Json) -> str:
    data: Json = event.get("data") or {}
    return str(data.get("method", ""))


async def take_until(response: Response, kind: str, times: int = 1) -> list[Json]:
    """Events up to the one of this kind."""
    taken: list[Json] = []
    async with asyncio.timeout(WAIT_SECONDS):
        async for event in response.events():
            taken.append(event)
            if sum(kind_of(each) == kind for each in taken) == times:
                return taken
    raise AssertionError(f"the stream ended without {kind}: {taken}")


async def watching(client: HttpClient, *conversations: str, **more: Any) -> Response:
    """The stream of a session that watches these."""
    stream = await client.listen()
    for each in conversations:
        assert (await client.result("conversationStream", {"conversation_id": each, **more}))["isError"] is False
    return stream


async def created(client: HttpClient) -> str:
    return (await client.result("conversationCreate", {}))["structuredContent"]["conversation_id"]


async def say_to(client: HttpClient, conversation: str) -> None:
    content = [{"type": "text", "text": "go"}]
    assert (await client.result("conversationSendMessage", {"conversation_id": conversation, "content": content}))[
        "isError"
    ] is False


SCRIPT = [
    reasoning("let me see") + deltas(["I ", "look ", "first."]) + call("shell", command=["echo", "one"]),
    deltas(["all ", "is ", "well"]),
]


async def test_from_every_event_on_a_listener_gets_exactly_the_rest(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model, serving(tmp_path, model) as (_, client):
        await client.initialize()
        conversation = await created(client)
        stream = await watching(client, conversation)
        await take_until(stream, "notifications/initial_state")
        await say_to(client, conversation)
        whole = await take_until(stream, "task_complete")
        numbered = [number for number, event in enumerate(whole) if "id" in event]
        assert len(numbered) == len(whole)
        for number in numbered[:-1]:
            again = await client.listen(whole[number]["id"])
            rest = await take_until(again, "task_complete")
            assert shown([*whole[: number + 1], *rest]) == shown(whole), f"after event {number}"


@pytest.mark.slow
async def test_a_server_that_was_killed_shows_the_rest_and_what_comes_then(tmp_path: Path) -> None:
    script = [deltas(["Once ", "upon ", HOLD, "a time"]), say("again")]
    async with ScriptedModel(script) as model, serving(tmp_path, model) as (server, client):
        await client.initialize()
        conversation, other = await created(client), await created(client)
        stream = await watching(client, conversation, other)
        await say_to(client, conversation)
        got: list[Json] = []
        async for event in stream.events():
            got.append(event)
            if text_in(got) == "Once upon ":
                break
        await server.kill()
        await server.start()
        model.release()
        stream = await client.listen(got[-1]["id"])
        await say_to(client, conversation)
        got += await take_until(stream, "task_complete", 2)
        assert text_in(got) == "Once upon again"
        assert [kind_of(event) for event in got].count("notifications/initial_state") == 2
        assert [kind_of(event) for event in got].count("task_started") == 2
        # the other conversation is watched again, too
        assert (await client.result("conversationDelete", {"conversation_id": other}))["isError"] is False
        await take_until(stream, "notifications/stream_disconnected")


@pytest.mark.slow
async def test_a_snapshot_that_was_never_sent_comes_after_a_restart(tmp_path: Path) -> None:
    async with ScriptedModel([]) as model, serving(tmp_path, model) as (server, client):
        await client.initialize()
        stream = await watching(client, await created(client))
        async for event in stream.events():
            assert (event["data"], event["retry"]) == ("", "2000")  # only tells from where to resume
            await server.kill()
            await server.start()
            again = await client.listen(event["id"])
            assert kind_of((await take_until(again, "notifications/initial_state"))[-1]) == "notifications/initial_state"
            break


@pytest.mark.slow
async def test_a_question_is_put_again_only_to_a_listener_that_missed_it(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made.txt"]), say("done")]
    async with ScriptedModel(script) as model, serving(tmp_path, model, config=FORBIDDING) as (server, client):
        await client.initialize()
        conversation = await created(client)
        stream = await watching(client, conversation)
        await say_to(client, conversation)
        got = await take_until(stream, "elicitation/create")
        for restarted in (False, True):
            if restarted:
                await server.kill()
                await server.start()
            missed = next(event for event in got if kind_of(event) == "exec_approval_request")
            again = await take_until(await client.listen(missed["id"]), "elicitation/create")
            assert again[-1]["data"]["id"] == got[-1]["data"]["id"]
            assert [kind_of(event) for event in again].count("exec_approval_request") == 0
        seen = await client.listen(got[-1]["id"])
        await client.send({"jsonrpc": "2.0", "id": got[-1]["data"]["id"], "result": {"action": "accept"}})
        rest = await take_until(seen, "task_complete")
        assert "elicitation/create" not in [kind_of(event) for event in rest]
        assert (server.cwd / "made.txt").exists()


@pytest.mark.slow
async def test_the_id_of_an_event_shows_nothing_to_others(tmp_path: Path) -> None:
    async with ScriptedModel([say("secret")]) as model, serving(tmp_path, model) as (server, local):
        await local.initialize()
        conversation = await created(local)
        stream = await watching(local, conversation)
        first = (await take_until(stream, "notifications/initial_state"))[-1]["id"]
        await say_to(local, conversation)
        await take_until(stream, "task_complete")
        bob = HttpClient(server.port, await server.add_token("bob"))
        await bob.initialize()
        theirs = await bob.listen(first)
        assert theirs.status == 200
        assert (await bob.result("conversationsList", {}))["structuredContent"]["conversations"] == []
        assert (await bob.request("DELETE", bob.session_headers())).status == 200  # which ends his stream
        assert [event async for event in theirs.events()] == []
        for strange in ("~", "~~", "~x", "~" + "A" * 30, first + ".5", first + "~x", first * 40):
            assert (await local.listen(strange)).status == 400, strange
