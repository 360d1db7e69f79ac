"""Front ends that come and go, and people who answer at the same time through different ones."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.support.machines import content, machines, thread
from understudy.testing import HOLD, ReceivedRequest, call, deltas, say
from understudy.testing.script import Entry

RACES = 10
ASKING = {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}


@pytest.mark.slow
async def test_a_stream_that_died_with_its_front_end_is_gone_on_with_at_another_without_a_gap(tmp_path: Path) -> None:
    script = [call("shell", command=["echo", "one"]), deltas(["half ", HOLD, "whole"]), say("more")]
    async with machines(tmp_path, script, workers=("a",)) as those:
        x, y = those.rest("x"), those.rest("y")
        row = await x.create(those.work("w"), "begin")
        first = await x.stream(row["id"])
        await first.until("agent_message_content_delta")
        await those.servers["x"].kill()
        second = await y.stream(row["id"], last_event_id=first.last_id)
        those.model.release()
        await second.until("task_complete")
        await y.post(f"/v1/conversations/{row['id']}/messages", {"text": "more"})
        await second.until("task_complete")
        ids = [event["id"] for stream in (first, second) for event in stream.records()]
        whole = await y.stream(row["id"])
        while not whole.records() or whole.records()[-1]["id"] != ids[-1]:
            await whole.next()
        assert ids == [event["id"] for event in whole.records()]


@pytest.mark.slow
async def test_of_answers_at_once_through_different_front_ends_one_counts_every_time(tmp_path: Path) -> None:
    def ask(request: ReceivedRequest) -> Entry:
        if request.body["messages"][-1]["role"] == "tool":
            return say("done")
        return call("shell", command=["sh", "-c", "echo x >> made"], with_escalated_permissions=True, justification="needed")

    async with machines(tmp_path, ask, workers=("a",), config=ASKING) as those:
        x, y, work = those.rest("x"), those.rest("y"), those.work("w")
        row = await x.create(work)
        path = f"/v1/conversations/{row['id']}"
        stream = await x.stream(row["id"])
        for race in range(RACES):
            await x.post(f"{path}/messages", {"text": f"race {race}"})
            question = (await stream.until("exec_approval_request"))["msg"]["question"]
            wanted = {"call_id": question["call_id"], "mark": question["mark"]}
            answers = (("approved", x), ("denied", y)) if race % 2 else (("denied", x), ("approved", y))
            decisions = [front.request("POST", f"{path}/decisions", {**wanted, "decision": word}) for word, front in answers]
            responses = await asyncio.gather(*decisions)
            assert sorted(response.status for response in responses) == [200, 409]
            await stream.until("task_complete")
        decided = [event["data"]["msg"] for event in stream.seen if event["data"]["msg"]["type"] == "approval_decided"]
        counted = [each["decision"] for each in decided if each["effective"]]
        assert len(counted) == RACES
        made = (work / "made").read_text().split() if (work / "made").exists() else []
        assert len(made) == counted.count("approved")


@pytest.mark.slow
async def test_a_reply_through_a_front_end_takes_no_time_that_a_person_notices(tmp_path: Path) -> None:
    async with machines(tmp_path, lambda _: say("ok"), workers=("a",), fronts=("x",)) as those:
        x = await those.client("x")
        name = thread(await x.result("codex", {"prompt": "begin", "cwd": str(those.work("w"))}))
        took: list[float] = []
        for number in range(20):
            began = time.monotonic()
            assert content(await x.result("codex-reply", {"threadId": name, "prompt": str(number)})) == "ok"
            took.append(time.monotonic() - began)
        assert sorted(took)[10] < 1.0, took
