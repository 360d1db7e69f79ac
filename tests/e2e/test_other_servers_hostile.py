"""Other servers that answer as they should not: the model is told at once, and nothing secret is passed on."""

import asyncio
import gzip
import itertools
import json
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.other_servers import PATIENT, program
from tests.e2e.scenes import scene, told_to_model
from understudy.testing import call, say

HELLO: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "x", "version": "1"},
}
SERVER = """
import json, os, sys
answer, hello = sys.argv[1], json.loads(sys.argv[2])
for line in sys.stdin:
    asked = json.loads(line)
    said = {"jsonrpc": "2.0", "id": asked.get("id")}
    match asked["method"]:
        case "initialize":
            print(json.dumps({**said, "result": hello}), flush=True)
        case "tools/list":
            tool = {"name": "t", "description": f"with {os.environ['MY_TOKEN']}", "inputSchema": {}}
            print(json.dumps({**said, "result": {"tools": [tool | {"annotations": {"readOnlyHint": True}}]}}), flush=True)
        case "tools/call":
            told = {"progressToken": asked["params"]["_meta"]["progressToken"], "progress": 10**400, "total": 10**400}
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": told}), flush=True)
            told = {"progressToken": asked["params"]["_meta"]["progressToken"], "progress": 1, "message": os.environ["MY_TOKEN"]}
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": told}), flush=True)
            print('{"jsonrpc": "2.0", "id": %s, %s}' % (json.dumps(asked["id"]), answer), flush=True)
"""
SECRET = "1234567890123"
UNREADABLE = "tool call error: tool call failed for `srv/t`\n\nCaused by:\n    Mcp error: -32700: its answer cannot be read"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "given"),
    [
        ('"result": null', UNREADABLE),
        ('"result": [1]', UNREADABLE),
        ('"error": {"code": "x", "message": 5}', UNREADABLE),
        (f'"result": {{"deep": {"[" * 900}{"]" * 900}}}', UNREADABLE),
        ('"result": {"content": [{"type": "text", "text": "half \\ud800."}]}', "half ?."),
        (f'"result": {{"content": [], "structuredContent": {{"n": {SECRET}}}}}', '{"n":[redacted]}'),
    ],
)
async def test_an_answer_that_is_none_fails_the_call_at_once(tmp_path: Path, answer: str, given: str) -> None:
    config = program("srv", sys.executable, "-c", SERVER, answer, json.dumps(HELLO), env={"MY_TOKEN": SECRET})
    home = tmp_path / "user" / ".codex"
    async with scene([call("mcp__srv__t"), say("Done.")], tmp_path, home=home, config=config) as (model, client):
        await client.codex("go")
        assert told_to_model(model.requests[1]) == given
        assert SECRET not in json.dumps([model.requests, client.frames[1:], client.stderr])
    stored = b"".join(path.read_bytes() for path in (home / "understudy").rglob("*") if path.is_file())
    assert b"mcp__srv__t" in stored
    assert SECRET.encode() not in stored.replace(answer.encode(), b"")


