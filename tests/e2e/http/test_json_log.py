"""The log of the real server as lines of JSON: whose request a line is about, and never a token or what somebody said."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.http_server import HttpClient, HttpServer, serving
from understudy.testing import ScriptedModel, say, status
from understudy.testing.waiting import WAIT_SECONDS

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
PROMPT = "a prompt that nobody else may read"


async def lines(server: HttpServer, *, until: str) -> list[dict[str, Any]]:
    async with asyncio.timeout(WAIT_SECONDS):
        while until not in server.stderr:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return [json.loads(line) for line in server.stderr.splitlines() if line.endswith("}")]


@pytest.fixture(autouse=True)
def _everything_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_LOG", "info")


async def test_each_line_has_the_ids_of_its_request_and_no_secret(tmp_path: Path) -> None:
    answers = [say("an answer for one alone")]
    async with ScriptedModel(answers) as model, serving(tmp_path, model, "--log-format", "json") as (server, _):
        alice = HttpClient(server.port, await server.add_token("alice", "--sandbox", "danger-full-access"))
        await alice.initialize()
        message = {
            "jsonrpc": "2.0",
            "id": 77,
            "method": "tools/call",
            "params": {"name": "codex", "arguments": {"prompt": PROMPT}},
        }
        answer = await alice.send(message, **{"X-Request-Id": "from-the-proxy.1", "traceparent": PARENT})
        thread = (await answer.messages())[-1]["result"]["structuredContent"]["threadId"]
        told = await lines(server, until="from-the-proxy.1")
        async with asyncio.timeout(WAIT_SECONDS):
            while not (found := [line for line in told if line.get("request_id") == "from-the-proxy.1" and "status" in line]):
                told = await lines(server, until="from-the-proxy.1")
                await asyncio.sleep(0.02)
        (request,) = found
        assert {name: request[name] for name in ("method", "path", "status", "caller", "conversation", "trace_id")} == {
            "method": "POST",
            "path": "/mcp",
            "status": 200,
            "caller": "alice",
            "conversation": thread,
            "trace_id": TRACE,
        }
        assert request["level"] == "info"
        assert request["seconds"] > 0
        sessions = {line["session"] for line in told if "session" in line}
        assert len(sessions) == 1
        assert len({line["request_id"] for line in told if "request_id" in line}) > 3
        assert await server.stop() == 0
        assert all(json.loads(line) for line in server.stderr.splitlines())
        for hidden in (PROMPT, "for one alone", alice.token or "?", server.token, alice.session or "?"):
            assert hidden not in server.stderr


@pytest.mark.slow
async def test_a_line_of_a_turn_names_its_conversation_and_its_turn(tmp_path: Path) -> None:
    answers = [status(400, "no such thing")]
    config = {"understudy.serve.log_format": "json"}
    async with ScriptedModel(answers) as model, serving(tmp_path, model, config=config) as (server, client):
        await client.initialize()
        result = await client.result("codex", {"prompt": PROMPT})
        told = await lines(server, until=" failed: ")
        (failed,) = [line for line in told if " failed: " in line["message"]]
        assert failed["conversation"] == result["structuredContent"]["threadId"]
        assert failed["turn"] == "1"
        assert failed["caller"] == "local"
        assert PROMPT not in server.stderr


@pytest.mark.slow
async def test_a_name_that_is_none_is_replaced_and_a_format_that_is_none_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, None, "--log-format", "json") as (server, client):
        await client.request("GET", {"X-Request-Id": 'x" \\ {} ~', "traceparent": "00-zz"}, path='/no"where?code=secret')
        told = await lines(server, until='no\\"where')
        (request,) = [line for line in told if 'no"where' in line.get("path", "")]
        assert len(request["request_id"]) == 16
        assert "trace_id" not in request
        assert "secret" not in server.stderr
    refused = HttpServer(tmp_path, args=("--log-format", "xml"))
    with pytest.raises(AssertionError, match="log_format"):
        await refused.start()
    await refused.stop()


@pytest.mark.quick(1)
@pytest.mark.parametrize("form", ["text", "json"])
async def test_a_token_or_a_code_in_an_address_is_not_told(tmp_path: Path, form: str) -> None:
    async with serving(tmp_path, None, "--log-format", form) as (server, client):
        for path in (f"/v1/{server.token}", f"/v1/me?token={server.token}", "/login?code=SECRETCODE", "/the/last/one"):
            await client.request("GET", path=path)
        async with asyncio.timeout(WAIT_SECONDS):
            while "/the/last/one" not in server.stderr:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert "/v1/[token]" in server.stderr
        assert server.token not in server.stderr
        assert "SECRETCODE" not in server.stderr
