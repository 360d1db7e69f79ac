"""Requests on a connection that is kept: with the same head as before they are answered at once, and all the same rules hold."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any, Self

import pytest

from tests.e2e.http.test_metrics import scrape, value
from tests.support.http_server import LEGACY, META, MODERN, HttpClient, HttpServer, serving
from understudy.testing import ScriptedModel, say
from understudy.testing.waiting import WAIT_SECONDS

Answer = tuple[int, Any]


def modern_body(method: str, request_id: int, **params: Any) -> bytes:
    meta: dict[str, Any] = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {}}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": {**params, "_meta": meta}}).encode()


class Kept:
    """One connection, on which requests follow each other."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._client.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()

    def legacy(self, method: str, request_id: int, params: Any = None) -> bytes:
        body = json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}}).encode()
        return self.whole(body, f"Mcp-Session-Id: {self._client.session}", f"MCP-Protocol-Version: {LEGACY}")

    def modern(self, method: str, request_id: int, named: str | None = None, **params: Any) -> bytes:
        name = () if named is None else (f"Mcp-Name: {named}",)
        return self.whole(
            modern_body(method, request_id, **params), f"MCP-Protocol-Version: {MODERN}", f"Mcp-Method: {method}", *name
        )

    def whole(self, body: bytes, *more: str) -> bytes:
        lines = [
            "POST /mcp HTTP/1.1",
            f"Host: 127.0.0.1:{self._client.port}",
            f"Authorization: Bearer {self._client.token}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *more,
        ]
        return "\r\n".join([*lines, "", ""]).encode() + body

    async def ask(self, request: bytes) -> Answer:
        self.writer.write(request)
        return await self.answer()

    async def answer(self) -> Answer:
        head, body = await self.bytes_of_answer()
        return int(head.split()[1]), json.loads(body or b"null")

    async def bytes_of_answer(self) -> tuple[bytes, bytes]:
        """Head and body."""
        async with asyncio.timeout(WAIT_SECONDS):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            return head, await self.reader.readexactly(length)


