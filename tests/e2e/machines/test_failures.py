"""Workers that are killed, stand still or are not there, and folders that nobody can begin in."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.support.machines import Machines, content, machines, thread
from tests.support.rest_client import RestClient
from understudy.testing import HOLD, call, deltas, say
from understudy.testing.waiting import WAIT_SECONDS

LEASE = 3
SOON = {"understudy.cluster.lease_seconds": LEASE}
LONG = {"understudy.cluster.lease_seconds": 300}


def program(those: Machines, name: str) -> Program:
    return Program(those.servers[name].home.path, those.folder)


async def until_open(client: RestClient) -> str:
    """The id of the one conversation, once it is listed."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not (rows := (await client.get("/v1/conversations"))["conversations"]):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return rows[0]["id"]


@pytest.mark.slow
async def test_a_killed_worker_that_is_started_again_answers_at_once_whatever_its_lease(tmp_path: Path) -> None:
    script = [deltas(["half ", HOLD]), say("next")]
    async with machines(tmp_path, script, workers=("a",), config=LONG) as those:
        x, y = await those.client("x"), await those.client("y")
        begun = asyncio.create_task(x.result("codex", {"prompt": "begin", "cwd": str(those.work("w"))}))
        name = await until_open(those.rest("y"))
        stream = await those.rest("y").stream(name)
        await stream.until("agent_message_content_delta")
        await those.servers["a"].kill()
        await those.servers["a"].start()
        ready = time.monotonic()
        assert content(await begun) == "Turn interrupted"
        assert time.monotonic() - ready < 2 * WAIT_SECONDS / 20
        await stream.until("turn_aborted")
        assert content(await y.result("codex-reply", {"threadId": name, "prompt": "more"})) == "next"
        assert [row[0] for row in those.rows("SELECT seq FROM records ORDER BY seq")] == list(
            range(1, those.rows("SELECT max(seq) FROM records")[0][0] + 1)
        )
        verified = await program(those, "x").run_aside("verify", name)
        assert verified.code == 0, verified.err


@pytest.mark.slow
async def test_a_question_is_put_again_by_the_next_worker_and_answered_through_a_front(tmp_path: Path) -> None:
    asks = call("shell", command=["touch", "made"], with_escalated_permissions=True, justification="it is needed")
    config = {**LONG, "approval_policy": "on-request", "sandbox_mode": "workspace-write"}
    async with machines(tmp_path, [asks, say("Made.")], workers=("a",), config=config) as those:
        x, y = those.rest("x"), those.rest("y")
        work = those.work("w")
        row = await x.create(work, "Make it")
        stream = await x.stream(row["id"])
        question = (await stream.until("exec_approval_request"))["msg"]["question"]
        await those.servers["a"].kill()
        decision = {"call_id": question["call_id"], "decision": "approved", "mark": question["mark"]}
        answered = asyncio.create_task(y.request("POST", f"/v1/conversations/{row['id']}/decisions", decision))
        await those.until("SELECT count(*) FROM inbox", 1)
        await those.servers["a"].start()
        assert (await answered).status in (200, 202)
        await stream.until("task_complete")
        assert (work / "made").exists()


@pytest.mark.slow
async def test_callers_are_told_where_the_folder_of_a_turn_that_was_cut_off_is_gone(tmp_path: Path) -> None:
    asks = call("shell", command=["touch", "made"], with_escalated_permissions=True, justification="it is needed")
    config = {**LONG, "approval_policy": "on-request", "sandbox_mode": "workspace-write"}
    async with machines(tmp_path, [asks], workers=("a",), config=config) as those:
        x, y = await those.client("x"), those.rest("y")
        work = those.work("w")
        name = (await y.create(work, "Make it"))["id"]
        await (await y.stream(name)).until("exec_approval_request")
        await those.servers["a"].kill()
        work.rmdir()
        await those.servers["a"].start()
        assert "cannot be used" in str(await x.result("codex-reply", {"threadId": name, "prompt": "and"}))
        await y.post(f"/v1/conversations/{name}/interrupt")
        await y.delete(f"/v1/conversations/{name}")


