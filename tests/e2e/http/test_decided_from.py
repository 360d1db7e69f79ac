"""Who decided what, from where: the record of a decision has the caller's name, the door they came by, their address and their
program, whichever way the answer came; `show` and `export` tell it, and `verify` proves it.
"""

import asyncio
import json
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.http.test_metrics import until
from tests.e2e.scenes import FORBIDDING
from tests.support.http_server import HttpClient, HttpServer, Response, serving
from tests.support.rest_client import RestClient, log_in
from tests.support.task_clients import ASKABLE, HttpDoor, TaskClient
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


@pytest.mark.slow
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
        assert "approved by alice (mcp-http from 127.0.0.1, raw 0)" in await understudy(server, "show", by_mcp)
        assert "approved by alice (rest from 127.0.0.1)" in await understudy(server, "show", by_rest)


async def test_on_a_pipe(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        server = HttpServer(tmp_path, model, config=FORBIDDING)  # not started: only its home is used
        async with McpProcess(cwd=tmp_path, home=server.home.path) as client:
            reply = client.codex("make it")
            question = await client.next_request("elicitation/create")
            await client.respond(question, {"action": "accept"})
            thread = (await reply)["structuredContent"]["threadId"]
        assert [(record["door"], record["source"]) for record in await decided(server, thread)] == [("mcp-stdio", "client")]


# -- over HTTP, from elsewhere

HERE, PROXY, FAR = "127.0.0.1", "10.1.2.3", "203.0.113.7"
BEHIND_PROXIES = {"understudy.serve.trusted_proxies": [HERE, "10.0.0.0/8"]}


class Forwarded(HttpClient):
    """Whose requests come with what a proxy adds; and with a name of its own."""

    forwarded = ""

    async def request(
        self, method: str, headers: Mapping[str, str | None] | None = None, body: bytes = b"", path: str = "/mcp"
    ) -> Response:
        more = {"X-Forwarded-For": self.forwarded or None, "User-Agent": "probe/1"}
        return await super().request(method, {**more, **(headers or {})}, body, path)


async def by_asking_the_client(server: HttpServer, client: Forwarded) -> str:
    """The call comes from one address, the answer to its question from another."""
    await client.initialize()
    client.forwarded, answering = "198.51.100.1", client.forwarded
    response = await client.call("codex", {"prompt": "make it"})
    async for event in response.events():
        data: dict[str, Any] = event.get("data") or {}
        if data.get("method") == "elicitation/create":
            client.forwarded = answering
            await client.send({"jsonrpc": "2.0", "id": data["id"], "result": {"action": "accept"}})
        if "result" in data:
            return data["result"]["structuredContent"]["threadId"]
    raise AssertionError("no answer came")


async def by_a_tool(server: HttpServer, client: Forwarded) -> str:
    await client.initialize()
    thread = await waiting(client)
    await client.result("conversationApprove", {"conversation_id": thread, "call_id": "call1", "decision": "approved"})
    return thread


async def by_a_second_round(server: HttpServer, client: Forwarded) -> str:
    call_it = {"name": "codex", "arguments": {"prompt": "make it"}}
    [*_, first] = await (await client.modern("tools/call", call_it, capabilities={"elicitation": {}})).messages()
    state, asked = first["result"]["requestState"], first["result"]["inputRequests"]
    again = {**call_it, "requestState": state, "inputResponses": {key: {"action": "accept"} for key in asked}}
    [*_, second] = await (await client.modern("tools/call", again, capabilities={"elicitation": {}})).messages()
    return second["result"]["structuredContent"]["threadId"]


async def by_an_update_of_a_task(server: HttpServer, client: Forwarded) -> str:
    tasks = TaskClient(HttpDoor(client), ASKABLE)
    task = await tasks.begin()
    await tasks.update(task, {key: {"action": "accept"} for key in await tasks.asked(task)})
    return (await tasks.over(task))["result"]["structuredContent"]["threadId"]


async def by_rest(server: HttpServer, client: Forwarded) -> str:
    await client.initialize()
    thread = await waiting(client)
    body = json.dumps({"call_id": "call1", "decision": "approved"}).encode()
    assert (await client.request("POST", body=body, path=f"/v1/conversations/{thread}/decisions")).status == 200
    return thread


async def by_the_page(server: HttpServer, client: Forwarded) -> str:
    await client.initialize()
    thread = await waiting(client)
    browser: RestClient = await log_in(server)
    more = {"X-Forwarded-For": client.forwarded, "User-Agent": "probe/1"}
    answer = {"call_id": "call1", "decision": "approved"}
    assert (await browser.request("POST", f"/v1/conversations/{thread}/decisions", answer, more)).status == 200
    return thread


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "door", "program"),
    [
        (by_asking_the_client, "mcp-http", "raw 0"),
        (by_a_tool, "mcp-http", "raw 0"),
        (by_a_second_round, "mcp-http", "raw 0"),
        (by_an_update_of_a_task, "mcp-http", "raw 0"),
        (by_rest, "rest", "probe/1"),
        (by_the_page, "page", "probe/1"),
    ],
)
async def test_whichever_way_the_answer_came_the_record_says_from_where(tmp_path: Path, way: Any, door: str, program: str) -> None:
    async with ScriptedModel(SCRIPT) as model, serving(tmp_path, model, config=FORBIDDING | BEHIND_PROXIES) as (server, _):
        client = Forwarded(server.port, server.token)
        client.forwarded = f"198.51.100.66, {FAR}, {PROXY}"  # the first is what the client itself has sent
        thread = await way(server, client)
        await model.next_request(2)
        [record] = await decided(server, thread)
        assert [record[name] for name in ("by", "door", "address", "client")] == ["local", door, FAR, program]
        assert f"approved ({door} from {FAR}, {program})" in await understudy(server, "show", thread)
        told = await RestClient(server.port, server.token).get(f"/v1/conversations/{thread}/events")
        [event] = [each["msg"] for each in told["events"] if each["msg"]["type"] == "approval_decided"]
        assert (event["door"], event["address"], event["client"]) == (door, FAR, program)
        markdown = await (await client.request("GET", path=f"/v1/conversations/{thread}/export?format=markdown")).body()
        assert f"approved by local ({door} from {FAR}, {program})" in markdown.decode()


