"""A server that is told to end lets running turns finish, whether or not a call waits for them."""

import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.e2e.http.test_tasks import refused
from tests.support.http_server import HttpClient, HttpServer
from tests.support.rest_client import RestClient
from understudy.testing import HOLD, ScriptedModel, call, deltas, say


async def by_rest(server: HttpServer) -> str:
    row = await RestClient(server.port, server.token).create(server.cwd, "say it")
    return row["id"]


async def by_conversation_tools(server: HttpServer) -> str:
    client = HttpClient(server.port, server.token)
    await client.initialize()
    thread = (await client.result("conversationCreate", {"cwd": str(server.cwd)}))["structuredContent"]["conversation_id"]
    content = [{"type": "text", "text": "say it"}]
    await client.result("conversationSendMessage", {"conversation_id": thread, "content": content})
    return thread


async def by_a_call_that_does_not_wait(server: HttpServer) -> str:
    client = HttpClient(server.port, server.token)
    await client.initialize()
    told = await client.result("codex", {"prompt": "say it", "wait-seconds": 0.01})
    return told["structuredContent"]["threadId"]


@pytest.mark.quick(1)
@pytest.mark.parametrize("begin", [by_rest, by_conversation_tools, by_a_call_that_does_not_wait])
async def test_a_turn_that_no_call_waits_for_may_finish(tmp_path: Path, begin: Callable[[HttpServer], Awaitable[str]]) -> None:
    config = {"understudy.serve.drain_seconds": 60}
    async with ScriptedModel([deltas(["hel", HOLD, "lo"])]) as model, HttpServer(tmp_path, model, config=config) as server:
        thread = await begin(server)
        await model.next_request(1)
        server.process.send_signal(signal.SIGTERM)
        await refused(server.port)
        model.release()
        assert await server.ended() == 0
        await server.start()
        client = HttpClient(server.port, server.token)
        await client.initialize()
        assert (await client.result("codex-reply", {"threadId": thread}))["structuredContent"]["content"] == "hello"


@pytest.mark.slow
async def test_a_turn_that_waits_for_a_person_is_not_waited_for_and_goes_on_later(tmp_path: Path) -> None:
    asking = {"approval_policy": "untrusted", "sandbox_mode": "workspace-write", "understudy.serve.drain_seconds": 600}
    script = [call("shell", command=["touch", "made.txt"]), say("done")]
    async with ScriptedModel(script) as model, HttpServer(tmp_path, model, config=asking) as server:
        rest = RestClient(server.port, server.token)
        row = await rest.create(server.cwd, "make it")
        watching = await rest.stream(row["id"])
        await watching.until("exec_approval_request")
        watching.close()
        assert await server.stop() == 0
        await server.start()
        await rest.post(f"/v1/conversations/{row['id']}/decisions", {"call_id": "call1", "decision": "approved"})
        client = HttpClient(server.port, server.token)
        await client.initialize()
        assert (await client.result("codex-reply", {"threadId": row["id"]}))["structuredContent"]["content"] == "done"
        assert (server.cwd / "made.txt").exists()