@pytest.mark.slow
async def test_of_a_host_that_is_away_conversations_are_read_and_callers_are_told(tmp_path: Path) -> None:
    script = [say("one"), deltas(["half ", HOLD]), say("back"), say("another")]
    async with machines(tmp_path, script, workers=("a",), config=SOON) as those:
        x, y = await those.client("x"), those.rest("y")
        work = str(those.work("w"))
        name = thread(await x.result("codex", {"prompt": "begin", "cwd": work}))
        waits = asyncio.create_task(x.result("codex-reply", {"threadId": name, "prompt": "more"}))
        stream = await y.stream(name)
        await stream.until("agent_message_content_delta")
        await those.servers["a"].kill()
        away = "This workspace is on host a, which is away. Its conversation can be read; it goes on when a is back."
        assert away in str(await waits)
        assert away in str(await x.result("codex-reply", {"threadId": name, "prompt": "and"}))
        assert "is on host a, which is away" in str(await x.result("codex", {"prompt": "beside", "cwd": work}))
        assert len((await y.get(f"/v1/conversations/{name}/events"))["events"]) > 3
        editor = await those.client("y")
        assert (await editor.result("conversationStream", {"conversation_id": name})).get("isError") is not True
        letters = those.rows("SELECT convert_from(op, 'UTF8') FROM inbox")
        assert not [letter for letter in letters if "send" in letter[0]], "what was refused is not left for later"
        listed = await program(those, "x").run_aside("workers", "--json")
        assert '"state": "away"' in listed.out
        await those.servers["a"].start()
        await those.until_served(1)
        assert content(await x.result("codex-reply", {"threadId": name, "prompt": "again"})) == "back"
        more = thread(await x.result("codex", {"prompt": "another", "cwd": work}))
        for gone in (name, more):  # by its worker, and then without it
            deleted = await program(those, "x").run_aside("conversations", "delete", gone, "--yes")
            assert (deleted.code, deleted.err) == (0, ""), deleted.err
            if gone == name:
                await those.servers["a"].kill()
                await those.until("SELECT u_there('a')", False)
        assert those.rows("SELECT count(*) FROM conversations") == [(0,)]


@pytest.mark.slow
async def test_without_a_worker_that_has_room_a_caller_is_told_and_it_is_counted(tmp_path: Path) -> None:
    async with machines(tmp_path, [say("one")], workers=()) as those:
        x, y = await those.client("x"), those.rest("y")
        work = str(those.work("w"))
        begun = asyncio.create_task(x.result("codex", {"prompt": "begin", "cwd": work}))
        await those.until("SELECT count(*) FROM beginnings", 1)
        metrics = (await (await y.request("GET", "/metrics", headers={"Accept": "*/*"})).body()).decode()
        assert "\nunderstudy_workspaces_waiting 1" in metrics
        assert "no worker has room for this workspace" in str(await begun)
        assert those.rows("SELECT count(*) FROM beginnings") == [(0,)]
        begun = asyncio.create_task(x.result("codex", {"prompt": "begin", "cwd": work}))
        await those.until("SELECT count(*) FROM beginnings", 1)
        await those.start("worker", "a")
        assert content(await begun) == "one"


@pytest.mark.slow
async def test_what_cannot_be_begun_is_refused_with_the_workers_reason(tmp_path: Path) -> None:
    async with machines(tmp_path, [], workers=("a",), fronts=("x",)) as those:
        x = await those.client("x")
        work = str(those.work("w"))
        assert "nowhere" in str(await x.result("codex", {"prompt": "begin", "cwd": str(tmp_path / "nowhere")}))
        assert "absolute" in str(await x.result("codex", {"prompt": "begin", "cwd": "work"}))
        not_kept = {"history.persistence": "none"}
        assert "not kept" in str(await x.result("codex", {"prompt": "begin", "cwd": work, "config": not_kept}))
        for table in ("beginnings", "conversations", "workspaces"):
            assert those.rows(f"SELECT count(*) FROM {table}") == [(0,)], table


@pytest.mark.slow
async def test_a_worker_that_stood_still_for_longer_than_its_lease_writes_nothing_more(tmp_path: Path) -> None:
    async with machines(tmp_path, [deltas(["half ", HOLD, "rest"]), say("next")], workers=("a",), config=SOON) as those:
        x, y = await those.client("x"), those.rest("y")
        begun = asyncio.create_task(x.result("codex", {"prompt": "begin", "cwd": str(those.work("w"))}))
        name = await until_open(y)
        stream = await y.stream(name)
        await stream.until("agent_message_content_delta")
        server = those.servers["a"]
        server.process.send_signal(signal.SIGSTOP)
        assert "host a, which is away" in str(await begun)
        those.model.release()
        server.process.send_signal(signal.SIGCONT)
        await those.until_served(1)
        assert content(await x.result("codex-reply", {"threadId": name, "prompt": "more"})) == "next"
        ends = [event["msg"] for event in (await y.get(f"/v1/conversations/{name}/events"))["events"]]
        assert sum(message["type"] in ("task_complete", "turn_aborted") for message in ends) == 2
        assert "rest" not in str(ends)