@pytest.mark.slow
async def test_requests_of_both_eras_follow_each_other_on_one_connection(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await client.initialize()
        async with Kept(client) as kept:
            for number in range(4):
                assert await kept.ask(kept.legacy("ping", number)) == (200, {"id": number, "jsonrpc": "2.0", "result": {}})
            listed = [await kept.ask(kept.modern("tools/list", number)) for number in range(4)]
            assert [(status, answer["id"], answer["result"]["resultType"]) for status, answer in listed] == [
                (200, number, "complete") for number in range(4)
            ]
            for number in range(3):
                call = kept.modern("tools/call", number, "conversationsList", name="conversationsList", arguments={"limit": 1})
                status, answer = await kept.ask(call)
                assert (status, answer["id"], answer["result"]["structuredContent"]) == (200, number, {"conversations": []})


@pytest.mark.slow
async def test_what_is_wrong_in_a_body_is_told_as_ever_after_a_head_that_came_before(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client), Kept(client) as kept:
        good = kept.modern("tools/list", 1)
        for _ in range(2):
            assert (await kept.ask(good))[0] == 200
        wrong = {
            good.replace(b'{"jsonrpc"', b'["jsonrpc"'): (400, -32700),
            good.replace(b'"2.0"', b'"1.0"'): (400, -32600),
            good.replace(b'"method": "tools/list"', b'"method": "tools/lost"'): (400, -32020),
            good.replace(b"2026-07-28", b"2026-07-29").replace(b"Version: 2026-07-29", b"Version: 2026-07-28"): (400, -32020),
            good.replace(b"clientCapabilities", b"clientCapabilitiez"): (400, -32602),
        }
        for request, (status, code) in wrong.items():
            assert len(request) == len(good)
            told = await kept.ask(request)
            assert (told[0], told[1]["error"]["code"]) == (status, code), request
            assert (await kept.ask(good))[0] == 200
        unknown = kept.modern("tasks/lost", 2)
        told = [await kept.ask(unknown) for _ in range(3)]
        assert [(status, answer["error"]["code"]) for status, answer in told] == [(404, -32601)] * 3


async def test_the_same_request_has_the_same_answer_at_once_and_the_ordinary_way(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await client.initialize()
        async with Kept(client) as kept:
            sessions, listing = f"Mcp-Session-Id: {client.session}", modern_body("tools/list", 1)
            modern = (f"MCP-Protocol-Version: {MODERN}", "Mcp-Method: tools/list")
            requests = {
                "ping": kept.legacy("ping", 1),
                "no such method": kept.legacy("nothing", 1),
                "no such tool": kept.legacy("tools/call", 1, {"name": "nothing"}),
                "arguments that are wrong": kept.legacy("tools/call", 1, {"name": 1}),
                "a second beginning": kept.legacy("initialize", 1),
                "no request": kept.whole(b"[]", sessions),
                "nothing at all": kept.whole(b"", sessions),
                "modern": kept.whole(listing, *modern),
                "modern, with a session": kept.whole(listing, *modern, sessions),
                "modern, with a session that never was": kept.whole(listing, *modern, "Mcp-Session-Id: \xff"),
                "modern, and no such method": kept.modern("nothing", 1),
                "modern, and no such tool": kept.modern("tools/call", 1, "nothing", name="nothing"),
            }
            for name, request in requests.items():
                told: list[tuple[set[bytes], bytes]] = []
                unusual = request.replace(b"\r\n\r\n", b"\r\nX-A: 1\r\nX-A: 2\r\n\r\n", 1)  # parsed each time
                for one in (request, request, request, unusual):
                    kept.writer.write(one)
                    head, body = await kept.bytes_of_answer()
                    told.append((set(head.split(b"\r\n")), body))
                assert told == [told[-1]] * 4, name


async def test_however_requests_are_cut_and_joined_each_has_its_answer_in_order(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await client.initialize()
        async with Kept(client) as kept:
            requests = [kept.legacy("ping", number) for number in range(10, 40)]
            assert [(await kept.ask(request))[0] for request in requests[:2]] == [200, 200]
            kept.writer.write(b"".join(requests[2:5]))  # several in one piece
            for piece in (requests[5][:50], requests[5][50:], requests[6] + requests[7][:30], requests[7][30:] + requests[8][:-1]):
                kept.writer.write(piece)
                await kept.writer.drain()
            kept.writer.write(requests[8][-1:] + requests[9])
            answers = [(await kept.answer())[1]["id"] for _ in range(2, 10)]
            assert answers == list(range(12, 20))
            assert (await kept.ask(b"\r\n" + requests[10]))[1]["id"] == 20  # an empty line before a request is passed over


@pytest.mark.slow
async def test_a_revoked_token_and_an_ended_session_are_over_for_a_connection_that_goes_on(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, local):
        token = await server.add_token("anna")
        anna, other = HttpClient(server.port, token), HttpClient(server.port, token)
        await anna.initialize()
        await other.initialize()
        async with Kept(anna) as kept, Kept(other) as second:
            for number in range(3):
                assert (await kept.ask(kept.legacy("ping", number)))[0] == 200
                assert (await second.ask(second.legacy("ping", number)))[0] == 200
            assert (await other.request("DELETE", other.session_headers())).status == 200
            assert (await second.ask(second.legacy("ping", 1)))[0] == 404
            await server.revoke_token("anna")
            await server.until_status(anna, 401)
            assert (await kept.ask(kept.legacy("ping", 1)))[0] == 401
        assert (await local.request("DELETE")).status == 400


@pytest.mark.slow
async def test_a_limit_on_requests_holds_for_those_that_are_answered_at_once(tmp_path: Path) -> None:
    async with HttpServer(tmp_path, None, config={"understudy.serve.rate": 5}) as server:
        anna = HttpClient(server.port, await server.add_token("anna"))
        async with Kept(anna) as kept:
            kept.writer.write(kept.modern("tools/list", 1) * 50)  # all at once, so that it does not matter how fast we are
            assert {(await kept.answer())[0] for _ in range(50)} == {200, 429}


async def test_a_turn_that_begins_on_a_kept_connection_streams_and_the_connection_goes_on(tmp_path: Path) -> None:
    async with ScriptedModel([say("One."), say("Two.")]) as model, serving(tmp_path, model) as (_, client):
        await client.initialize()
        async with Kept(client) as kept:
            for number, text in ((1, "One."), (2, "Two.")):
                kept.writer.write(kept.legacy("tools/call", number, {"name": "codex", "arguments": {"prompt": "x"}}))
                async with asyncio.timeout(WAIT_SECONDS):
                    streamed = (await kept.reader.readuntil(b"\r\n0\r\n\r\n")).decode()
                assert "text/event-stream" in streamed
                assert text in streamed.rpartition("data: ")[2]
                assert (await kept.ask(kept.legacy("ping", 3)))[0] == 200


@pytest.mark.slow
async def test_requests_that_are_answered_at_once_are_counted_like_others(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        await client.initialize()
        before = value(await scrape(client), "understudy_http_requests_total", method="POST", status="200")
        async with Kept(client) as kept:
            for _ in range(7):
                await kept.ask(kept.legacy("ping", 1))
        after = value(await scrape(client), "understudy_http_requests_total", method="POST", status="200")
        assert after - before == 7


@pytest.mark.slow
async def test_a_server_that_ends_does_not_wait_for_kept_connections(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, client):
        await client.initialize()
        async with Kept(client) as kept:
            for number in range(3):
                await kept.ask(kept.legacy("ping", number))
            assert await server.stop(signal.SIGTERM) == 0
            async with asyncio.timeout(WAIT_SECONDS):
                assert await kept.reader.read() == b""
