"""Questions of callers who cannot be asked: denied, unless somebody at any front end could answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.e2e.scenes import ANSWERS_NO_QUESTION
from tests.support.machines import Machines, content, machines, thread
from tests.support.task_clients import KNOWS_TASKS, HttpDoor, TaskClient
from understudy.testing import call, say

ASKING = {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}
SOON = {"understudy.cluster.lease_seconds": 3}
ASKS = call("shell", command=["touch", "made"], with_escalated_permissions=True, justification="it is needed")
ATTENDED = "SELECT count(*) FROM attended"


async def begun(those: Machines, work: Path) -> str:
    x = await those.client("x", capabilities=ANSWERS_NO_QUESTION)
    return thread(await x.result("codex", {"prompt": "begin", "cwd": str(work)}))


@pytest.mark.slow
async def test_a_question_is_denied_where_nobody_at_any_front_end_can_be_asked(tmp_path: Path) -> None:
    async with machines(tmp_path, [say("hello"), ASKS, say("Then not.")], workers=("a",), config=ASKING) as those:
        x, work = await those.client("x", capabilities=ANSWERS_NO_QUESTION), those.work("w")
        name = await begun(those, work)
        only_watches = await those.rest("y").stream(name, "?answers=false")
        assert content(await x.result("codex-reply", {"threadId": name, "prompt": "make it"})) == "Then not."
        await only_watches.until("approval_decided")
        assert not (work / "made").exists()


@pytest.mark.slow
async def test_a_question_waits_for_a_person_who_watches_through_another_front_end(tmp_path: Path) -> None:
    async with machines(tmp_path, [say("hello"), ASKS, say("Made.")], workers=("a",), config=ASKING) as those:
        x, y, work = await those.client("x", capabilities=ANSWERS_NO_QUESTION), those.rest("y"), those.work("w")
        name = await begun(those, work)
        stream = await y.stream(name)
        await those.until(ATTENDED, 1)
        waits = asyncio.create_task(x.result("codex-reply", {"threadId": name, "prompt": "make it"}))
        question = (await stream.until("exec_approval_request"))["msg"]["question"]
        decision = {"call_id": question["call_id"], "decision": "approved", "mark": question["mark"]}
        await y.post(f"/v1/conversations/{name}/decisions", decision)
        assert content(await waits) == "Made."
        assert (work / "made").exists()
        stream.close()
        await those.until(ATTENDED, 0)


@pytest.mark.slow
@pytest.mark.parametrize("leaves", ["the client", "its front end"])
async def test_once_that_person_has_left_the_question_is_denied(tmp_path: Path, leaves: str) -> None:
    async with machines(tmp_path, [say("hello"), ASKS, say("Then not.")], workers=("a",), config={**ASKING, **SOON}) as those:
        x, y, work = await those.client("x", capabilities=ANSWERS_NO_QUESTION), those.rest("y"), those.work("w")
        name = await begun(those, work)
        stream = await y.stream(name)
        await those.until(ATTENDED, 1)
        waits = asyncio.create_task(x.result("codex-reply", {"threadId": name, "prompt": "make it"}))
        await stream.until("exec_approval_request")
        if leaves == "the client":
            stream.close()
        else:
            await those.servers["y"].kill()
        assert content(await waits) == "Then not."
        assert not (work / "made").exists()


@pytest.mark.slow
async def test_a_question_waits_through_a_front_end_where_the_key_says_so(tmp_path: Path) -> None:
    config = {**ASKING, "understudy.unasked": "wait"}
    async with machines(tmp_path, [say("hello"), ASKS, say("Made.")], workers=("a",), config=config) as those:
        x, y, work = await those.client("x", capabilities=ANSWERS_NO_QUESTION), those.rest("y"), those.work("w")
        name = await begun(those, work)
        stream = await y.stream(name, "?answers=false")
        waits = asyncio.create_task(x.result("codex-reply", {"threadId": name, "prompt": "make it"}))
        question = (await stream.until("exec_approval_request"))["msg"]["question"]
        decision = {"call_id": question["call_id"], "decision": "approved", "mark": question["mark"]}
        await y.post(f"/v1/conversations/{name}/decisions", decision)
        assert content(await waits) == "Made."
        assert (work / "made").exists()


@pytest.mark.slow
async def test_a_task_whose_maker_cannot_be_asked_is_refused_what_it_asks_for(tmp_path: Path) -> None:
    async with machines(tmp_path, [ASKS, say("Then not.")], workers=("a",), config=ASKING) as those:
        work = those.work("w")
        x, y = [TaskClient(HttpDoor(await those.client(name)), KNOWS_TASKS) for name in ("x", "y")]
        task = await x.begin(cwd=str(work))
        done = await y.over(task)
        assert done["result"]["structuredContent"]["content"] == "Then not."
        assert "cannot be asked" in done["result"]["structuredContent"]["refused"][0]["reason"]
        assert not (work / "made").exists()
