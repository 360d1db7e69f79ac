"""Turns as MCP Tasks, over HTTP: made, asked for, answered, cancelled and expired, by those whose tasks they are."""

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import FORBIDDING, told_to_model
from tests.support.http_server import META, HttpClient, HttpServer, serving
from tests.support.task_clients import ASKABLE, KNOWS_TASKS, TASKS, HttpDoor, Json, TaskClient
from understudy.testing import HOLD, Script, ScriptedModel, call, deltas, hang, say, status
from understudy.testing.waiting import WAIT_SECONDS

TOUCH = call("shell", command=["touch", "made.txt"])
ASKING: Script = [TOUCH, say("done")]
YES: Json = {"action": "accept"}


@asynccontextmanager
async def stage(
    tmp_path: Path, script: Script, config: Json | None = None, capabilities: Json = ASKABLE
) -> AsyncGenerator[tuple[ScriptedModel, HttpServer, TaskClient]]:
    async with ScriptedModel(script) as model, serving(tmp_path, model, config=config) as (server, client):
        yield model, server, TaskClient(HttpDoor(client), capabilities)


async def test_a_turn_is_a_task_that_says_how_far_it_is_and_ends_with_the_whole_result(tmp_path: Path) -> None:
    script = [say("let me see") + call("shell", command=["echo", "hi"]), deltas([HOLD, "hello"])]
    async with stage(tmp_path, script) as (model, _, client):
        made = await client.call("codex", prompt="go", report="full")
        task = made["taskId"]
        assert made["_meta"][f"{META}serverInfo"]["name"] == "understudy"
        assert {name: made[name] for name in ("resultType", "status", "ttlMs")} == {
            "resultType": "task",
            "status": "working",
            "ttlMs": 604_800_000,
        }
        assert made["pollIntervalMs"] > 0
        assert not made.keys() & {"result", "error", "inputRequests", "requestState", "task"}
        await model.next_request(2)
        working = await client.until(task, "working")
        assert working["createdAt"] == made["createdAt"] <= working["lastUpdatedAt"]
        assert working["resultType"] == "complete"
        assert working["statusMessage"] in ("asking the model", "runs echo hi", "command ended with exit code 0")
        assert "result" not in working
        model.release()
        done = await client.over(task)
        assert done["status"] == "completed"
        assert done["result"]["structuredContent"]["content"] == "hello"
        assert done["result"]["structuredContent"]["report"]["commands"]
        thread = done["result"]["structuredContent"]["threadId"]
        assert thread in done["result"]["content"][1]["text"]
        assert await client.get(task) == done


@pytest.mark.slow
async def test_a_turn_that_fails_is_a_task_that_is_completed_with_an_error_of_the_tool(tmp_path: Path) -> None:
    async with stage(tmp_path, [status(400, "no such model")]) as (_, _, client):
        done = await client.over(await client.begin())
        assert (done["status"], done["result"]["isError"]) == ("completed", True)
        assert "no such model" in done["result"]["content"][0]["text"]


@pytest.mark.slow
async def test_arguments_that_are_wrong_make_no_task(tmp_path: Path) -> None:
    async with stage(tmp_path, []) as (_, _, client):
        result = await client.call("codex", prompt="x", cwd="/no/such/folder")
        assert (result["resultType"], result["isError"]) == ("complete", True)


# -- questions


@pytest.mark.slow
async def test_a_question_of_a_task_is_answered_by_an_update(tmp_path: Path) -> None:
    async with stage(tmp_path, ASKING, FORBIDDING) as (_, server, client):
        task = await client.begin()
        asked = await client.until(task, "input_required")
        assert asked["statusMessage"] == "asks for approval: touch made.txt"
        [(key, request)] = asked["inputRequests"].items()
        assert (request["method"], request["params"]["mode"]) == ("elicitation/create", "form")
        assert "touch made.txt" in request["params"]["message"]
        acknowledged = await client.update(task, {"unknown": YES})
        assert acknowledged.keys() == {"resultType", "_meta"}
        assert list((await client.get(task))["inputRequests"]) == [key], "an answer to something else changes nothing"
        await client.update(task, {key: YES})
        assert "inputRequests" not in await client.get(task), "it is answered once the update is acknowledged"
        done = await client.over(task)
        assert done["result"]["structuredContent"]["content"] == "done"
        assert (server.cwd / "made.txt").exists()
        await client.update(task, {key: {"action": "decline"}})  # too late, and acknowledged all the same
        assert await client.get(task) == done