@pytest.mark.slow
async def test_what_a_stranger_says_of_where_they_are_is_not_believed(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT * 2) as model:
        for number, trusted in enumerate(([], [PROXY])):  # the connection itself does not come from a proxy
            folder = tmp_path / str(number)
            folder.mkdir()
            config = FORBIDDING | {"understudy.serve.trusted_proxies": trusted}
            async with serving(folder, model, config=config) as (server, _):
                client = Forwarded(server.port, server.token)
                client.forwarded = FAR
                thread = await by_rest(server, client)
                await model.next_request(2 * number + 2)
                assert [record["address"] for record in await decided(server, thread)] == [HERE]


@pytest.mark.slow
async def test_an_address_that_is_changed_afterwards_breaks_the_chain(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model, serving(tmp_path, model, config=FORBIDDING) as (server, _):
        thread = await by_rest(server, Forwarded(server.port, server.token))
        await model.next_request(2)
        await server.stop()
        assert "1 conversation" in await understudy(server, "verify")
        with closing(sqlite3.connect(server.home.path / "understudy" / "conversations.db")) as store, store:
            sql = "UPDATE records SET data = replace(data, ?, ?) WHERE instr(data, ?)"
            assert store.execute(sql, (HERE, FAR, '"approval_decided"')).rowcount == 1
        with pytest.raises(AssertionError):
            await understudy(server, "verify", thread)


@pytest.mark.slow
async def test_a_program_that_calls_itself_strange_things_steers_no_terminal(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model, serving(tmp_path, model, config=FORBIDDING) as (server, _):
        client = HttpClient(server.port, server.token)
        info = {"name": "\x1b[2J\u202eevil" + "x" * 10_000, "version": "`"}
        params: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": info}
        client.session = (await client.post("initialize", params)).headers["mcp-session-id"]
        thread = await waiting(client)
        await client.result("conversationApprove", {"conversation_id": thread, "call_id": "call1", "decision": "approved"})
        await model.next_request(2)
        shown = await understudy(server, "show", thread)
        assert "approved (mcp-http from 127.0.0.1" in shown
        assert not {"\x1b", "\u202e"} & set(shown)
        [record] = await decided(server, thread)
        assert len(record["client"]) < 200
