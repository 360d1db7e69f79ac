"""Named callers over HTTP: what each may see, touch and choose, and that a revoked token is let go at once."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import FORBIDDING
from tests.support.http_server import HttpClient, HttpServer, Response, serving
from understudy.servers.mcp_http.session import RETURN_SECONDS
from understudy.testing import HOLD, ScriptedModel, call, deltas, say
from understudy.testing.waiting import WAIT_SECONDS

UNKNOWN = "67e55044-10b1-426f-9247-bb680e5fe0c8"


async def client_of(server: HttpServer, name: str, *flags: str) -> HttpClient:
    client = HttpClient(server.port, await server.add_token(name, *flags))
    await client.initialize()
    return client


def everything_about(conversation: str) -> dict[str, dict[str, Any]]:
    one = {"conversation_id": conversation}
    return {
        "codex-reply": {"threadId": conversation, "prompt": "x"},
        "conversationSendMessage": {**one, "content": [{"type": "text", "text": "x"}]},
        "conversationStream": one,
        "conversationInterrupt": one,
        "conversationCompact": one,
        "conversationFork": one,
        "conversationApprove": {**one, "call_id": "call1", "decision": "approved"},
        "conversationArchive": one,
        "conversationUnarchive": one,
        "conversationDelete": one,
    }


async def test_anothers_conversation_is_answered_like_one_that_never_was_by_every_tool(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made.txt"]), say("done")]
    async with ScriptedModel(script) as model, serving(tmp_path, model, config=FORBIDDING) as (server, local):
        alice, bob = await client_of(server, "alice"), await client_of(server, "bob")
        response = await alice.call("codex", {"prompt": "make it"})
        events = response.events()
        question: dict[str, Any] = {}
        last = ""
        async for event in events:
            last = event.get("id", last)
            if event.get("data") and event["data"].get("method") == "elicitation/create":
                question = event["data"]
                break
        thread = question["params"]["threadId"]
        for tool, arguments in everything_about(thread).items():
            other = everything_about(UNKNOWN)[tool]
            theirs = str(await bob.result(tool, arguments)).replace(thread, "ID")
            assert theirs == str(await bob.result(tool, other)).replace(UNKNOWN, "ID"), tool
        assert (await bob.result("conversationsList", {}))["structuredContent"]["conversations"] == []
        # neither by her session, nor by the id of an event, nor by the id of a question
        stolen = HttpClient(server.port, bob.token)
        stolen.session = alice.session
        assert (await stolen.post("ping")).status == 404
        assert (await bob.listen(last)).status == 400
        await bob.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}})
        await bob.notify("notifications/cancelled", {"requestId": 2})
        assert not (server.cwd / "made.txt").exists()
        # the local user may do all of it; she decides herself
        await local.initialize()
        listed = (await local.result("conversationsList", {}))["structuredContent"]["conversations"]
        assert [row["conversation_id"] for row in listed] == [thread]
        await alice.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}})
        rest = [event["data"] async for event in response.events() if event.get("data")]
        assert rest[-1]["result"]["structuredContent"]["content"] == "done"
        assert (server.cwd / "made.txt").exists()


async def test_without_the_right_to_approve_a_question_is_denied_and_no_answer_counts(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made.txt"]), say("so be it")]
    async with ScriptedModel(script) as model, serving(tmp_path, model, config=FORBIDDING) as (server, _):
        carol = await client_of(server, "carol", "--rights", "run,read")
        result = await carol.result("codex", {"prompt": "make it"})
        assert result["structuredContent"]["content"] == "so be it"
        assert not (server.cwd / "made.txt").exists()


@pytest.mark.slow
async def test_another_with_the_right_can_approve_what_the_caller_may_not(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made.txt"]), say("done")]
    config = {**FORBIDDING, "understudy.unasked": "wait"}
    async with ScriptedModel(script) as model, serving(tmp_path, model, config=config) as (server, _):
        carol = await client_of(server, "carol", "--rights", "run,read")
        dave = await client_of(server, "dave", "--rights", "", "--others", "read,approve")
        running = await carol.call("codex", {"prompt": "make it"})
        thread = ""
        async for event in running.events():
            if event.get("data") and event["data"].get("method") == "codex/event":
                thread = event["data"]["params"]["_meta"]["threadId"]
                if event["data"]["params"]["msg"]["type"] == "exec_approval_request":
                    break
        denied = await carol.result("conversationApprove", {"conversation_id": thread, "call_id": "call1", "decision": "approved"})
        assert denied["isError"] is True
        done = await dave.result("conversationApprove", {"conversation_id": thread, "call_id": "call1", "decision": "approved"})
        assert done["structuredContent"] == {"status": "ok"}
        assert (await dave.result("codex-reply", {"threadId": thread, "prompt": "x"}))["isError"] is True
        assert (await dave.result("codex", {"prompt": "x"}))["isError"] is True
        rest = [event["data"] async for event in running.events() if event.get("data")]
        assert rest[-1]["result"]["structuredContent"]["content"] == "done"
        assert (server.cwd / "made.txt").exists()


async def attached(server: HttpServer, thread: str) -> tuple[HttpClient, Response]:
    """Somebody who may approve, and watches the conversation; and the connection by which they are asked."""
    dave = await client_of(server, "dave", "--rights", "", "--others", "read,approve")
    asked_by = await dave.listen()
    assert (await dave.result("conversationStream", {"conversation_id": thread})).get("isError") is not True
    return dave, asked_by


async def thread_of(response: Response) -> str:
    async for event in response.events():
        if event.get("data") and event["data"].get("method") == "codex/event":
            return event["data"]["params"]["_meta"]["threadId"]
    raise AssertionError("no event came")


async def asked(connection: Response) -> None:
    async for event in connection.events():
        if event.get("data") and event["data"].get("method") == "elicitation/create":
            return
    raise AssertionError("nothing was asked")


async def leave_by_ending(dave: HttpClient, thread: str, asked_by: Response) -> None:
    assert (await dave.request("DELETE", dave.session_headers())).status == 200


async def leave_by_hanging_up(dave: HttpClient, thread: str, asked_by: Response) -> None:
    asked_by.close()


@pytest.mark.slow
@pytest.mark.parametrize("leave", [leave_by_ending, pytest.param(leave_by_hanging_up, marks=pytest.mark.slow)])
async def test_a_question_is_denied_when_the_last_who_could_answer_it_leaves(tmp_path: Path, leave: Any) -> None:
    script = [deltas(["a", HOLD]) + call("shell", command=["touch", "made.txt"]), say("so be it")]
    async with ScriptedModel(script) as model, serving(tmp_path, model, config=FORBIDDING) as (server, _):
        carol = await client_of(server, "carol", "--rights", "run,read")
        running = await carol.call("codex", {"prompt": "make it"})
        thread = await thread_of(running)
        await model.next_request(1)
        dave, asked_by = await attached(server, thread)
        model.release()
        await asked(asked_by)
        await leave(dave, thread, asked_by)
        async with asyncio.timeout(RETURN_SECONDS + WAIT_SECONDS):
            rest = [event["data"] async for event in running.events() if event.get("data")]
        assert rest[-1]["result"]["structuredContent"]["content"] == "so be it"
        assert not (server.cwd / "made.txt").exists()


@pytest.mark.slow
async def test_by_the_conversation_door_a_question_waits_though_all_have_left(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made.txt"]), say("done")]
    async with ScriptedModel(script) as model, serving(tmp_path, model, config=FORBIDDING) as (server, local):
        carol = await client_of(server, "carol", "--rights", "run,read")
        made = await carol.result("conversationCreate", {"prompt": "make it"})
        thread = made["structuredContent"]["conversation_id"]
        dave, asked_by = await attached(server, thread)
        await asked(asked_by)
        await leave_by_ending(dave, thread, asked_by)
        await local.initialize()
        answered = await local.result(
            "conversationApprove", {"conversation_id": thread, "call_id": "call1", "decision": "approved"}
        )
        assert answered["structuredContent"] == {"status": "ok"}
        await model.next_request(2)  # approved, so the turn goes on


NOT_THEIRS: list[dict[str, Any]] = [
    {"config": {"notify": ["touch", "/tmp/never"]}},
    {"config": {"understudy": {"events": "none"}}},
    {"config": {"understudy.on_question": {"command": ["touch", "/tmp/never"]}}},
    {"config": {"model_providers.mock.base_url": "http://127.0.0.1:9/v1"}},
    {"config": {"model_provider": "openai"}},
    {"config": {"openai_base_url": "http://127.0.0.1:9/v1"}},
    {"config": {"mcp_servers.x.command": "touch"}},
    {"config": {"shell_environment_policy.set": {"LD_PRELOAD": "x"}}},
    {"config": {"understudy.sandbox.network": "on"}},
    {"config": {"sandbox_workspace_write.writable_roots": ["/"]}},
    {"config": {"policy.rules": []}},
    {"config": {"history.persistence": "none"}},
    {"config": {"understudy.record": "/tmp/never"}},
    {"config": {"sandbox_mode": "danger-full-access"}},
    {"sandbox": "danger-full-access"},
    {"profile": "open"},
    {"cwd": "/"},
    {"cwd": "{work}/../user"},
    {"images": ["/etc/hostname"]},
]


@pytest.mark.slow
async def test_a_named_caller_chooses_only_what_is_theirs_to_choose(tmp_path: Path) -> None:
    config = {"sandbox_mode": "workspace-write", "profiles.open.sandbox_mode": "danger-full-access"}
    async with ScriptedModel([]) as model, serving(tmp_path, model, config=config) as (server, _):
        alice = await client_of(server, "alice", "--root", str(server.cwd))
        for arguments in NOT_THEIRS:
            given = {name: value.format(work=server.cwd) if isinstance(value, str) else value for name, value in arguments.items()}
            result = await alice.result("codex", {"prompt": "x", **given})
            assert result["isError"] is True, arguments
            assert "token" in result["content"][0]["text"], (arguments, result)
            if "images" not in given:
                made = await alice.result("conversationCreate", given)
                assert made["isError"] is True, arguments
        assert (await alice.result("conversationsList", {}))["structuredContent"]["conversations"] == []


@pytest.mark.slow
async def test_what_a_named_caller_may_choose_works(tmp_path: Path) -> None:
    config = {"sandbox_mode": "workspace-write"}
    async with ScriptedModel([say("fine")]) as model, serving(tmp_path, model, config=config) as (server, _):
        alice = await client_of(server, "alice", "--root", str(server.cwd))
        setting = {"model_reasoning_effort": "low", "understudy.thread_in_text": False}
        result = await alice.result("codex", {"prompt": "x", "cwd": str(server.cwd), "sandbox": "read-only", "config": setting})
        assert result["structuredContent"]["content"] == "fine"


async def test_a_revoked_token_is_let_go_at_once(tmp_path: Path) -> None:
    async with ScriptedModel([deltas(["a", HOLD, "b"])]) as model, serving(tmp_path, model) as (server, _):
        alice = await client_of(server, "alice", "--sandbox", "danger-full-access")
        waiting = await alice.listen()
        running = await alice.call("codex", {"prompt": "x"})
        await model.next_request(1)
        await server.revoke_token("alice")
        async with asyncio.timeout(WAIT_SECONDS):
            assert [event async for event in waiting.events()] == []
            shown = [event["data"] async for event in running.events() if event.get("data")]
        assert "result" not in shown[-1]
        assert (await alice.post("ping")).status == 401
        model.release()


@pytest.mark.slow
async def test_an_expired_token_is_none(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, _):
        old = await server.make_token("old", "--expires", "2020-01-01")
        await server.add_token("new")  # whose list has both
        assert (await HttpClient(server.port, old).request("DELETE")).status == 401
