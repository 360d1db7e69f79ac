"""Bodies of requests: those that drip or never end, those that are too large, and messages that are not what they should be."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import FORBIDDING
from tests.support.http_server import MODERN, HttpClient, Response, serving
from understudy.servers.serve.connection import BODY_SECONDS
from understudy.testing import ScriptedModel, call, say
from understudy.testing.waiting import WAIT_SECONDS

Json = dict[str, Any]


async def drip(client: HttpClient, head: str, piece: bytes) -> tuple[int, float]:
    """Send a body that never ends, a piece at a time. The status of the answer, and after how many seconds it came."""
    clock = asyncio.get_running_loop().time
    begun = clock()
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    usual = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {client.token}\r\nContent-Type: application/json\r\n"
    writer.write((usual + head + "\r\n\r\n").encode())
    answer = asyncio.ensure_future(reader.readline())
    async with asyncio.timeout(BODY_SECONDS + WAIT_SECONDS):
        while not answer.done():
            writer.write(piece)
            await asyncio.wait([answer], timeout=0.5)
    writer.transport.abort()
    await asyncio.sleep(0)
    return int((await answer).split()[1]), clock() - begun


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "piece"), [("Content-Length: 100000", b" "), ("Transfer-Encoding: chunked", b"1\r\n \r\n")], ids=["long", "chunked"]
)
async def test_a_body_that_drips_is_not_waited_for_even_with_a_valid_token(tmp_path: Path, head: str, piece: bytes) -> None:
    async with serving(tmp_path) as (_, client):
        status, seconds = await drip(client, head, piece)
        assert status == 408
        assert seconds >= BODY_SECONDS - 1
        await client.initialize()
        assert (await client.post("ping")).status == 200


@pytest.mark.quick(1)
@pytest.mark.parametrize("declared", [True, False])
async def test_a_body_that_is_too_large_is_refused_whether_it_says_so_or_not(tmp_path: Path, declared: bool) -> None:
    async with serving(tmp_path, config={"understudy.serve.max_body_mb": 1}) as (_, client):
        body = b" " * (3 << 20)
        head: dict[str, str | None] = {} if declared else {"Content-Length": None, "Transfer-Encoding": "chunked"}
        sent = body if declared else b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        response = await client.request("POST", head, sent)
        assert (response.status, (await response.json())["error"]["code"]) == (413, -32600)


NOT_MARKED: list[Json] = [
    {"id": 7, "method": "ping"},
    {"jsonrpc": "1.0", "id": 7, "method": "ping"},
    {"jsonrpc": 2.0, "id": 7, "method": "ping", "params": {}},
    {"jsonrpc": None, "id": 7, "method": "ping", "params": {}},
    {"jsonrpc": ["2.0"], "id": 7, "method": "ping", "params": {}},
]


@pytest.mark.quick(1)
@pytest.mark.parametrize("message", NOT_MARKED)
async def test_a_message_that_does_not_say_json_rpc_2_is_refused(tmp_path: Path, message: Json) -> None:
    async with serving(tmp_path) as (_, client):
        await client.initialize()
        modern = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "ping"}
        for headers in (client.session_headers(), {}, modern):
            response = await client.request("POST", headers, json.dumps(message).encode())
            answer = await response.json()
            assert (response.status, answer["error"]["code"], answer["id"]) == (400, -32600, 7)
        others: list[Json] = [{"method": "notifications/initialized"}, {"id": 7, "result": {}}]
        for other in others:
            assert (await client.send(other)).status == 400


WRONG_ANSWERS: list[Any] = [
    "accept",
    None,
    [],
    {},
    {"action": "yes"},
    {"action": None},
    {"action": ["accept"]},
    {"action": "accept", "content": "approved"},
    {"action": "accept", "content": {"decision": "maybe"}},
    {"action": "accept", "content": {"decision": None}},
    {"decision": "yes please"},
]


async def rounds(client: HttpClient, more: Json) -> Response:
    params = {"name": "codex", "arguments": {"prompt": "make it"}, **more}
    return await client.modern("tools/call", params, capabilities={"elicitation": {}})


async def test_an_answer_that_cannot_be_understood_is_an_error_and_leaves_the_question_open(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made.txt"]), say("done")]
    async with ScriptedModel(script) as model, serving(tmp_path, model, config=FORBIDDING) as (server, client):
        asked = (await (await rounds(client, {})).messages())[-1]["result"]
        (key,) = asked["inputRequests"]
        for wrong in WRONG_ANSWERS:
            given = {"requestState": asked["requestState"], "inputResponses": {key: wrong}}
            response = await rounds(client, given)
            answer = await response.json()
            assert (response.status, answer.get("error", {}).get("code")) == (400, -32602), wrong
        given = {"requestState": asked["requestState"], "inputResponses": {key: {"action": "accept"}}}
        done = (await (await rounds(client, given)).messages())[-1]["result"]
        assert done["structuredContent"]["content"] == "done"
        assert (server.cwd / "made.txt").exists()
        assert len(model.received) == 2