@pytest.mark.slow
async def test_an_answer_that_cannot_be_understood_is_refused_and_the_question_stays(tmp_path: Path) -> None:
    async with stage(tmp_path, ASKING, FORBIDDING) as (_, server, client):
        task = await client.begin()
        [key] = await client.asked(task)
        for wrong in ({"action": "perhaps"}, {"action": "accept", "content": 5}, "yes", {"decision": "si"}):
            answer = await client.message("tasks/update", {"taskId": task, "inputResponses": {key: wrong}})
            assert answer["error"]["code"] == -32602
        malformed: list[Json] = [{"taskId": task}, {"taskId": task, "inputResponses": 5}, {"inputResponses": {}}]
        for params in malformed:
            assert (await client.message("tasks/update", params))["error"]["code"] == -32602
        assert list(await client.asked(task)) == [key]
        await client.update(task, {key: {"action": "decline"}})
        await client.over(task)
        assert not (server.cwd / "made.txt").exists()


@pytest.mark.slow
async def test_the_same_question_twice_has_two_keys(tmp_path: Path) -> None:
    """Models give their calls the same id again and again; an answer must not count for the next question."""
    async with stage(tmp_path, [TOUCH, TOUCH, say("done")], FORBIDDING) as (_, _, client):
        task = await client.begin()
        [first] = await client.asked(task)
        await client.update(task, {first: YES})
        [second] = await client.asked(task)
        assert first != second
        await client.update(task, {first: YES})
        assert list(await client.asked(task)) == [second]
        await client.update(task, {second: YES})
        assert (await client.over(task))["status"] == "completed"


@pytest.mark.slow
async def test_whoever_answers_first_decides_by_whichever_way(tmp_path: Path) -> None:
    async with stage(tmp_path, ASKING, FORBIDDING) as (model, server, client):
        task = await client.begin()
        [key] = await client.asked(task)
        [listed] = (await client.call("conversationsList"))["structuredContent"]["conversations"]
        one = {"conversation_id": listed["conversation_id"], "call_id": listed["pending"][0]}
        answered = await client.call("conversationApprove", **one, decision="denied")
        assert answered["structuredContent"] == {"status": "ok"}
        await client.update(task, {key: YES})
        assert (await client.over(task))["result"]["structuredContent"]["content"] == "done"
        assert not (server.cwd / "made.txt").exists()
        assert len(model.requests) == 2


@pytest.mark.slow
async def test_ending_the_turn_as_the_answer_cancels_the_task(tmp_path: Path) -> None:
    async with stage(tmp_path, [TOUCH], FORBIDDING) as (_, _, client):
        task = await client.begin()
        [key] = await client.asked(task)
        await client.update(task, {key: {"action": "cancel"}})
        assert (await client.over(task))["status"] == "cancelled"


@pytest.mark.slow
async def test_a_client_that_knows_tasks_but_cannot_be_asked_is_answered_for_by_a_no(tmp_path: Path) -> None:
    async with stage(tmp_path, ASKING, FORBIDDING, KNOWS_TASKS) as (_, server, client):
        done = await client.over(await client.begin())
        assert "cannot be asked" in done["result"]["structuredContent"]["refused"][0]["reason"]
        assert not (server.cwd / "made.txt").exists()


@pytest.mark.slow
async def test_a_caller_who_may_not_approve_is_answered_for_by_a_no(tmp_path: Path) -> None:
    async with stage(tmp_path, ASKING, FORBIDDING) as (_, server, _):
        token = await server.add_token("ci", "--rights", "run,read", "--root", str(server.cwd))
        client = TaskClient(HttpDoor(HttpClient(server.port, token)))
        done = await client.over(await client.begin(cwd=str(server.cwd)))
        assert "the right to approve" in done["result"]["structuredContent"]["refused"][0]["reason"]


