"""Servers over HTTP whose answers are nested more deeply than a parser goes: only what is too deep is lost."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.other_servers import PATIENT
from tests.e2e.scenes import scene, told_to_model
from tests.e2e.test_other_servers_hostile import HELLO
from understudy.testing import call, say

FREELY: dict[str, Any] = {"approval_policy": "never", "sandbox_mode": "danger-full-access", **PATIENT}


def tools_with_a_deep_schema(levels: int) -> str:
    deep = '{"properties": {"a": ' * levels + "{}" + "}}" * levels
    return '{"tools": [{"name": "deep", "inputSchema": ' + deep + '}, {"name": "good", "inputSchema": {"type": "object"}}]}'


@asynccontextmanager
async def server(results: dict[str, str], *, stream: bool, line_end: str = "\n") -> AsyncGenerator[str]:
    """Answers requests with these results, written as they are, in JSON or as a stream of events."""
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
                writer.write(answer(json.loads(await reader.readexactly(length))))
                await writer.drain()

    def answer(asked: dict[str, Any]) -> bytes:
        if "id" not in asked or "method" not in asked:
            return b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
        body = f'{{"jsonrpc": "2.0", "id": {asked["id"]}, "result": {results[asked["method"]]}}}'
        kind = "application/json"
        if stream:
            kind, body = "text/event-stream", f"event: message{line_end}data: {body}{line_end}{line_end}"
        return f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()

    serving = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{serving.sockets[0].getsockname()[1]}/mcp"
    finally:
        serving.close()
        for connection in connections:
            connection.transport.abort()


@pytest.mark.slow
@pytest.mark.parametrize("levels", [60, 300, 5000])
@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
async def test_a_tool_with_a_schema_nested_without_end_hides_no_other(tmp_path: Path, stream: bool, levels: int) -> None:
    results = {
        "initialize": json.dumps(HELLO),
        "tools/list": tools_with_a_deep_schema(levels),
        "tools/call": '{"content": [{"type": "text", "text": "ok"}]}',
    }
    async with (
        server(results, stream=stream) as url,
        scene([call("mcp__srv__good"), say("Done.")], tmp_path, config={"mcp_servers.srv.url": url} | FREELY) as (model, client),
    ):
        await client.codex("go")
        assert told_to_model(model.requests[1]) == "ok"


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
async def test_an_answer_that_cannot_be_read_is_an_error_at_once(tmp_path: Path, stream: bool) -> None:
    results = {
        "initialize": json.dumps(HELLO),
        "tools/list": '{"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}',
        "tools/call": f'{{"deep": {"[" * 900}{"]" * 900}}}',
    }
    async with (
        server(results, stream=stream) as url,
        scene([call("mcp__srv__t"), say("Done.")], tmp_path, config={"mcp_servers.srv.url": url} | FREELY) as (model, client),
    ):
        await client.codex("go")
        assert "its answer cannot be read" in told_to_model(model.requests[1])
