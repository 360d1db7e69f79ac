"""The official Python SDK over HTTP, in both eras: progress, approval, cancelling, and a server killed in the middle of a call."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest
from mcp import Client
from mcp.client import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitRequestParams, ElicitResult

from tests.e2e.scenes import FORBIDDING
from tests.support.http_server import HttpServer, serving
from tests.support.relay import Relay
from understudy.testing import HOLD, ScriptedModel, call, deltas, hang, say
from understudy.testing.waiting import WAIT_SECONDS

Mode = Literal["auto", "legacy"]
EACH_ERA = pytest.mark.parametrize("mode", ["auto", "legacy"])


@asynccontextmanager
async def connected(server: HttpServer, mode: Mode, url: str | None = None, **options: Any) -> AsyncGenerator[Client]:
    headers = {"Authorization": f"Bearer {server.token}"}
    timeout = httpx2.Timeout(30, read=WAIT_SECONDS)
    async with (
        httpx2.AsyncClient(headers=headers, timeout=timeout) as http,
        Client(streamable_http_client(url or server.url, http_client=http), mode=mode, **options) as client,
    ):
        yield client


@pytest.mark.quick(1)
@EACH_ERA
async def test_a_call_with_progress_an_approval_and_a_reply(tmp_path: Path, mode: Mode) -> None:
    questions: list[str] = []
    steps: list[str] = []

    async def approve(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        questions.append(params.message)
        return ElicitResult(action="accept", content={"decision": "approved"})

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        steps.append(message or "")

    script = [call("shell", command=["touch", "made.txt"]), say("done"), say("indeed")]
    async with ScriptedModel(script) as model, serving(tmp_path, model, config=FORBIDDING) as (server, _):
        async with connected(server, mode, elicitation_callback=approve) as client:
            assert [tool.name for tool in (await client.list_tools()).tools][:2] == ["codex", "codex-reply"]
            first = await client.call_tool("codex", {"prompt": "make it"}, progress_callback=on_progress)
            assert first.structured_content is not None
            assert first.structured_content["content"] == "done"
            thread = first.structured_content["threadId"]
            second = await client.call_tool("codex-reply", {"threadId": thread, "prompt": "really?"})
            assert (second.structured_content or {})["content"] == "indeed"
        assert (server.cwd / "made.txt").exists()
    assert len(questions) == 1
    assert "touch made.txt" in questions[0]
    assert steps


@pytest.mark.quick(1)
@EACH_ERA
async def test_a_call_that_is_cancelled_ends_its_turn(tmp_path: Path, mode: Mode) -> None:
    async with ScriptedModel([hang()]) as model, serving(tmp_path, model) as (server, _), connected(server, mode) as client:
        running = asyncio.create_task(client.call_tool("codex", {"prompt": "x"}))
        await model.next_request(1)
        running.cancel()
        await asyncio.wait([running], timeout=WAIT_SECONDS)
        assert await model.outcome(1) == "dropped"


@pytest.mark.slow
async def test_a_server_killed_in_the_middle_of_a_call_is_not_noticed_by_the_program(tmp_path: Path) -> None:
    """The SDK comes back by itself with the id of the last event; the session holds."""
    script = [deltas(["a", HOLD, "b"]), say("again")]
    async with ScriptedModel(script) as model, serving(tmp_path, model) as (server, _), Relay(server.port) as relay:
        async with connected(server, "legacy", relay.url) as client:
            seen = asyncio.Event()

            async def on_progress(progress: float, total: float | None, message: str | None) -> None:
                seen.set()

            running = asyncio.create_task(client.call_tool("codex", {"prompt": "x"}, progress_callback=on_progress))
            await asyncio.wait_for(seen.wait(), WAIT_SECONDS)
            relay.hold()
            await server.kill()
            await server.start()
            relay.release()
            result = await asyncio.wait_for(running, WAIT_SECONDS)
            assert result.is_error
            content: dict[str, Any] = result.structured_content or {}
            assert content["content"] == "Turn interrupted"
            reply = await client.call_tool("codex-reply", {"threadId": content["threadId"], "prompt": "go on"})
            assert (reply.structured_content or {})["content"] == "again"
        model.release()