@pytest.mark.slow
async def test_commands_of_a_worker_that_stands_still_have_ended_before_anybody_goes_on(tmp_path: Path) -> None:
    writes = call("shell", command=["sh", "-c", "while :; do echo x >> lines; sleep 0.02; done"], timeout=100_000)
    async with machines(tmp_path, [writes, say("next")], workers=("a",), fronts=("x",), config=SOON) as those:
        x, work = await those.client("x"), those.work("w")
        begun = asyncio.create_task(x.result("codex", {"prompt": "begin", "cwd": str(work)}))
        async with asyncio.timeout(WAIT_SECONDS):
            while not (work / "lines").exists():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        server = those.servers["a"]
        server.process.send_signal(signal.SIGSTOP)
        result = await begun
        written = (work / "lines").stat().st_size
        assert "host a, which is away" in str(result)
        server.process.send_signal(signal.SIGCONT)
        await those.until_served(1)
        name = await until_open(those.rest("x"))
        assert content(await x.result("codex-reply", {"threadId": name, "prompt": "more"})) == "next"
        assert (work / "lines").stat().st_size == written


@pytest.mark.slow
async def test_workers_are_listed_and_drained(tmp_path: Path) -> None:
    async with machines(tmp_path, [deltas(["one ", HOLD, "two"]), say("b")], workers=("a",), fronts=("x",)) as those:
        x, rest = await those.client("x"), those.rest("x")
        begun = asyncio.create_task(x.result("codex", {"prompt": "begin", "cwd": str(those.work("w"))}))
        await (await rest.stream(await until_open(rest))).until("agent_message_content_delta")
        at = program(those, "x")
        [row] = at.json("workers", "--json")
        assert (row["name"], row["state"], row["conversations"], row["workspaces"]) == ("a", "ready", 1, 1)
        assert row["address"] == those.servers["a"].url
        with (at.home / "config.toml").open("a") as file:
            file.write("[understudy.serve]\ndrain_seconds = 0.5\n")
        drained = await at.run_aside("workers", "drain", "a")
        assert (drained.code, "1 conversation still at work" in drained.out) == (1, True)
        await those.start("worker", "b")
        assert content(await x.result("codex", {"prompt": "begin", "cwd": str(those.work("other"))})) == "b"
        assert those.rows("SELECT host FROM conversations ORDER BY created_at") == [("a",), ("b",)]
        those.model.release()
        assert content(await begun) == "one two"
        drained = await at.run_aside("workers", "drain", "a")
        assert (drained.code, "nothing runs there any more" in drained.out) == (0, True)
        assert "there is no host z" in (await at.run_aside("workers", "drain", "z")).err


@pytest.mark.slow
async def test_draining_ends_commands_that_outlive_their_turns_and_letters_wait_for_the_next_worker(tmp_path: Path) -> None:
    stays = call("exec_command", cmd="echo up; sleep 1000", yield_time_ms=300)
    async with machines(tmp_path, [stays, say("runs on"), say("later")], workers=("a",), fronts=("x",)) as those:
        x, at = await those.client("x"), program(those, "x")
        name = thread(await x.result("codex", {"prompt": "begin", "cwd": str(those.work("w"))}))
        await those.until("SELECT count(*) FROM claims", 1)
        drained = await at.run_aside("workers", "drain", "a")
        assert drained.code == 0, drained.out
        [row] = at.json("workers", "--json")
        assert row["state"] == "draining"
        waits = asyncio.create_task(x.result("codex-reply", {"threadId": name, "prompt": "more"}))
        await those.until("SELECT count(*) FROM inbox", 1)
        assert await those.servers["a"].stop() == 0
        await those.servers["a"].start()
        assert content(await waits) == "later"
        [row] = at.json("workers", "--json")
        assert row["state"] == "ready"