@pytest.mark.slow
async def test_where_questions_wait_for_somebody_a_task_waits_too_and_says_so(tmp_path: Path) -> None:
    config = {**FORBIDDING, "understudy.unasked": "wait"}
    async with stage(tmp_path, ASKING, config, KNOWS_TASKS) as (model, server, client):
        task = await client.begin()
        await model.next_request(1)
        other = TaskClient(HttpDoor(HttpClient(server.port, server.token)))  # of the same caller, and can be asked
        [key] = await other.asked(task)
        waiting = await client.get(task)
        assert (waiting["status"], waiting["statusMessage"]) == ("working", "asks for approval: touch made.txt")
        assert "inputRequests" not in waiting
        await other.update(task, {key: YES})
        assert (await client.over(task))["status"] == "completed"


# -- ending


async def test_a_cancelled_task_ends_its_turn_and_stays_cancelled(tmp_path: Path) -> None:
    async with stage(tmp_path, [hang()]) as (model, _, client):
        task = await client.begin()
        await model.next_request(1)
        assert (await client.cancel(task)).keys() == {"resultType", "_meta"}
        cancelled = await client.over(task)
        assert cancelled["status"] == "cancelled"
        assert "result" not in cancelled
        assert await model.outcome(1) == "dropped"
        await client.cancel(task)
        assert await client.get(task) == cancelled


@pytest.mark.slow
async def test_cancelling_what_is_over_changes_nothing(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("hello")]) as (_, _, client):
        task = await client.begin()
        done = await client.over(task)
        await client.cancel(task)
        assert await client.get(task) == done


@pytest.mark.slow
async def test_a_closed_connection_and_a_cancelled_request_leave_a_task_alone(tmp_path: Path) -> None:
    async with stage(tmp_path, [deltas([HOLD, "hello"])]) as (model, server, client):
        raw = HttpClient(server.port, server.token)
        made = await raw.modern("tools/call", {"name": "codex", "arguments": {"prompt": "x"}}, capabilities=ASKABLE)
        task = (await made.json())["result"]["taskId"]
        made.close()
        await raw.modern("notifications/cancelled", {"requestId": 1})
        await model.next_request(1)
        model.release()
        assert (await client.over(task))["result"]["structuredContent"]["content"] == "hello"


@pytest.mark.slow
async def test_a_task_expires_and_its_question_is_denied(tmp_path: Path) -> None:
    async with stage(tmp_path, ASKING, {**FORBIDDING, "understudy.task_seconds": 10}) as (model, server, client):
        made = await client.call("codex", prompt="go")
        assert made["ttlMs"] == 10_000
        await client.asked(made["taskId"])
        told = await model.next_request(2)
        assert "the task has expired" in told_to_model(told.body)
        answer = await client.message("tasks/get", {"taskId": made["taskId"]})
        assert answer["error"] == (await client.message("tasks/get", {"taskId": "never-was"}))["error"]
        assert not (server.cwd / "made.txt").exists()


@pytest.mark.slow
async def test_without_a_time_to_live_or_a_log_on_disk_calls_are_answered_in_place(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("one"), say("two")]) as (_, _, client):
        for config in ({"understudy.task_seconds": 0}, {"history.persistence": "none"}):
            assert (await client.call("codex", prompt="go", config=config))["resultType"] == "complete"


# -- who


