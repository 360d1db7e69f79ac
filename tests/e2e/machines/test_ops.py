"""Every op through front ends, which leave it as a letter for the host of the conversation."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.machines import content, machines, thread
from understudy.testing import HOLD, call, deltas, say
from understudy.testing.waiting import WAIT_SECONDS

ASKING = {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}
ADDS = "*** Begin Patch\n*** Add File: made.txt\n+text\n*** End Patch\n"
ASKS = call("shell", command=["touch", "made"], with_escalated_permissions=True, justification="it is needed")


@pytest.mark.slow
async def test_a_stream_through_one_front_is_exact_while_another_front_sends(tmp_path: Path) -> None:
    script = [deltas(["one ", HOLD, "two ", "three"]), say("after")]
    async with machines(tmp_path, script, workers=("a",)) as those:
        x, y = those.rest("x"), those.rest("y")
        row = await x.create(those.work("w"), "begin")
        stream = await y.stream(row["id"])
        await stream.until("agent_message_content_delta")
        those.model.release()
        await stream.until("task_complete")
        await y.post(f"/v1/conversations/{row['id']}/messages", {"text": "more"})
        await stream.until("task_complete")
        whole = await x.get(f"/v1/conversations/{row['id']}/events")
        shown = [event["data"]["seq"] for event in stream.records()]
        assert shown == sorted(set(shown))
        assert [event["seq"] for event in whole["events"]] == shown
        later = await x.stream(row["id"], f"?after={shown[3]}")
        await later.until_it(lambda data: data.get("seq") == shown[-1])
        assert [event["data"]["seq"] for event in later.records()] == shown[4:]


@pytest.mark.slow
async def test_a_question_is_answered_through_the_other_front(tmp_path: Path) -> None:
    async with machines(tmp_path, [ASKS, say("Made.")], workers=("a",), config=ASKING) as those:
        x, y = those.rest("x"), those.rest("y")
        work = those.work("w")
        row = await x.create(work, "Make it")
        stream = await x.stream(row["id"])
        question = (await stream.until("exec_approval_request"))["msg"]["question"]
        decision = {"call_id": question["call_id"], "decision": "approved", "mark": question["mark"]}
        path = f"/v1/conversations/{row['id']}/decisions"
        responses = await asyncio.gather(*(front.request("POST", path, decision) for front in (x, y, x, y)))
        assert sorted(response.status for response in responses) == [200, 409, 409, 409]
        await stream.until("task_complete")
        assert (work / "made").exists()


@pytest.mark.slow
async def test_a_turn_is_interrupted_through_the_other_front(tmp_path: Path) -> None:
    async with machines(tmp_path, [deltas(["one ", HOLD]), say("next")], workers=("a",)) as those:
        x, y = await those.client("x"), those.rest("y")
        work = str(those.work("w"))
        begun = asyncio.create_task(x.result("codex", {"prompt": "begin", "cwd": work}))
        async with asyncio.timeout(WAIT_SECONDS):
            while not (rows := (await y.get("/v1/conversations"))["conversations"]):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        stream = await y.stream(rows[0]["id"])
        await stream.until("agent_message_content_delta")
        await y.post(f"/v1/conversations/{rows[0]['id']}/interrupt")
        assert content(await begun) == "Turn interrupted"
        assert content(await x.result("codex-reply", {"threadId": rows[0]["id"], "prompt": "go on"})) == "next"


@pytest.mark.slow
async def test_a_conversation_is_renamed_forked_undone_archived_and_deleted(tmp_path: Path) -> None:
    script = [call("apply_patch", input=ADDS), say("done"), say("forked")]
    async with machines(tmp_path, script, workers=("a", "b")) as those:
        x, y = await those.client("x"), those.rest("y")
        work = those.work("w")
        name = thread(await x.result("codex", {"prompt": "begin", "cwd": str(work)}))
        path = f"/v1/conversations/{name}"
        assert (work / "made.txt").exists()
        assert (await y.post(f"{path}/rename", {"title": "A title"}))["title"] == "A title"
        assert (await those.rest("x").get(path))["title"] == "A title"
        fork = await y.post(f"{path}/fork", {})
        assert those.host_of(fork["id"]) is those.host_of(name)
        assert content(await x.result("codex-reply", {"threadId": fork["id"], "prompt": "and"})) == "forked"
        await y.post(f"{path}/undo")
        assert not (work / "made.txt").exists()
        await y.post(f"{path}/archive")
        assert [row["id"] for row in (await y.get("/v1/conversations"))["conversations"]] == [fork["id"]]
        await y.post(f"{path}/unarchive")
        await y.delete(path)
        assert (await y.status("GET", path))[0] == 404
        assert those.rows("SELECT count(*) FROM inbox") == [(0,)]
        assert those.rows("SELECT count(*) FROM workspaces") == [(1,)]
        await y.delete(f"/v1/conversations/{fork['id']}")
        assert those.rows("SELECT count(*) FROM workspaces") == [(0,)]
