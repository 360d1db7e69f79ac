"""Every tool, every method of Tasks and every address of REST, by callers who lack each right, each folder, or all of it.

The tables here name everything that a server offers: whatever is added there without an entry here fails.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.e2e.http.test_callers import UNKNOWN, client_of
from tests.e2e.scenes import FORBIDDING
from tests.support.http_server import HttpClient, HttpServer, serving
from tests.support.rest_client import RestClient
from tests.support.task_clients import ASKABLE, HttpDoor, TaskClient
from understudy.protocol.callers import Right
from understudy.servers.mcp.task_methods import METHODS
from understudy.servers.mcp.tool_table import OFFER
from understudy.servers.rest.routes import ROUTES
from understudy.testing import ScriptedModel, call

Json = dict[str, Any]


class Op(msgspec.Struct, frozen=True):
    needs: Right | None  # on the conversation; None: it is about none
    given: Json = {}
    works: bool = False  # it lets the agent work, so that folders and sandbox modes count, too


_DECISION = {"call_id": "call1", "decision": "approved"}

TOOLS: dict[str, Op] = {
    "codex": Op(None),
    "codex-reply": Op("run", {"prompt": "x"}, works=True),
    "conversationCreate": Op(None),
    "conversationsList": Op(None),
    "conversationsSearch": Op(None, {"query": "x"}),
    "conversationSendMessage": Op("run", {"content": [{"type": "text", "text": "x"}]}, works=True),
    "conversationStream": Op("read"),
    "conversationInterrupt": Op("run"),
    "conversationCompact": Op("run", works=True),
    "conversationFork": Op("run"),
    "conversationApprove": Op("approve", _DECISION),
    "conversationArchive": Op("run"),
    "conversationUnarchive": Op("run"),
    "conversationRename": Op("run", {"title": "x"}),
    "conversationDelete": Op("run"),
}

ONE = "/v1/conversations/{id}"
REST: dict[tuple[str, str], Op] = {
    ("GET", "/v1/me"): Op(None),
    ("GET", "/v1/conversations"): Op(None),
    ("POST", "/v1/conversations"): Op(None),
    ("GET", "/v1/changes"): Op(None),
    ("GET", "/v1/search"): Op(None),
    ("GET", ONE): Op("read"),
    ("GET", ONE + "/events"): Op("read"),
    ("GET", ONE + "/items"): Op("read"),
    ("GET", ONE + "/diff"): Op("read"),
    ("GET", ONE + "/report"): Op("read"),
    ("GET", ONE + "/export"): Op("read"),
    ("GET", ONE + "/images/{seq}/{number}"): Op("read"),
    ("POST", ONE + "/messages"): Op("run", {"text": "x"}, works=True),
    ("POST", ONE + "/decisions"): Op("approve", _DECISION),
    ("POST", ONE + "/answers"): Op("approve", {"call_id": "call1", "answers": {"q": "x"}}),
    ("POST", ONE + "/interrupt"): Op("run"),
    ("POST", ONE + "/compact"): Op("run", works=True),
    ("POST", ONE + "/undo"): Op("run", works=True),
    ("POST", ONE + "/fork"): Op("run"),
    ("POST", ONE + "/rename"): Op("run", {"title": "x"}),
    ("POST", ONE + "/archive"): Op("run"),
    ("POST", ONE + "/unarchive"): Op("run"),
    ("DELETE", ONE): Op("run"),
}
WITH_BODY = {path for _, path in REST if path.rpartition("/")[2] in ("messages", "decisions", "answers", "undo", "fork", "rename")}


def test_everything_that_is_offered_is_in_the_tables() -> None:
    assert TOOLS.keys() == OFFER.tools.keys()
    assert REST.keys() == {(route.method, route.path) for route in ROUTES}
    assert METHODS.keys() == {"tasks/get", "tasks/update", "tasks/cancel"}


def test_every_tool_says_which_rights_it_needs() -> None:
    """By which those whose token an issuer has signed are told of the scopes that they lack."""
    for name, op in TOOLS.items():
        tool = OFFER.tools[name]
        said = {*tool.needs, *tool.needs_with.values()}
        assert said >= ({"read"} if op.needs is None else {op.needs, "read"}), name


class Scene(msgspec.Struct):
    server: HttpServer
    thread: str
    owner: RestClient

    async def state(self) -> Json:
        """All that an op could change."""
        row = await self.owner.get(f"/v1/conversations/{self.thread}")
        events = await self.owner.get(f"/v1/conversations/{self.thread}/events?limit=1000")
        listed = await self.owner.get("/v1/conversations")
        return {"state": row["state"], "end": events["end"], "title": row["title"], "rows": len(listed["conversations"])}

    async def by_session(self, client: HttpClient, tool: str, thread: str) -> str:
        return json.dumps(await client.result(tool, self._arguments(tool, thread)))

    async def by_single_request(self, client: HttpClient, tool: str, thread: str) -> str:
        params = {"name": tool, "arguments": self._arguments(tool, thread)}
        [*_, last] = await (await client.modern("tools/call", params)).messages()
        return json.dumps(last["result"])

    @staticmethod
    def _arguments(tool: str, thread: str) -> Json:
        return {"threadId" if tool == "codex-reply" else "conversation_id": thread, **TOOLS[tool].given}

    async def by_rest(self, client: HttpClient, method: str, path: str, thread: str) -> tuple[int, str]:
        op = REST[method, path]
        body = op.given if path in WITH_BODY and method == "POST" else None
        address = path.format(id=thread, seq=1, number=0)
        response = await RestClient(self.server.port, client.token).request(method, address, body)
        return response.status, (await response.body()).decode(errors="replace")


@asynccontextmanager
async def alice_is_asked(tmp_path: Path) -> AsyncGenerator[Scene]:
    """A conversation of alice's, whose turn waits for an answer."""
    config = FORBIDDING | {"understudy.unasked": "wait", "understudy.serve.rate": 0}
    async with (
        ScriptedModel([call("shell", command=["touch", "made.txt"])]) as model,
        serving(tmp_path, model, config=config) as (server, _),
    ):
        alice = await client_of(server, "alice")
        owner = RestClient(server.port, alice.token)
        thread = (await owner.create(server.cwd, "make it"))["id"]
        stream = await owner.stream(thread)
        await stream.until("exec_approval_request")
        stream.close()
        yield Scene(server, thread, owner)
        assert not (server.cwd / "made.txt").exists()


