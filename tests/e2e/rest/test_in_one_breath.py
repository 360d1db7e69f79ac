"""Two requests at once, in every order and from two processes: each is answered, nothing accepted is lost, the next one works."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.soak.truth import check_log
from tests.support.answered import answered
from tests.support.http_server import HttpServer
from tests.support.obliging_model import ObligingModel
from tests.support.rest_client import RestClient
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Entry, RequestSent, TurnDropped, TurnEnded, TurnQueued, TurnStarted, UserMessage
from understudy.store.sqlite.event_log import SqliteLog
from understudy.testing.waiting import WAIT_SECONDS

STATES = ("idle", "run", "talk", "ask")
OPS = ("send", "steer", "queue", "interrupt", "approve", "compact", "undo", "fork", "rename", "archive", "delete")
SHOWN_BY = {"run": "exec_command_begin", "talk": "agent_message_content_delta", "ask": "exec_approval_request"}
REFUSALS = (400, 404, 409)  # what cannot be done as things stand
AT_ONCE = 6


@dataclass
class Stage:
    """Two servers on one store, and a client of each."""

    home: Path
    folder: Path
    here: RestClient
    there: RestClient

    def entries(self, conversation: str) -> list[Entry]:
        with closing(SqliteLog(self.home / "understudy")) as log:
            return list(answered(log.read(ConversationId(conversation))))


@asynccontextmanager
async def stage(folder: Path) -> AsyncGenerator[Stage]:
    model = ObligingModel()
    config = {"sandbox_mode": "danger-full-access"}
    async with (
        model.serving(),
        HttpServer(folder, model, config=config) as here,
        HttpServer(folder, model, config=config) as there,
    ):
        yield Stage(here.home.path, here.cwd, RestClient(here.port, here.token), RestClient(there.port, there.token))


class Scene:
    """A conversation in one of the states, whose first turn has made a file."""

    def __init__(self, on: Stage, state: str) -> None:
        self.stage = on
        self.state = state
        self.path = ""
        self.conversation = ""
        self.messages: list[str] = []  # that were acknowledged

    async def set_up(self) -> None:
        here = self.stage.here
        row = await here.create(self.stage.folder, approval_policy="never")
        self.conversation = row["id"]
        self.path = f"/v1/conversations/{self.conversation}"
        folder = self.stage.folder / self.conversation
        folder.mkdir()
        await here.post(f"{self.path}/messages", {"text": "patch", "folder": str(folder)})
        async with asyncio.timeout(WAIT_SECONDS):
            while not isinstance(self.stage.entries(self.conversation)[-1].record, TurnEnded):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        if self.state != "idle":
            policy = "untrusted" if self.state == "ask" else "never"
            await here.post(f"{self.path}/messages", {"text": self.state, "approval_policy": policy})
            stream = await here.stream(self.conversation)
            await stream.until(SHOWN_BY[self.state])
            stream.close()

    def ask_for(self, op: str, client: RestClient) -> asyncio.Task[tuple[int, dict[str, Any]]]:
        request: tuple[str, str, dict[str, str] | None]
        match op:
            case "send" | "steer" | "queue":
                request = ("POST", "/messages", {"text": f"next by {op}", "mode": op})
            case "approve":
                request = ("POST", "/decisions", {"call_id": "call1", "decision": "approved"})
            case "rename":
                request = ("POST", "/rename", {"title": "another name"})
            case "delete":
                request = ("DELETE", "", None)
            case _:
                request = ("POST", f"/{op}", {} if op in ("undo", "fork") else None)
        return asyncio.create_task(self._request(client, *request))

    async def _request(self, client: RestClient, method: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
        response = await client.request(method, self.path + path, body)
        return response.status, json.loads(await response.body())


async def play(on: Stage, state: str, ops: Sequence[str], clients: Sequence[RestClient]) -> None:
    scene = Scene(on, state)
    await scene.set_up()
    asked = [scene.ask_for(op, client) for op, client in zip(ops, clients, strict=True)]
    answers = await asyncio.gather(*asked)
    deleted = False
    for op, (status, body) in zip(ops, answers, strict=True):
        assert status < 300 or status in REFUSALS, (op, status, body)
        if op in ("send", "steer", "queue") and status == 202:
            scene.messages.append(body["message_id"])
        deleted |= op == "delete" and status == 200
    client = clients[1]
    if deleted:
        assert (await client.status("GET", scene.path))[0] == 404
        return
    await settle(scene, client)
    status, body = await scene.ask_for("send", client)
    assert status == 202, (status, body)
    scene.messages.append(body["message_id"])
    entries = await settle(scene, client)
    check_log(entries)
    recorded = {entry.record.message_id for entry in entries if isinstance(entry.record, UserMessage)}
    queued = {entry.record.message.message_id for entry in entries if isinstance(entry.record, TurnQueued)}
    assert set(scene.messages) <= recorded | queued, "a message that was acknowledged is in the log"
    dropped = {entry.record.message_id for entry in entries if isinstance(entry.record, TurnDropped)}
    consumed = {name for entry in entries if isinstance(entry.record, RequestSent) for name in entry.record.consumed}
    assert recorded <= consumed, "and every one has been read"
    assert queued <= consumed | dropped


async def settle(scene: Scene, client: RestClient) -> list[Entry]:
    """Until no turn runs or waits, interrupting those that do not end by themselves."""

    def is_at_rest(entries: list[Entry]) -> bool:
        turns = sum(1 if isinstance(one.record, TurnStarted) else -1 if isinstance(one.record, TurnEnded) else 0 for one in entries)
        recorded = {one.record.message_id for one in entries if isinstance(one.record, UserMessage)}
        dropped = {one.record.message_id for one in entries if isinstance(one.record, TurnDropped)}
        queued = {one.record.message.message_id for one in entries if isinstance(one.record, TurnQueued)}
        return turns == 0 and queued <= recorded | dropped and set(scene.messages) <= recorded | dropped

    async with asyncio.timeout(WAIT_SECONDS):
        while not is_at_rest(entries := scene.stage.entries(scene.conversation)):
            status, body = await scene.ask_for("interrupt", client)
            assert status == 200, body
            await asyncio.sleep(0.05)
        return entries


async def play_all(
    folder: Path, state: str, placements: Sequence[tuple[str, str]], pairs: Iterable[tuple[str, str]] = tuple(product(OPS, OPS))
) -> None:
    async with stage(folder) as on:
        waiting = [(ops, names) for ops in pairs for names in placements]

        async def work() -> None:
            while waiting:
                ops, names = waiting.pop()
                clients = [on.here if name == "here" else on.there for name in names]
                try:
                    await play(on, state, ops, clients)
                except BaseException as error:
                    error.add_note(f"{ops[0]} {names[0]}, then {ops[1]} {names[1]}, in state {state!r}")
                    raise

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(work())


@pytest.mark.slow
async def test_some_requests_two_at_once_on_one_server(tmp_path: Path) -> None:
    await play_all(tmp_path, "run", [("here", "here")], zip(OPS, (*OPS[4:], *OPS[:4]), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
async def test_two_requests_at_once_on_one_server(tmp_path: Path, state: str) -> None:
    await play_all(tmp_path, state, [("here", "here")])


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
async def test_two_requests_at_once_on_two_servers(tmp_path: Path, state: str) -> None:
    await play_all(tmp_path, state, [("here", "there"), ("there", "here"), ("there", "there")])
