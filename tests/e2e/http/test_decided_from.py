"""Who decided what, from where: the record of a decision has the caller's name and the door they came by, and `show` tells it."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.e2e.http.test_metrics import until
from tests.e2e.scenes import FORBIDDING
from tests.support.http_server import HttpClient, HttpServer, serving
from understudy.testing import McpProcess, ScriptedModel, call, say
from understudy.testing.waiting import WAIT_SECONDS

SCRIPT = [call("shell", command=["touch", "made.txt"]), say("done")]


async def understudy(server: HttpServer, *words: str) -> str:
    command = (sys.executable, "-m", "understudy", *words)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, env=server.home.environment(), cwd=server.cwd, stdout=pipe, stderr=pipe
    )
    out, err = await asyncio.wait_for(process.communicate(), WAIT_SECONDS)
    assert process.returncode == 0, err.decode()
    return out.decode()


async def decided(server: HttpServer, thread: str) -> list[dict[str, Any]]:
    lines = (await understudy(server, "export", thread)).splitlines()[1:]
    records = [json.loads(line)["record"] for line in lines]
    return [record for record in records if record["type"] == "approval_decided"]


async def waiting(client: HttpClient) -> str:
    made = await client.result("conversationCreate", {"prompt": "make it"})
    await until(client, "understudy_questions_open", 1)
    return made["structuredContent"]["conversation_id"]


async def test_over_mcp_and_rest_and_from_a_terminal(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT * 3) as model, serving(tmp_path, model, config=FORBIDDING) as (server, local):
        await local.initialize()
        alice = HttpClient(server.port, await server.add_token("alice", "--others", "read,approve"))
        await alice.initialize()
        by_mcp = await waiting(local)
        answer = {"conversation_id": by_mcp, "call_id": "call1", "decision": "approved"}
        assert (await alice.result("conversationApprove", answer))["structuredContent"] == {"status": "ok"}
        await until(local, "understudy_turns_total", 1, outcome="completed")
        by_rest = await waiting(local)
        body = json.dumps({"call_id": "call1", "decision": "approved"}).encode()
        response = await alice.request("POST", body=body, path=f"/v1/conversations/{by_rest}/decisions")
        assert response.status == 200, await response.body()
        await until(local, "understudy_turns_total", 2, outcome="completed")
        by_terminal = await waiting(local)
        await understudy(server, "approvals", "answer", "call1", "yes")
        await until(local, "understudy_turns_total", 3, outcome="completed")
        found = {thread: (await decided(server, thread))[0] for thread in (by_mcp, by_rest, by_terminal)}
        assert (found[by_mcp]["by"], found[by_mcp]["door"]) == ("alice", "mcp-http")
        assert (found[by_rest]["by"], found[by_rest]["door"]) == ("alice", "rest")
        assert (found[by_terminal]["by"], found[by_terminal]["door"]) == ("local", "terminal")
        assert "approved by alice (mcp-http)" in await understudy(server, "show", by_mcp)
        assert "approved by alice (rest)" in await understudy(server, "show", by_rest)


async def test_on_a_pipe(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        server = HttpServer(tmp_path, model, config=FORBIDDING)  # not started: only its home is used
        async with McpProcess(cwd=tmp_path, home=server.home.path) as client:
            reply = client.codex("make it")
            question = await client.next_request("elicitation/create")
            await client.respond(question, {"action": "accept"})
            thread = (await reply)["structuredContent"]["threadId"]
        assert [(record["door"], record["source"]) for record in await decided(server, thread)] == [("mcp-stdio", "client")]
