"""MCP Tasks through front ends: the turn runs on a worker, and any front end knows of it, also after one has been killed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.http_server import HttpClient
from tests.support.machines import Machines, machines
from tests.support.task_clients import HttpDoor, Json, TaskClient
from understudy.testing import HOLD, call, deltas, say

ASKING = {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}
LONG = {"understudy.cluster.lease_seconds": 300}
ASKS = call("shell", command=["touch", "made"], with_escalated_permissions=True, justification="it is needed")
YES: Json = {"action": "accept"}


def tasks(those: Machines, name: str) -> TaskClient:
    return TaskClient(HttpDoor(HttpClient(those.servers[name].port, those.servers[name].token)))


@pytest.mark.slow
async def test_a_task_is_the_same_through_any_front_end(tmp_path: Path) -> None:
    async with machines(tmp_path, [deltas(["one ", HOLD, "two"])], workers=("a",)) as those:
        x, y = tasks(those, "x"), tasks(those, "y")
        task = await x.begin(cwd=str(those.work("w")))
        assert (await y.get(task))["status"] == "working"
        those.model.release()
        done = await y.over(task)
        assert done["result"]["structuredContent"]["content"] == "one two"
        assert await x.over(task) == done


@pytest.mark.slow
async def test_a_task_that_asks_is_answered_through_the_other_front_end(tmp_path: Path) -> None:
    async with machines(tmp_path, [ASKS, say("Made.")], workers=("a",), config=ASKING) as those:
        x, y, work = tasks(those, "x"), tasks(those, "y"), those.work("w")
        task = await x.begin(cwd=str(work))
        asked = await y.asked(task)
        assert await x.asked(task) == asked
        await y.update(task, dict.fromkeys(asked, YES))
        assert "inputRequests" not in await y.get(task)
        assert (await x.over(task))["result"]["structuredContent"]["content"] == "Made."
        assert (work / "made").exists()


@pytest.mark.slow
async def test_a_task_is_cancelled_through_the_other_front_end(tmp_path: Path) -> None:
    async with machines(tmp_path, [deltas(["one ", HOLD])], workers=("a",)) as those:
        x, y = tasks(those, "x"), tasks(those, "y")
        task = await x.begin(cwd=str(those.work("w")))
        await those.model.next_request(1)
        await y.cancel(task)
        cancelled = await y.over(task)
        assert cancelled["status"] == "cancelled"
        assert await x.over(task) == cancelled


@pytest.mark.slow
async def test_a_task_ends_however_its_worker_and_its_front_end_die(tmp_path: Path) -> None:
    async with machines(tmp_path, [deltas(["one ", HOLD])], workers=("a",), config=LONG) as those:
        x, y = tasks(those, "x"), tasks(those, "y")
        task = await x.begin(cwd=str(those.work("w")))
        await those.model.next_request(1)
        await those.servers["x"].kill()
        await those.servers["a"].kill()
        assert (await y.get(task))["status"] == "working"
        await those.servers["a"].start()
        cut = await y.over(task)
        assert (cut["status"], cut["result"]["isError"]) == ("completed", True)
        assert cut["result"]["structuredContent"]["content"] == "Turn interrupted"
        await those.servers["x"].start()
        assert await x.get(task) == cut


@pytest.mark.slow
async def test_a_question_of_a_task_is_answered_after_its_worker_and_its_front_end_have_died(tmp_path: Path) -> None:
    async with machines(tmp_path, [ASKS, say("Made.")], workers=("a",), config={**LONG, **ASKING}) as those:
        x, y, work = tasks(those, "x"), tasks(those, "y"), those.work("w")
        task = await x.begin(cwd=str(work))
        asked = await x.asked(task)
        await those.servers["x"].kill()
        await those.servers["a"].kill()
        updated = asyncio.create_task(y.update(task, dict.fromkeys(asked, YES)))
        await those.until("SELECT count(*) > 0 FROM inbox", True)
        await those.servers["a"].start()
        await updated
        assert (await y.over(task))["result"]["structuredContent"]["content"] == "Made."
        assert (work / "made").exists()
