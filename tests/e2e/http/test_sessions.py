"""Sessions of the legacy era over HTTP: how one begins, goes on and ends, and what is refused with which status."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import answered
from tests.support.http_server import LEGACY, HttpClient, HttpServer, serving
from understudy.testing import ScriptedModel, say
from understudy.testing.waiting import WAIT_SECONDS


async def test_a_call_streams_its_events_with_ids_and_ends_with_its_answer(tmp_path: Path) -> None:
    async with ScriptedModel([say("hello")]) as model, serving(tmp_path, model) as (_, client):
        await client.initialize()
        response = await client.call("codex", {"prompt": "hi"}, progress=7)
        assert response.is_stream
        assert response.headers["mcp-session-id"] == client.session
        events = [event async for event in response.events()]
    *before, last = events
    thread = next(e["data"]["params"]["_meta"]["threadId"] for e in before if e["data"] and "_meta" in e["data"]["params"])
    assert last["data"]["result"] == answered("hello", thread)
    assert all("id" in event for event in before)
    assert "id" not in last
    assert events[0]["retry"] == "2000"
    shown = [e["data"]["params"]["msg"]["type"] for e in before if e["data"] and e["data"]["method"] == "codex/event"]
    assert shown == ["session_configured", "task_started", "agent_message_delta", "agent_message", "task_complete"]
    counted = [e["data"]["params"]["progress"] for e in before if e["data"] and e["data"]["method"] == "notifications/progress"]
    assert counted == list(range(1, len(counted) + 1))
    assert counted


async def test_what_is_answered_at_once_is_answered_in_json(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await client.initialize()
        listed = await client.post("tools/list")
        failed = await client.call("codex-reply", {"threadId": "67e55044-10b1-426f-9247-bb680e5fe0c8", "prompt": "x"})
        unknown = await client.post("no/such/method")
        assert listed.headers["content-type"] == failed.headers["content-type"] == "application/json"
        assert (await listed.json())["result"]["tools"][0]["name"] == "codex"
        assert (await failed.json())["result"]["isError"] is True
        assert (unknown.status, (await unknown.json())["error"]["code"]) == (200, -32601)


@pytest.mark.slow
async def test_a_session_is_over_once_it_is_deleted_also_after_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, client):
        await client.initialize()
        assert (await client.request("DELETE", client.session_headers())).status == 200
        assert (await client.request("DELETE", client.session_headers())).status == 404
        assert (await client.post("tools/list")).status == 404
        await server.stop()
        await server.start()
        assert (await client.post("tools/list")).status == 404


@pytest.mark.slow
async def test_a_session_survives_a_restart_of_the_server(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, client):
        await client.initialize()
        await server.kill()
        await server.start()
        assert (await (await client.post("tools/list")).json())["result"]["tools"]


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_known_versions_are_echoed_and_others_get_the_newest_with_a_session(tmp_path: Path, asked: str) -> None:
    async with serving(tmp_path) as (_, client):
        assert (await client.initialize(asked))["protocolVersion"] == asked
        for other in ("2026-07-28", "1999-01-01"):
            assert (await HttpClient(client.port, client.token).initialize(other))["protocolVersion"] == LEGACY


def forged(session: str) -> str:
    """Another end than it has, whatever that is."""
    return session[:-4] + ("AAAA" if session[-4:] != "AAAA" else "BBBB")


async def test_statuses_of_the_legacy_era(tmp_path: Path) -> None:
    """As http.md has them: what a client can rely on is the status."""

    async def status(
        client: HttpClient, headers: dict[str, str | None], body: object = None, method: str = "POST"
    ) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        response = await client.request(method, {**client.session_headers(), "Content-Length": str(len(data)), **headers}, data)
        text = await response.body()
        return response.status, json.loads(text)["error"]["code"] if text else None

    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "x", "version": "0"}}
    again = {"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": params}
    async with serving(tmp_path) as (_, client):
        await client.initialize()
        found = {
            "no session": await status(client, {"Mcp-Session-Id": None}, listing),
            "unknown session": await status(client, {"Mcp-Session-Id": "0" * 40}, listing),
            "forged session": await status(client, {"Mcp-Session-Id": forged(f"{client.session}")}, listing),
            "bad version": await status(client, {"MCP-Protocol-Version": "1999-01-01"}, listing),
            "second initialize": await status(client, {}, again),
            "batch": await status(client, {}, [listing]),
            "not JSON": await status(client, {}, b"{nonsense"),
            "not UTF-8": await status(client, {}, b'{"jsonrpc":"2.0","id":1,"method":"\xff"}'),
            "null id": await status(client, {}, {"jsonrpc": "2.0", "id": None, "method": "tools/list"}),
            "no method": await status(client, {}, {"jsonrpc": "2.0"}),
            "empty": await status(client, {}, b""),
            "form": await status(client, {"Content-Type": "application/x-www-form-urlencoded"}, listing),
            "text": await status(client, {"Content-Type": "text/plain"}, listing),
            "no type": await status(client, {"Content-Type": None}, listing),
            "accepts pictures": await status(client, {"Accept": "image/png"}, listing),
            "accepts neither": await status(client, {"Accept": "application/json;q=0.000, text/event-stream; q=0"}, listing),
            "GET accepts JSON": await status(client, {"Accept": "application/json"}, method="GET"),
            "GET without session": await status(client, {"Mcp-Session-Id": None}, method="GET"),
            "strange event id": await status(client, {"Last-Event-ID": "64"}, method="GET"),
            "PUT": await status(client, {}, listing, "PUT"),
            "OPTIONS": await status(client, {}, method="OPTIONS"),
            "two sessions": await status(client, {"mcp-session-id": "another"}, listing),
        }
        assert found == {
            "no session": (400, -32600),
            "unknown session": (404, -32600),
            "forged session": (404, -32600),
            "bad version": (400, -32600),
            "second initialize": (400, -32600),
            "batch": (400, -32600),
            "not JSON": (400, -32700),
            "not UTF-8": (400, -32700),
            "null id": (400, -32600),
            "no method": (400, -32600),
            "empty": (400, -32700),
            "form": (415, -32600),
            "text": (415, -32600),
            "no type": (415, -32600),
            "accepts pictures": (406, -32600),
            "accepts neither": (406, -32600),
            "GET accepts JSON": (406, -32600),
            "GET without session": (400, -32600),
            "strange event id": (400, -32600),
            "PUT": (405, -32600),
            "OPTIONS": (405, -32600),
            "two sessions": (400, -32600),
        }
        accepted = [
            await client.notify("notifications/no-such-thing"),
            await client.send({"jsonrpc": "2.0", "id": 99, "result": {}}),
            await client.send({"jsonrpc": "2.0", "id": "q.nonsense", "result": {}}),
        ]
        assert [(response.status, await response.body()) for response in accepted] == [(202, b"")] * 3


@pytest.mark.slow
async def test_a_session_that_one_server_has_ended_is_over_for_another_of_the_same_home(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, client), HttpServer(tmp_path) as other:
        await client.initialize()
        there = HttpClient(other.port, server.token)
        there.session = client.session
        assert (await there.post("ping")).status == 200
        assert (await client.request("DELETE", client.session_headers())).status == 200
        async with asyncio.timeout(WAIT_SECONDS):
            while (await there.post("ping")).status != 404:  # noqa: ASYNC110
                await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_a_session_ends_also_where_that_cannot_be_kept(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, client):
        await client.initialize()
        (server.home.path / "understudy" / "ended_sessions").symlink_to(tmp_path / "elsewhere")
        assert (await client.request("DELETE", client.session_headers())).status == 200
        assert (await client.post("ping")).status == 404
    assert "cannot be written" in server.stderr
    assert not (tmp_path / "elsewhere").exists()
