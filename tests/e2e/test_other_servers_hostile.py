"""Other servers that answer as they should not: the model is told at once, and nothing secret is passed on."""

import asyncio
import gzip
import json
import sys
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
