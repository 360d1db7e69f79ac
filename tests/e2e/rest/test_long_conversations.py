"""A conversation of thousands of turns: whatever is done with it, the steps of the server stay short and others are served."""

import threading
from pathlib import Path

import pytest

from tests.engine.log.test_forking import log_of, turn
from tests.support.counted_steps import Steps
from tests.support.http_server import HttpServer
from tests.support.rest_client import RestClient
from understudy.config.home import state_dir
from understudy.protocol.ids import ConversationId, new_uuid
from understudy.protocol.records import Entry, Opened, Overrides
from understudy.store.log import Batch, Summary
from understudy.store.sqlite.event_log import SqliteLog
from understudy.testing import ScriptedModel, say

TURNS = 10_000
CALLS_IN_A_STEP = 40_000  # whatever the number of turns


def written(home: Path, cwd: Path, turns: int) -> ConversationId:
    """A conversation in the store, as if it had been led."""
    name = ConversationId(new_uuid())
    entries = log_of(*(turn(str(number)) for number in range(1, turns + 1)))
    opened = Opened(name, "mock-model", Overrides(cwd=str(cwd)), owner="local")
    entries[0] = Entry(1, 0, "0", 1.0, opened)
    log, over = SqliteLog(state_dir(home)), threading.Event()
    problems: list[BaseException | None] = []

    def done(error: BaseException | None) -> None:
        problems.append(error)
        over.set()

    try:
        batch = Batch(name, 1, 0, tuple(entries), Summary("long", "idle", turns, str(cwd), "mock-model"), creates=True)
        log.append(batch, done)
        assert over.wait(100)
        assert problems == [None]
    finally:
        log.close()
    return name


@pytest.mark.slow
async def test_a_long_conversation_is_read_answered_forked_and_exported_in_short_steps(tmp_path: Path) -> None:
    steps = Steps(tmp_path)
    async with ScriptedModel([say("one")]) as model:
        server = HttpServer(tmp_path, model, started_by=steps.started_by)
        name = written(server.home.path, server.cwd, TURNS)
        async with server:
            client = RestClient(server.port, server.token)
            await client.get("/v1/me")

            async def measured(what: str, path: str, body: dict[str, str] | None = None) -> None:
                steps.reset()
                await (client.get(path) if body is None else client.post(path, body))
                assert steps.calls < CALLS_IN_A_STEP, (what, steps.where)

            await measured("read", f"/v1/conversations/{name}")
            await measured("page", f"/v1/conversations/{name}/events?limit=1000")
            stream = await client.stream(str(name), f"?after={4 * TURNS}")
            await measured("reply", f"/v1/conversations/{name}/messages", {"text": "go on"})
            await stream.until("task_complete")
            assert steps.calls < CALLS_IN_A_STEP, steps.where
            stream.close()
            await measured("fork", f"/v1/conversations/{name}/fork", {})
            await measured("diff", f"/v1/conversations/{name}/diff")
            steps.reset()
            exported = await client.request("GET", f"/v1/conversations/{name}/export")
            assert len((await exported.body()).splitlines()) > 4 * TURNS
            assert steps.calls < CALLS_IN_A_STEP, steps.where