@pytest.mark.slow
async def test_a_client_that_does_not_declare_tasks_never_sees_one(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("hello")], None, {"extensions": {"other": {}}}) as (_, server, client):
        result = await client.call("codex", prompt="go")
        assert (result["resultType"], result["structuredContent"]["content"]) == ("complete", "hello")
        raw = HttpClient(server.port, server.token)
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            refused = await raw.modern(method, {"taskId": "x", "inputResponses": {}})
            error = (await refused.json())["error"]
            assert (refused.status, error["code"]) == (400, -32021)
            assert error["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        listening = await raw.modern("subscriptions/listen", {"notifications": {"taskIds": []}})
        assert (await listening.json())["error"]["code"] == -32021


@pytest.mark.quick(1)
@pytest.mark.parametrize("rights", [(), ("--others", "run,approve,read")])
async def test_the_task_of_another_caller_is_exactly_an_unknown_one(tmp_path: Path, rights: tuple[str, ...]) -> None:
    async with stage(tmp_path, ASKING, FORBIDDING) as (_, server, client):
        bob = TaskClient(HttpDoor(HttpClient(server.port, await server.add_token("bob", *rights))))
        task = await client.begin()
        [key] = await client.asked(task)
        forged = task[:-4] + ("AAAA" if task[-4:] != "AAAA" else "BBBB")
        for method, more in (("tasks/get", {}), ("tasks/update", {"inputResponses": {key: YES}}), ("tasks/cancel", {})):
            found = [(await bob.message(method, {"taskId": one, **more}))["error"] for one in (task, forged, "never-was", "")]
            assert all(error == found[0] for error in found)
            assert found[0]["code"] == -32602
            assert (await client.message(method, {"taskId": forged, **more}))["error"] == found[0]
        assert list(await client.asked(task)) == [key]
        await client.update(task, {key: YES})
        assert (await client.over(task))["status"] == "completed"


@pytest.mark.slow
async def test_headers_that_name_another_task_are_refused_and_none_are_needed(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("hello")]) as (_, server, client):
        task = await client.begin()
        raw = HttpClient(server.port, server.token)
        found: list[tuple[int, Any]] = []
        for name in (task, None, "another"):
            answered = await raw.modern("tasks/get", {"taskId": task}, {"Mcp-Name": name}, capabilities=KNOWS_TASKS)
            found.append((answered.status, (await answered.json()).get("error", {}).get("code")))
        assert found == [(200, None), (200, None), (400, -32020)]
        for params in ({}, {"taskId": 5}, {"taskId": None}):
            assert (await client.message("tasks/get", params))["error"]["code"] == -32602
        await client.over(task)


# -- with what there was before


@pytest.mark.slow
async def test_a_reply_is_a_task_and_one_without_a_prompt_is_the_turn_that_runs(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("one"), deltas([HOLD, "two"])]) as (model, server, client):
        thread = (await client.over(await client.begin()))["result"]["structuredContent"]["threadId"]
        first = (await client.call("codex-reply", threadId=thread, prompt="more", **{"wait-seconds": 1}))["taskId"]
        await model.next_request(2)
        second = (await client.call("codex-reply", threadId=thread))["taskId"]
        assert {(await client.get(task))["status"] for task in (first, second)} == {"working"}
        model.release()
        results = [(await client.over(task))["result"] for task in (first, second)]
        assert results[0] == results[1]
        assert results[0]["structuredContent"]["content"] == "two"
        again = await client.call("codex-reply", threadId=thread)
        assert (again["resultType"], again["structuredContent"]["content"]) == ("complete", "two")
        await server.kill()
        await server.start()
        assert [(await client.get(task))["result"] for task in (first, second)] == results


@pytest.mark.slow
async def test_a_message_that_joins_a_turn_is_a_task_of_its_own(tmp_path: Path) -> None:
    async with stage(tmp_path, [deltas(["let ", HOLD, "me"]), say("both")]) as (model, server, client):
        first = await client.begin("one")
        await model.next_request(1)
        [listed] = (await client.call("conversationsList"))["structuredContent"]["conversations"]
        second = (await client.call("codex-reply", threadId=listed["conversation_id"], prompt="two"))["taskId"]
        assert {(await client.get(task))["status"] for task in (first, second)} == {"working"}
        model.release()
        ends = [await client.over(task) for task in (first, second)]
        assert [end["result"]["structuredContent"]["content"] for end in ends] == ["both", "both"]
        await server.kill()
        await server.start()
        assert [await client.get(task) for task in (first, second)] == ends


