"""What a caller proves itself with is for us alone: it is sent on to no model provider, no other MCP server and no command."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.other_servers import program, tool_server_on_http
from tests.support.http_server import HttpClient, serving
from tests.support.rest_client import RestClient, log_in
from understudy.testing import ScriptedModel, call, say

SECRET = "us_a_cookie_or_a_token_of_somebody_else_0123456789"
# A server that answers nothing and keeps what it was started with and sent.
KEEPER = """
import json, os, sys
with open(sys.argv[1], "a") as kept:
    kept.write(json.dumps([dict(os.environ), sys.argv]) + "\\n")
    for line in sys.stdin:
        kept.write(line)
        kept.flush()
        message = json.loads(line)
        if message.get("method") == "initialize":
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "k", "version": "1"}}
        elif message.get("method") == "tools/list":
            result = {"tools": [{"name": "keep", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}]}
        else:
            result = {"content": [{"type": "text", "text": "kept"}]}
        if "id" in message:
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
ENVIRONMENT = ["cat", "/proc/self/environ", "/proc/self/cmdline"]


LONG = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.parametrize("way", ["legacy", *(pytest.param(way, marks=LONG) for way in ("modern", "rest", "page"))])
async def test_a_token_goes_no_further_than_to_us(tmp_path: Path, way: str) -> None:
    script = [call("mcp__web__ok", s="x"), call("mcp__keeper__keep"), call("shell", command=ENVIRONMENT), say("Done.")]
    kept = tmp_path / "kept"
    keeper = program("keeper", sys.executable, "-c", KEEPER, str(kept))
    async with tool_server_on_http() as web, ScriptedModel(script) as model:
        config: dict[str, Any] = keeper | {"mcp_servers.web.url": web.url, "approval_policy": "never", "sandbox_mode": "read-only"}
        async with serving(tmp_path, model, config=config) as (server, client):
            named = await server.add_token("ann", "--rights", "run,approve,read")
            secrets = [named, server.token, SECRET, *await _ask(way, HttpClient(server.port, named), server)]
            assert client.token in secrets
        assert len(model.requests) == len(script)
        told = [json.dumps([request.path, dict(request.headers), request.body]) for request in model.received]
        told += [json.dumps(headers) for headers in web.headers]
        told.append(kept.read_text())
        assert "mcp__web__ok" in told[0]
        assert '"tools/call"' in told[-1].replace(" ", "")
        for secret in secrets:
            assert not [text for text in told if secret in text], secret


async def _ask(way: str, client: HttpClient, server: Any) -> list[str]:
    """A turn to its end. Further secrets that were sent with it."""
    hidden = {"X-Api-Key": SECRET, "Cookie": f"other={SECRET}", "Proxy-Authorization": f"Bearer {SECRET}"}
    call_params: dict[str, Any] = {"name": "codex", "arguments": {"prompt": "go", "cwd": str(server.cwd)}}
    if way == "legacy":
        await client.initialize()
        messages = await (await client.post("tools/call", call_params, **hidden)).messages()
        assert "Done." in json.dumps(messages[-1])
        return [client.session or ""]
    if way == "modern":
        messages = await (await client.modern("tools/call", call_params, hidden)).messages()
        assert "Done." in json.dumps(messages[-1])
        return []
    rest = RestClient(server.port, client.token) if way == "rest" else await log_in(server)
    body = {"prompt": "go", "folder": str(server.cwd)}
    more: dict[str, str | None] = {"X-Api-Key": SECRET, "Proxy-Authorization": f"Bearer {SECRET}"}
    row = await (await rest.request("POST", "/v1/conversations", body, more)).json()
    ended = await (await rest.stream(row["id"])).until("task_complete")
    assert ended["msg"]["last_agent_message"] == "Done."
    return [] if rest.cookie is None else [rest.cookie.partition("=")[2]]