@pytest.mark.slow
async def test_a_packed_answer_is_not_unpacked(tmp_path: Path) -> None:
    """A few bytes can be gigabytes once they are unpacked."""
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        heads.append(head.lower())
        body = gzip.compress(json.dumps({"jsonrpc": "2.0", "id": 1, "result": HELLO}).encode())
        kind = b"Content-Type: application/json\r\nContent-Encoding: gzip\r\nConnection: close\r\n"
        writer.write(b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s" % (kind, len(body), body))
        await writer.drain()
        writer.close()

    serving = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with serving:
        url = f"http://127.0.0.1:{serving.sockets[0].getsockname()[1]}/mcp"
        async with scene([say("Done.")], tmp_path, config={**PATIENT, "mcp_servers.web.url": url}) as (_, client):
            result = await client.codex("go")
            [missing] = result["structuredContent"]["report"]["missing_servers"]
            assert missing["server"] == "web"
    assert b"accept-encoding: identity\r\n" in heads[0]


ASKS_ON = """
import json, os, sys
hello = json.loads(sys.argv[1])
for line in sys.stdin:
    asked = json.loads(line)
    said = {"jsonrpc": "2.0", "id": asked.get("id")}
    match asked["method"]:
        case "initialize":
            print(json.dumps({**said, "result": hello}), flush=True)
        case "tools/list":
            tool = {"name": "t", "inputSchema": {}, "annotations": {"readOnlyHint": True}}
            print(json.dumps({**said, "result": {"tools": [tool]}}), flush=True)
        case "tools/call":
            number = 0
            while True:
                number += 1
                os.write(1, json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"}).encode() + b"\\n")
"""
NOT_READ = (
    "tool call error: tool call failed for `srv/t`\n\nCaused by:\n"
    "    it was ended because it asks and asks and does not read the answers"
)


@pytest.mark.slow
async def test_a_server_that_asks_and_never_reads_is_ended_before_its_answers_pile_up(tmp_path: Path) -> None:
    config = program("srv", sys.executable, "-c", ASKS_ON, json.dumps(HELLO))
    script = [call("mcp__srv__t"), say("Done."), call("mcp__srv__t", call_id="call2"), say("Again.")]
    async with scene(script, tmp_path, config=config) as (model, client):
        first = await client.codex("go")
        assert told_to_model(model.requests[1]) == NOT_READ
        await client.call_tool("codex-reply", threadId=first["structuredContent"]["threadId"], prompt="again")
        assert told_to_model(model.requests[3], "call2") == NOT_READ


@pytest.mark.slow
async def test_progress_that_no_float_holds_ends_no_session_over_http(tmp_path: Path) -> None:
    async with _on_http(_with_progress) as url:
        script = [call("mcp__srv__t"), say("Done.")]
        async with scene(script, tmp_path, config={**PATIENT, "mcp_servers.srv.url": url}) as (model, client):
            await client.codex("go")
            assert told_to_model(model.requests[1]) == "fine"


@pytest.mark.slow
async def test_a_server_over_http_that_takes_no_answer_is_given_up(tmp_path: Path) -> None:
    async with _on_http(_with_questions) as url:
        script = [call("mcp__srv__t"), say("Done.")]
        async with scene(script, tmp_path, config={**PATIENT, "mcp_servers.srv.url": url}) as (model, client):
            await client.codex("go")
            assert told_to_model(model.requests[1]) == NOT_READ


def _with_progress(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    token = asked["params"]["_meta"]["progressToken"]
    yield {"method": "notifications/progress", "params": {"progressToken": token, "progress": 10**400, "total": 10**400}}
    yield {"id": asked["id"], "result": {"content": [{"type": "text", "text": "fine"}]}}


def _with_questions(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for number in itertools.count():
        yield {"id": number, "method": "ping"}


@asynccontextmanager
async def _on_http(called: Callable[[dict[str, Any]], Iterator[dict[str, Any]]]) -> AsyncGenerator[str]:
    """A server over HTTP that says this when its tool is called, as a stream, and lets whoever posts an answer wait."""
    tool = {"name": "t", "inputSchema": {}, "annotations": {"readOnlyHint": True}}
    connections: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                if not head.startswith("post"):
                    writer.write(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n")
                    continue
                length = int(head.partition("content-length:")[2].partition("\r")[0])
                await answer(json.loads(await reader.readexactly(length)), writer)

    async def answer(asked: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        match asked.get("method"):
            case "initialize" | "tools/list" as method:
                result = HELLO if method == "initialize" else {"tools": [tool]}
                body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            case "tools/call":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
                for message in called(asked):
                    writer.write(b"data: %s\n\n" % json.dumps({"jsonrpc": "2.0", **message}).encode())
                    await writer.drain()
                writer.close()
            case None:
                await asyncio.Event().wait()  # an answer: it is never taken
            case _:
                writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")

    serving = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{serving.sockets[0].getsockname()[1]}/mcp"
    finally:
        serving.close()
        for connection in connections:
            connection.transport.abort()


LISTING = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    said = '{"jsonrpc": "2.0", "id": %s, "result": ' % json.dumps(asked.get("id"))
    match asked["method"]:
        case "initialize":
            print(said + sys.argv[1] + "}", flush=True)
        case "tools/list":
            levels = int(sys.argv[2])
            deep = '{"properties": {"a": ' * levels + "{}" + "}}" * levels
            print(said + '{"tools": [{"name": "deep", "description": "a ] \\\\" {", "inputSchema": ' + deep + '},'
                ' {"name": "good", "inputSchema": {"type": "object"}}]}}', flush=True)
        case "tools/call":
            print(said + '{"content": [{"type": "text", "text": "ok"}]}}', flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("levels", [60, 300, 5000])
async def test_a_tool_with_a_schema_nested_without_end_hides_no_other(tmp_path: Path, levels: int) -> None:
    config = program("srv", sys.executable, "-c", LISTING, json.dumps(HELLO), str(levels))
    config |= {"approval_policy": "never", "sandbox_mode": "danger-full-access"}
    async with scene([call("mcp__srv__good"), say("Done.")], tmp_path, config=config) as (model, client):
        await client.codex("go")
        assert told_to_model(model.requests[1]) == "ok"