@pytest.mark.slow
async def test_cancelling_a_task_that_only_joined_a_turn_or_waits_for_it_ends_the_task_and_not_the_turn(tmp_path: Path) -> None:
    async with stage(tmp_path, [deltas(["let ", HOLD, "me"]), say("both")]) as (model, server, client):
        first = await client.begin("one")
        await model.next_request(1)
        [listed] = (await client.call("conversationsList"))["structuredContent"]["conversations"]
        thread = listed["conversation_id"]
        joined = (await client.call("codex-reply", threadId=thread, prompt="two"))["taskId"]
        waiting = (await client.call("codex-reply", threadId=thread))["taskId"]
        for task in (joined, waiting):
            await client.cancel(task)
            await client.cancel(task)
            assert (await client.get(task))["status"] == "cancelled"
        assert (await client.get(first))["status"] == "working"
        model.release()
        done = await client.over(first)
        assert done["result"]["structuredContent"]["content"] == "both"
        await server.kill()
        await server.start()
        assert [(await client.get(task))["status"] for task in (first, joined, waiting)] == ["completed", "cancelled", "cancelled"]
        (tmp_path / "other").mkdir()
        other = HttpServer(tmp_path / "other", model)
        other.home = server.home
        async with other:
            elsewhere = TaskClient(HttpDoor(HttpClient(other.port, server.token)), ASKABLE)
            assert (await elsewhere.get(joined))["status"] == "cancelled"


@pytest.mark.slow
async def test_the_task_of_a_conversation_that_was_deleted_is_unknown(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("hello")]) as (_, _, client):
        task = await client.begin()
        thread = (await client.over(task))["result"]["structuredContent"]["threadId"]
        await client.call("conversationDelete", conversation_id=thread)
        unknown = await client.message("tasks/get", {"taskId": "never-was"})
        assert (await client.message("tasks/get", {"taskId": task}))["error"] == unknown["error"]


async def refused(port: int) -> None:
    """Until nobody is let in any more."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                return
            except ConnectionError:  # just while the port is closed
                continue
            writer.transport.abort()
            await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_a_server_that_is_told_to_end_lets_tasks_finish(tmp_path: Path) -> None:
    async with stage(tmp_path, [deltas(["hel", HOLD, "lo"])], {"understudy.serve.drain_seconds": 60}) as (model, server, client):
        task = await client.begin()
        await model.next_request(1)
        server.process.send_signal(signal.SIGTERM)
        await refused(server.port)
        model.release()
        assert await server.ended() == 0
        await server.start()
        assert (await client.get(task))["result"]["structuredContent"]["content"] == "hello"


@pytest.mark.slow
async def test_an_answer_in_a_form_has_its_form_in_the_task_too(tmp_path: Path) -> None:
    schema: Json = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
    async with stage(tmp_path, [say('{"n": 5}')]) as (_, server, client):
        task = await client.begin(output_schema=schema)
        done = await client.over(task)
        assert done["result"]["structuredContent"]["output"] == {"n": 5}
        await server.kill()
        await server.start()
        assert await client.get(task) == done


@pytest.mark.slow
async def test_those_who_listen_are_told_of_each_change(tmp_path: Path) -> None:
    async with stage(tmp_path, ASKING, FORBIDDING) as (_, server, client):
        task = await client.begin()
        raw = HttpClient(server.port, server.token)
        wanted: Json = {"notifications": {"taskIds": [task, "never-was"]}}
        listening = await raw.modern("subscriptions/listen", wanted, capabilities=ASKABLE)
        seen: list[Json] = []
        async with asyncio.timeout(WAIT_SECONDS):
            async for event in listening.events():
                seen.append(event["data"])
                params = event["data"]["params"]
                assert params["_meta"] == {f"{META}subscriptionId": 1}
                if params.get("status") == "input_required":
                    await client.update(task, dict.fromkeys(params["inputRequests"], YES))
                if params.get("status") == "completed":
                    break
        listening.close()
        assert seen[0]["method"] == "notifications/subscriptions/acknowledged"
        assert seen[0]["params"]["notifications"] == {"taskIds": [task]}
        assert {message["method"] for message in seen[1:]} == {"notifications/tasks"}
        assert seen[-1]["params"]["result"]["structuredContent"]["content"] == "done"
