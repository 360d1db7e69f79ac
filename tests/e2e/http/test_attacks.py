"""What hostile clients try over HTTP: strange JSON, ids used again, eras mixed up, tokens guessed, slow heads, streams not read."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.http_server import META, MODERN, HttpClient, serving
from understudy.servers.serve.connection import HEAD_SECONDS
from understudy.testing import HOLD, ScriptedModel, deltas, hang, say
from understudy.testing.waiting import WAIT_SECONDS

Json = dict[str, Any]
DEEP = 100_000
STRANGE: list[tuple[bytes, int]] = [
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"[" * DEEP + b"]" * DEEP + b"}", 400),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}", 400),
    (b"[" * DEEP, 400),
    (b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}', 400),
    (b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}', 400),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', 400),
    (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', 400),
    (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', 400),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}', 400),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n{"jsonrpc":"2.0","id":2,"method":"ping"}', 400),
    (b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', 400),
    (b"\xef\xbb\xbf" + b'{"jsonrpc":"2.0","id":1,"method":"ping"}', 400),
    (b"\x00", 400),
    (b"NaN", 400),
]


async def test_strange_json_is_answered_once_and_harms_nobody(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await client.initialize()
        for body, status in STRANGE:
            response = await client.request("POST", client.session_headers(), body)
            assert response.status == status, body[:80]
            answer = await response.json()
            assert ("error" in answer) or ("result" in answer)
        modern = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "ping"}
        for body, _ in STRANGE:
            assert 400 <= (await client.request("POST", modern, body)).status < 500, body[:80]
        assert (await client.post("ping")).status == 200


async def test_of_two_requests_with_one_id_each_is_answered_and_a_cancellation_ends_one_turn(tmp_path: Path) -> None:
    async with ScriptedModel([hang(), say("second")]) as model, serving(tmp_path, model) as (_, client):
        await client.initialize()
        await client.notify("notifications/cancelled", {"requestId": "mine"})  # before there is such a request: it means nothing
        first = await client.post("tools/call", {"name": "codex", "arguments": {"prompt": "x"}}, "mine")
        await model.next_request(1)
        second = await client.post("tools/call", {"name": "codex", "arguments": {"prompt": "y"}}, "mine")
        assert (await second.messages())[-1]["result"]["structuredContent"]["content"] == "second"
        other = HttpClient(client.port, client.token)
        await other.initialize()
        await other.notify("notifications/cancelled", {"requestId": "mine"})  # of another session: it means nothing
        assert (await client.request("DELETE", client.session_headers())).status == 200
        first.close()
        listed = (await other.result("conversationsList", {}))["structuredContent"]["conversations"]
        assert {each["status"] for each in listed} == {"running", "idle"}  # what was begun goes on
        for conversation in listed:
            await other.result("conversationInterrupt", {"conversation_id": conversation["conversation_id"]})


async def test_a_request_is_of_one_era_whatever_else_it_says(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await client.initialize()
        meta: Json = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {"elicitation": {}}}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}).encode()
        in_session = await client.request("POST", client.session_headers(), body)
        assert "resultType" not in (await in_session.json())["result"]  # the session was negotiated, and holds
        told_modern = await client.request(
            "POST", {**client.session_headers(), "MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}, body
        )
        assert (await told_modern.json())["result"]["resultType"] == "complete"
        older = await client.request("POST", {**client.session_headers(), "MCP-Protocol-Version": "2025-03-26"}, body)
        assert older.status == 200  # a known one does no harm: what was negotiated holds
        for method in ("initialize", "notifications/initialized", "resources/subscribe", "tasks/list"):
            refused = await client.modern(method)
            assert (refused.status, (await refused.json())["error"]["code"]) == (404, -32601), method


@pytest.mark.slow
async def test_guessing_tokens_gets_nobody_in_and_keeps_nobody_out(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, client):
        await client.initialize()
        real = server.token

        async def guess(number: int) -> int:
            at = number % len(real)
            other = "x" if real[at] != "x" else "y"
            stranger = HttpClient(server.port, real[:at] + other + real[at + 1 :])
            response = await stranger.request("POST", client.session_headers(), b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
            assert b"tools" not in await response.body()
            return response.status

        for begin in range(0, 500, 50):
            assert set(await asyncio.gather(*(guess(begin + each) for each in range(50)))) == {401}
        assert (await client.post("ping")).status == 200
    assert real not in server.stderr


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", ["Mcp-Session-Id", "Last-Event-ID", "Origin", "X-Request-Id", "Mcp-Name", "traceparent"])
async def test_what_a_header_says_makes_no_header_of_ours(tmp_path: Path, name: str) -> None:
    async with serving(tmp_path) as (_, client):
        await client.initialize()
        for value in ("x\rInjected: 1", "x\nInjected: 1", "x\r\nInjected: 1", "x%0d%0aInjected: 1", "x\x00y", "\x85Injected: 1"):
            try:
                response = await client.request("GET", {**client.session_headers(), name: value})
            except ConnectionError:
                continue  # it was let go without a word
            assert "injected" not in response.headers, (name, value)
            if response.is_stream:
                response.close()
        assert (await client.post("ping")).status == 200


@pytest.mark.slow
async def test_a_head_that_drips_is_not_waited_for(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        ended = asyncio.ensure_future(reader.read())
        writer.write(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        async with asyncio.timeout(HEAD_SECONDS + WAIT_SECONDS):
            while not ended.done():
                writer.write(b"a")
                await asyncio.wait([ended], timeout=0.5)
        assert ended.exception() is not None or b"200" not in ended.result()[:20]
        writer.transport.abort()
        await asyncio.sleep(0)


@pytest.mark.slow
async def test_listeners_that_never_read_hold_up_neither_the_turn_nor_the_others(tmp_path: Path) -> None:
    piece = "x" * 1000
    async with ScriptedModel([deltas([HOLD, *[piece] * 3000])]) as model, serving(tmp_path, model) as (server, client):
        await client.initialize()
        made = await client.result("conversationCreate", {"prompt": "long"})
        one = {"conversation_id": made["structuredContent"]["conversation_id"]}
        await model.next_request(1)
        stuck: list[Any] = []
        for _ in range(5):
            viewer = HttpClient(server.port, server.token)
            await viewer.initialize()
            stuck.append(await viewer.listen())
            assert (await viewer.result("conversationStream", one))["isError"] is False
        model.release()
        ended = await client.result("codex-reply", {"threadId": one["conversation_id"]})
        assert ended["structuredContent"]["content"] == piece * 3000
        for each in stuck:
            each.close()


@pytest.mark.slow
async def test_a_session_or_a_question_of_another_is_of_no_use(tmp_path: Path) -> None:
    async with ScriptedModel([]) as model, serving(tmp_path, model) as (server, local):
        await local.initialize()
        bob = HttpClient(server.port, await server.add_token("bob"))
        bob.session = local.session
        for method in ("POST", "GET", "DELETE"):
            body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}' if method == "POST" else b""
            theirs = await bob.request(method, bob.session_headers(), body)
            unknown = await bob.request(method, {**bob.session_headers(), "Mcp-Session-Id": "0" * 40}, body)
            assert (theirs.status, await theirs.body()) == (404, await unknown.body())
        assert (await local.post("ping")).status == 200
