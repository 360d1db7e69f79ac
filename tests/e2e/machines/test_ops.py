"""Every op through front ends, which leave it as a letter for the host of the conversation."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.http_server import HttpClient
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


@pytest.mark.slow
async def test_while_a_command_outlives_its_turn_each_request_is_done_once(tmp_path: Path) -> None:
    stays = call("exec_command", cmd="echo up; sleep 1000", yield_time_ms=300)
    async with machines(tmp_path, [stays, say("runs on"), say("more")], workers=("a",), fronts=("x",)) as those:
        x, rest = await those.client("x"), those.rest("x")
        name = thread(await x.result("codex", {"prompt": "begin", "cwd": str(those.work("w"))}))
        path, titles = f"/v1/conversations/{name}", ["one", "two", "three", "four"]
        for title in titles:
            assert (await rest.post(f"{path}/rename", {"title": title}))["title"] == title
        assert (await rest.get(path))["title"] == "four"
        assert those.rows("SELECT letters FROM conversations") == [(1 + len(titles),)], "no request is left a second time"
        stream = await rest.stream(name)
        await rest.post(f"{path}/messages", {"text": "nowhere", "folder": str(tmp_path / "nowhere")})
        assert "nowhere" in str(await stream.until_it(lambda data: "dropped" in str(data["msg"]["type"])))
        assert content(await x.result("codex-reply", {"threadId": name, "prompt": "go on"})) == "more"
        assert those.rows("SELECT count(*) FROM claims") == [(1,)], "the command goes on"
        await rest.delete(path)
        await those.until("SELECT count(*) FROM inbox", 0)


@pytest.mark.slow
async def test_who_deletes_where_a_turn_begins_in_the_same_moment_is_told_that_it_runs(tmp_path: Path) -> None:
    async with machines(tmp_path, [say("one"), deltas(["two ", HOLD])], workers=("a",)) as those:
        x, y = await those.client("x"), those.rest("y")
        name = thread(await x.result("codex", {"prompt": "begin", "cwd": str(those.work("w"))}))
        those.rows("UPDATE hosts SET state = 'draining' RETURNING 1")
        sent = asyncio.create_task(x.result("codex-reply", {"threadId": name, "prompt": "more"}))
        await those.until("SELECT count(*) FROM inbox", 1)
        deleted = asyncio.create_task(y.request("DELETE", f"/v1/conversations/{name}"))
        await those.until("SELECT count(*) FROM inbox", 2)
        those.rows("UPDATE hosts SET state = 'ready' RETURNING 1")
        response = await deleted
        text = (await response.body()).decode()
        assert (response.status, "interrupt it before deleting" in text) == (409, True), text
        those.model.release()
        assert content(await sent) == "two "
        await y.delete(f"/v1/conversations/{name}")


@pytest.mark.slow
async def test_a_token_with_folders_is_judged_by_what_the_worker_pinned(tmp_path: Path) -> None:
    async with machines(tmp_path, [say("one"), say("two")], workers=("a",), fronts=("x",)) as those:
        inside, outside = those.work("in"), those.work("out")
        token = await those.servers["x"].add_token("ann", "--root", str(inside), "--sandbox", "read-only,danger-full-access")
        ann = HttpClient(those.servers["x"].port, token)
        await ann.initialize()
        begun = await ann.result("codex", {"prompt": "begin", "cwd": str(inside)})
        assert content(begun) == "one"
        assert content(await ann.result("codex-reply", {"threadId": thread(begun), "prompt": "more"})) == "two"
        refused = await ann.result("codex", {"prompt": "begin", "cwd": str(outside)})
        assert "this token may not work in" in str(refused)
        (inside / "link").symlink_to(outside)
        refused = await ann.result("codex", {"prompt": "begin", "cwd": str(inside / "link")})
        assert "this token may not work in" in str(refused)
        for table in ("beginnings", "inbox"):
            assert those.rows(f"SELECT count(*) FROM {table}") == [(0,)], table


@pytest.mark.slow
async def test_folders_and_settings_are_changed_and_earlier_messages_gone_back_to_through_a_front(tmp_path: Path) -> None:
    script = [say("one"), call("shell", command=["pwd"]), say("two"), say("three")]
    async with machines(tmp_path, script, workers=("a",), fronts=("x",)) as those:
        x, rest, other = await those.client("x"), those.rest("x"), those.work("other")
        name = thread(await x.result("codex", {"prompt": "begin", "cwd": str(those.work("w"))}))
        stream = await rest.stream(name)
        await stream.until("task_complete")
        first = next(event["data"]["msg"] for event in stream.seen if event["data"]["msg"]["type"] == "user_message")
        await rest.post(f"/v1/conversations/{name}/messages", {"text": "xylophone", "folder": str(other)})
        await stream.until("task_complete")
        assert str(other) in str(those.model.requests[2]["messages"][-1])
        back = {"text": "again", "parent_message_id": first["message_id"]}
        await rest.post(f"/v1/conversations/{name}/messages", back)
        await stream.until("task_complete")
        assert "xylophone" not in str(those.model.requests[3]["messages"])
        missing = {"text": "nowhere", "folder": str(tmp_path / "nowhere")}
        await rest.post(f"/v1/conversations/{name}/messages", missing)
        assert "nowhere" in str(await stream.until_it(lambda data: "dropped" in str(data["msg"]["type"])))


@pytest.mark.slow
async def test_a_summary_is_made_and_words_are_found_through_a_front(tmp_path: Path) -> None:
    script = [say("a xylophone"), say("the summary"), say("after it"), say("another summary")]
    async with machines(tmp_path, script, workers=("a",), fronts=("x", "y")) as those:
        x, y = await those.client("x"), those.rest("y")
        work = str(those.work("w"))
        name = thread(await x.result("codex", {"prompt": "begin", "cwd": work}))
        stream = await y.stream(name)
        await stream.until("task_complete")
        await y.post(f"/v1/conversations/{name}/compact")
        await stream.until("context_compacted")
        await stream.until("task_complete")
        assert content(await x.result("codex-reply", {"threadId": name, "prompt": "more"})) == "after it"
        assert "the summary" in str(those.model.requests[2])
        summed_up = (await x.result("conversationCompact", {"conversation_id": name}))["structuredContent"]
        assert summed_up["status"] == "ok", "it is waited for, as where there is one machine"
        found = await x.result("conversationsSearch", {"query": "xylophone"})
        assert found["structuredContent"]["hits"][0]["conversation_id"] == name
