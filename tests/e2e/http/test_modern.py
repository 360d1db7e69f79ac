"""The era 2026-07-28 over HTTP: requests that stand alone, their headers and statuses, questions by repeated calls, and leaving."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import FORBIDDING
from tests.support.http_server import META, HttpClient, HttpServer, serving
from understudy.testing import HOLD, ScriptedModel, call, deltas, hang, say

Json = dict[str, Any]
ASKABLE: Json = {"elicitation": {"form": {}}}


async def outcome(client: HttpClient, method: str, params: Json | None = None, **more: Any) -> tuple[int, int | None]:
    response = await client.modern(method, params, **more)
    body = await response.json()
    return response.status, body.get("error", {}).get("code")


async def test_statuses_of_the_modern_era(tmp_path: Path) -> None:
    ping: Json = {"name": "conversationsList", "arguments": {}}
    async with serving(tmp_path) as (_, client):
        found = {
            "fine": await outcome(client, "tools/list"),
            "session is ignored": await outcome(client, "tools/list", headers={"Mcp-Session-Id": "whatever"}),
            "encoded name": await outcome(client, "tools/call", ping, headers={"Mcp-Name": "=?base64?Y29udmVyc2F0aW9uc0xpc3Q=?="}),
            "blanks around": await outcome(client, "tools/call", ping, headers={"Mcp-Name": "  conversationsList "}),
            "no method header": await outcome(client, "tools/list", headers={"Mcp-Method": None}),
            "other method": await outcome(client, "tools/list", headers={"Mcp-Method": "tools/call"}),
            "method in capitals": await outcome(client, "tools/list", headers={"Mcp-Method": "Tools/List"}),
            "no name": await outcome(client, "tools/call", ping, headers={"Mcp-Name": None}),
            "other name": await outcome(client, "tools/call", ping, headers={"Mcp-Name": "codex"}),
            "name twice": await outcome(client, "tools/call", ping, headers={"mcp-name": "conversationsList"}),
            "other version in the body": await outcome(client, "tools/list", meta={f"{META}protocolVersion": "2025-11-25"}),
            "no version header": await outcome(client, "tools/list", headers={"MCP-Protocol-Version": None}),
            "no capabilities": await outcome(client, "tools/list", meta={f"{META}clientCapabilities": None}),
            "no version in the body": await outcome(client, "tools/list", meta={f"{META}protocolVersion": None}),
            "no client info": await outcome(client, "tools/list", meta={f"{META}clientInfo": None}),
            "unknown version": await outcome(
                client, "tools/list", headers={"MCP-Protocol-Version": "2030-01-01"}, meta={f"{META}protocolVersion": "2030-01-01"}
            ),
            "initialize": await outcome(client, "initialize"),
            "ping": await outcome(client, "ping"),
            "unknown method": await outcome(client, "no/such"),
        }
        assert found == {
            "fine": (200, None),
            "session is ignored": (200, None),
            "encoded name": (200, None),
            "blanks around": (200, None),
            "no method header": (400, -32020),
            "other method": (400, -32020),
            "method in capitals": (400, -32020),
            "no name": (400, -32020),
            "other name": (400, -32020),
            "name twice": (400, -32020),
            "other version in the body": (400, -32020),
            "no version header": (400, -32020),
            "no capabilities": (400, -32602),
            "no version in the body": (400, -32602),
            "no client info": (200, None),
            "unknown version": (400, -32022),
            "initialize": (404, -32601),
            "ping": (404, -32601),
            "unknown method": (404, -32601),
        }
        for method in ("GET", "DELETE"):
            refused = await client.request(method, {"MCP-Protocol-Version": "2026-07-28"})
            assert (refused.status, refused.headers["allow"]) == (405, "POST")
        modern = {"MCP-Protocol-Version": "2026-07-28"}
        posted: list[tuple[Any, int]] = [
            ([{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}], 400),
            ({"jsonrpc": "2.0", "id": 1, "result": {}}, 400),
            ({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}, 202),
        ]
        for message, status in posted:
            assert (await client.request("POST", modern, json.dumps(message).encode())).status == status


@pytest.mark.slow
async def test_every_result_says_what_it_is_and_lists_how_long_they_hold(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        discovered = (await (await client.modern("server/discover")).json())["result"]
        listed = (await (await client.modern("tools/list")).json())["result"]
        called = (await (await client.modern("tools/call", {"name": "conversationsList", "arguments": {}})).json())["result"]
    assert discovered["supportedVersions"] == ["2026-07-28"]
    for result in (discovered, listed, called):
        assert result["resultType"] == "complete"
        assert result["_meta"][f"{META}serverInfo"]["name"] == "understudy"
    for result in (discovered, listed):
        assert result["ttlMs"] >= 0
        assert result["cacheScope"] == "public"


async def test_a_subscription_is_acknowledged_and_stays_open(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        response = await client.modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        async for event in response.events():
            assert event["data"]["method"] == "notifications/subscriptions/acknowledged"
            assert event["data"]["params"]["_meta"][f"{META}subscriptionId"] == 1
            break
        response.close()


async def test_a_closed_connection_interrupts_the_turn(tmp_path: Path) -> None:
    async with ScriptedModel([hang()]) as model, serving(tmp_path, model) as (_, client):
        response = await client.modern("tools/call", {"name": "codex", "arguments": {"prompt": "x"}})
        await model.next_request(1)
        response.close()
        assert await model.outcome(1) == "dropped"


async def test_where_a_turn_is_kept_a_question_after_its_client_has_left_is_denied_and_the_record_says_why(tmp_path: Path) -> None:
    script = [deltas(["wait ", HOLD]) + call("shell", command=["touch", "made.txt"]), say("done")]
    config = FORBIDDING | {"understudy.serve.on_disconnect": "keep"}
    async with (
        ScriptedModel(script) as model,
        HttpServer(tmp_path, model, config=config, env={"UNDERSTUDY_LOG": "info"}) as server,
    ):
        client = HttpClient(server.port, server.token)
        response = await client.modern("tools/call", {"name": "codex", "arguments": {"prompt": "x"}}, capabilities=ASKABLE)
        async for event in response.events():
            if "agent_message_delta" in str(event):
                thread = event["data"]["params"]["_meta"]["threadId"]
                break
        else:
            raise AssertionError("nothing was said")
        response.close()
        await server.until_told("POST '/mcp': 200")  # a request is told once it is over
        model.release()
        await model.next_request(2)
        wait = {"name": "codex-reply", "arguments": {"threadId": thread}}
        done = (await (await client.modern("tools/call", wait)).messages())[-1]["result"]
        assert done["structuredContent"]["content"] == "done"
        assert "the client has left and nobody else can be asked for approval" in str(model.received[-1].body["messages"])


async def ask(client: HttpClient, arguments: Json, more: Json | None = None, **options: Any) -> Json:
    """The result of one round."""
    params = {"name": "codex", "arguments": arguments, **(more or {})}
    response = await client.modern("tools/call", params, capabilities=options.get("capabilities", ASKABLE))
    answer = (await response.messages())[-1]
    return answer.get("result", answer)


def answers(result: Json, **answer: Any) -> Json:
    given = answer or {"action": "accept"}
    return {"requestState": result["requestState"], "inputResponses": dict.fromkeys(result["inputRequests"], given)}


SCRIPT = [call("shell", command=["touch", "made.txt"]), say("done")]


async def test_a_question_is_in_the_result_and_its_answer_in_the_next_call(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model, serving(tmp_path, model, config=FORBIDDING) as (server, client):
        asked = await ask(client, {"prompt": "make it"})
        assert asked["resultType"] == "input_required"
        (request,) = asked["inputRequests"].values()
        assert request["method"] == "elicitation/create"
        assert "touch made.txt" in request["params"]["message"]
        assert not (server.cwd / "made.txt").exists()
        done = await ask(client, {"prompt": "make it"}, answers(asked))
        assert (done["resultType"], done["structuredContent"]["content"]) == ("complete", "done")
        assert (server.cwd / "made.txt").exists()
        late = await ask(client, {"prompt": "make it"}, answers(asked))  # the same round again: it is over, and nothing runs twice
        assert late["structuredContent"]["content"] == "done"
        assert len(model.received) == 2


async def test_an_answer_that_comes_too_late_is_told_what_was_refused(tmp_path: Path) -> None:
    config = FORBIDDING | {"understudy.question_timeout": 1}
    async with ScriptedModel(SCRIPT) as model, serving(tmp_path, model, config=config) as (server, client):
        asked = await ask(client, {"prompt": "make it"})
        await model.next_request(2)
        done = await ask(client, {"prompt": "make it"}, answers(asked))
        [refused] = done["structuredContent"]["refused"]
        assert (refused["what"], "nobody answered within 1 second" in refused["reason"]) == ("touch made.txt", True)
        assert "refused: touch made.txt" in done["content"][1]["text"]
        assert not (server.cwd / "made.txt").exists()


@pytest.mark.slow
async def test_an_answer_comes_to_a_server_that_was_killed_meanwhile(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model, serving(tmp_path, model, config=FORBIDDING) as (server, client):
        asked = await ask(client, {"prompt": "make it"})
        await server.kill()
        await server.start()
        done = await ask(client, {"prompt": "make it"}, answers(asked))
        assert done["structuredContent"]["content"] == "done"
        assert (server.cwd / "made.txt").exists()


@pytest.mark.slow
async def test_a_denied_question_is_told_to_the_model_and_one_without_an_answer_is_asked_again(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model, serving(tmp_path, model, config=FORBIDDING) as (server, client):
        asked = await ask(client, {"prompt": "make it"})
        again = await ask(client, {"prompt": "make it"}, {"requestState": asked["requestState"], "inputResponses": {"x": {}}})
        assert list(again["inputRequests"]) == list(asked["inputRequests"])
        done = await ask(client, {"prompt": "make it"}, answers(again, action="decline"))
        assert done["structuredContent"]["content"] == "done"
        assert not (server.cwd / "made.txt").exists()


@pytest.mark.slow
async def test_the_state_of_a_round_holds_for_its_caller_and_its_call_only(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model, serving(tmp_path, model, config=FORBIDDING) as (server, client):
        bob = HttpClient(server.port, await server.add_token("bob", "--others", "run,read,approve"))
        asked = await ask(client, {"prompt": "make it"})
        state = answers(asked)
        sealed = asked["requestState"]
        forged = {**state, "requestState": sealed[:-4] + ("AAAA" if sealed[-4:] != "AAAA" else "BBBB")}
        for who, arguments, given in (
            (bob, {"prompt": "make it"}, state),
            (client, {"prompt": "make something else"}, state),
            (client, {"prompt": "make it"}, forged),
            (client, {"prompt": "make it"}, {**state, "requestState": ""}),
        ):
            assert (await ask(who, arguments, given))["error"]["code"] == -32602
        assert not (server.cwd / "made.txt").exists()
        await ask(client, {"prompt": "make it"}, state)


@pytest.mark.slow
async def test_a_client_that_cannot_be_asked_is_not(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model, serving(tmp_path, model, config=FORBIDDING) as (server, client):
        done = await ask(client, {"prompt": "make it"}, capabilities={"elicitation": {"url": {}}})
        assert done["structuredContent"]["content"] == "done"
        assert done["structuredContent"]["refused"]
        assert not (server.cwd / "made.txt").exists()


@pytest.mark.slow
async def test_after_nine_rounds_the_call_is_answered_honestly(tmp_path: Path) -> None:
    """Clients give up at the eleventh."""
    script = [call("shell", command=["touch", f"{number}"], call_id=f"c{number}") for number in range(10)]
    async with ScriptedModel([*script, say("all")]) as model, serving(tmp_path, model, config=FORBIDDING) as (_, client):
        result = await ask(client, {"prompt": "x"})
        rounds = 0
        while result["resultType"] == "input_required":
            rounds += 1
            result = await ask(client, {"prompt": "x"}, answers(result))
        assert rounds == 9
        assert "codex-reply" in result["content"][0]["text"]
        thread = result["structuredContent"]["threadId"]
        await client.initialize()
        waiting = await client.call("codex-reply", {"threadId": thread})
        async for event in waiting.events():
            if event.get("data") and event["data"].get("method") == "elicitation/create":
                await client.send({"jsonrpc": "2.0", "id": event["data"]["id"], "result": {"action": "accept"}})
            elif event.get("data") and "result" in event["data"]:
                assert event["data"]["result"]["structuredContent"]["content"] == "all"


async def test_events_and_progress_go_on_the_stream_of_the_call(tmp_path: Path) -> None:
    async with ScriptedModel([deltas(["a", "b"])]) as model, serving(tmp_path, model) as (_, client):
        response = await client.modern("tools/call", {"name": "codex", "arguments": {"prompt": "x"}}, meta={"progressToken": 0})
        events = [event async for event in response.events()]
        assert all("id" not in event for event in events)
        methods = {event["data"].get("method") for event in events}
        assert methods == {"codex/event", "notifications/progress", None}


@pytest.mark.slow
async def test_a_stream_of_a_conversation_is_answered_when_it_ends(tmp_path: Path) -> None:
    async with ScriptedModel([deltas(["a", HOLD, "b"])]) as model, serving(tmp_path, model) as (_, client):
        made = await (await client.modern("tools/call", {"name": "conversationCreate", "arguments": {"prompt": "x"}})).json()
        one = {"conversation_id": made["result"]["structuredContent"]["conversation_id"]}
        stream = await client.modern("tools/call", {"name": "conversationStream", "arguments": one})
        model.release()
        shown: list[Json] = []
        async for event in stream.events():
            shown.append(event["data"])
            if event["data"].get("method") == "task_complete":
                await client.modern("tools/call", {"name": "conversationDelete", "arguments": one})
        assert shown[0]["method"] == "notifications/initial_state"
        assert shown[-2]["method"] == "notifications/stream_disconnected"
        assert shown[-1]["result"]["resultType"] == "complete"