@pytest.mark.quick(1)
@pytest.mark.parametrize(("rights", "lacks"), [("read,approve", "run"), ("run,read", "approve")])
async def test_whoever_lacks_a_right_is_refused_by_every_op_that_needs_it(tmp_path: Path, rights: str, lacks: Right) -> None:
    async with alice_is_asked(tmp_path) as scene:
        caller = await client_of(scene.server, "caller", "--others", rights)
        before = await scene.state()
        for tool, op in TOOLS.items():
            if op.needs == lacks:
                for door in (scene.by_session, scene.by_single_request):
                    said = await door(caller, tool, scene.thread)
                    assert f"does not have the right to {lacks}" in said, (tool, said)
                    assert await scene.state() == before, tool
        for (method, path), op in REST.items():
            if op.needs == lacks:
                status, said = await scene.by_rest(caller, method, path, scene.thread)
                assert (status, f"does not have the right to {lacks}" in said) == (403, True), (method, path, said)
                assert await scene.state() == before, path


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--others", "run,approve")], ids=["a stranger", "without the right to read"])
async def test_for_whoever_may_not_read_it_no_op_knows_the_conversation(tmp_path: Path, flags: tuple[str, ...]) -> None:
    async with alice_is_asked(tmp_path) as scene:
        caller = await client_of(scene.server, "caller", *flags)
        before = await scene.state()
        for tool, op in TOOLS.items():
            if op.needs is not None:
                for door in (scene.by_session, scene.by_single_request):
                    theirs, none = [(await door(caller, tool, each)).replace(each, "ID") for each in (scene.thread, UNKNOWN)]
                    assert theirs == none, tool
        for (method, path), op in REST.items():
            if op.needs is not None:
                theirs, none = [await scene.by_rest(caller, method, path, each) for each in (scene.thread, UNKNOWN)]
                assert theirs == none, (method, path)
                assert theirs[0] == 404, (method, path)
        assert await scene.state() == before


@pytest.mark.quick(1)
@pytest.mark.parametrize("held_to", ["root", "sandbox"])
async def test_whoever_is_held_to_a_folder_or_a_mode_lets_no_agent_work_elsewhere(tmp_path: Path, held_to: str) -> None:
    async with alice_is_asked(tmp_path) as scene:
        own = tmp_path / "own"
        own.mkdir()
        limit = ("--root", str(own)) if held_to == "root" else ("--sandbox", "read-only")
        caller = await client_of(scene.server, "caller", "--others", "run,read,approve", *limit)
        before = await scene.state()
        for tool, op in TOOLS.items():
            if op.works:
                for door in (scene.by_session, scene.by_single_request):
                    said = await door(caller, tool, scene.thread)
                    assert "this token may not" in said, (tool, said)
                    assert await scene.state() == before, tool
        for (method, path), op in REST.items():
            if op.works:
                status, said = await scene.by_rest(caller, method, path, scene.thread)
                assert (status, "this token may not" in said) == (403, True), (path, said)
                assert await scene.state() == before, path


@pytest.mark.slow
async def test_a_task_is_nobody_elses_and_its_caller_needs_the_right_to_answer_it(tmp_path: Path) -> None:
    config = FORBIDDING | {"understudy.unasked": "wait"}
    async with (
        ScriptedModel([call("shell", command=["touch", "made.txt"])]) as model,
        serving(tmp_path, model, config=config) as (server, local),
    ):
        carol = await client_of(server, "carol", "--rights", "run,read")
        boss = await client_of(server, "boss", "--others", "run,read,approve")
        hers, his, ours = (TaskClient(HttpDoor(HttpClient(server.port, client.token)), ASKABLE) for client in (carol, boss, local))
        task = await hers.begin()
        await model.next_request(1)
        rest = RestClient(server.port, server.token)
        [row] = (await rest.get("/v1/conversations"))["conversations"]
        stream = await rest.stream(row["id"])
        await stream.until("exec_approval_request")
        for method in METHODS:
            params: Json = {"taskId": task} | ({"inputResponses": {}} if method == "tasks/update" else {})
            for other in (his, ours):
                refused = await other.message(method, params)
                assert refused["error"]["code"] == -32602, method
                assert "Unknown task" in refused["error"]["message"]
        assert "inputRequests" not in await hers.get(task)
        assert (await rest.get(f"/v1/conversations/{row['id']}"))["state"] == "waiting"
        stream.close()
        await hers.cancel(task)
        assert (await hers.over(task))["status"] == "cancelled"
