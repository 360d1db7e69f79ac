"""A thread of the app server is a conversation like all others: other doors watch, approve and continue it, and it theirs."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_app_server import scene
from tests.support.app_client import AppClient
from tests.support.pausing import go_on, pause
from understudy.testing import HOLD, McpProcess, ScriptedModel, call, deltas, hang, say, text_of

ASKING: dict[str, Any] = {"approval_policy": "untrusted", "sandbox_mode": "workspace-write"}


async def test_a_question_that_a_killed_server_had_put_is_asked_again_on_resume(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made.txt"]), say("done")]
    async with scene(script, tmp_path, config=ASKING) as (_, client, work):
        thread = await client.start_thread(work)
        turn = await client.start_turn(thread, "go")
        await client.question()
        await client.kill()
        async with AppClient(tmp_path / "home" / ".codex", work) as second:
            resumed = await second.call("thread/resume", threadId=thread)
            assert resumed["thread"]["status"] == {"type": "active", "activeFlags": ["waitingOnApproval"]}
            [before] = resumed["thread"]["turns"]
            assert (before["id"], before["status"], before["items"][-1]["status"]) == (turn, "inProgress", "inProgress")
            question = await second.question()
            assert (question["params"]["turnId"], question["params"]["itemId"]) == (turn, before["items"][-1]["id"])
            second.respond(question, {"decision": "accept"})
            assert (await second.turn_over(thread, turn))["status"] == "completed"
    assert (work / "made.txt").exists()


@pytest.mark.slow
async def test_a_command_that_a_killed_server_had_begun_is_closed_on_resume(tmp_path: Path) -> None:
    script = [call("shell", command=["sleep", "1000"]), say("on we go")]
    async with scene(script, tmp_path) as (_, client, work):
        thread = await client.start_thread(work)
        turn = await client.start_turn(thread, "go")
        await client.until(lambda m: m.get("params", {}).get("item", {}).get("type") == "commandExecution", "the command")
        await client.kill()
        async with AppClient(tmp_path / "home" / ".codex", work) as second:
            resumed = await second.call("thread/resume", threadId=thread)
            [before] = resumed["thread"]["turns"]
            assert (before["id"], before["status"], before["items"][-1]["status"]) == (turn, "interrupted", "failed")
            assert (await second.run_turn(thread, "and now"))["status"] == "completed"


@pytest.mark.slow
async def test_a_thread_is_approved_and_continued_over_mcp(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made.txt"]), say("done"), say("continued")]
    async with scene(script, tmp_path, config=ASKING) as (_, client, work):
        thread = await client.start_thread(work)
        turn = await client.start_turn(thread, "go")
        question = await client.question()
        async with McpProcess(home=tmp_path / "home" / ".codex", cwd=work) as mcp:
            approved = await mcp.call_tool("conversationApprove", conversation_id=thread, call_id="call1", decision="approved")
            assert not approved.get("isError"), approved
            assert (await client.told("serverRequest/resolved"))["requestId"] == question["id"]
            assert (await client.turn_over(thread, turn))["status"] == "completed"
            client.respond(question, {"decision": "decline"})  # too late, and of no consequence
            answer = await mcp.call_tool("codex-reply", threadId=thread, prompt="more")
            assert text_of(answer) == "continued"
        said = await client.until(
            lambda m: m.get("method") == "item/completed" and m["params"]["item"].get("text") == "continued",
            "the other door's answer",
        )
        assert said["params"]["threadId"] == thread


@pytest.mark.slow
async def test_a_conversation_of_mcp_is_resumed_as_a_thread_with_its_turns(tmp_path: Path) -> None:
    async with scene([say("from mcp"), say("from here")], tmp_path) as (_, client, work):
        async with McpProcess(home=tmp_path / "home" / ".codex", cwd=work) as mcp:
            thread = (await mcp.call_tool("codex", prompt="begin"))["structuredContent"]["threadId"]
        rows = (await client.call("thread/list"))["data"]
        assert [(row["id"], row["preview"], row["status"]["type"]) for row in rows] == [(thread, "begin", "notLoaded")]
        resumed = await client.call("thread/resume", threadId=thread)
        texts = [item.get("text") for turn in resumed["thread"]["turns"] for item in turn["items"]]
        assert texts == [None, "from mcp"]
        assert (await client.run_turn(thread, "go on"))["items"][0]["text"] == "from here"


@pytest.mark.slow
async def test_a_turn_that_is_started_while_another_runs_waits_and_has_its_own_id(tmp_path: Path) -> None:
    script = [hang(), say("the second"), say("the fourth")]
    async with scene(script, tmp_path) as (model, client, work):
        thread = await client.start_thread(work)
        first = await client.start_turn(thread, "one")
        await model.next_request(1)
        second, third, fourth = [await client.start_turn(thread, text) for text in ("two", "three", "four")]
        assert len({first, second, third, fourth}) == 4
        assert await client.call("turn/interrupt", threadId=thread, turnId=third) == {}  # it has not begun
        assert (await client.turn_over(thread, third))["status"] == "interrupted"
        assert await client.call("turn/interrupt", threadId=thread, turnId=first) == {}
        ends = [(await client.turn_over(thread, turn))["status"] for turn in (first, second, fourth)]
        assert ends == ["interrupted", "completed", "completed"]
        assert _last_words(model) == ["one", "two", "four"]


@pytest.mark.slow
async def test_turns_that_waited_when_their_server_was_killed_run_each_by_itself_before_the_next(tmp_path: Path) -> None:
    script = [hang(), say("the second"), say("the fourth"), say("the fifth")]
    async with scene(script, tmp_path) as (model, client, work):
        thread = await client.start_thread(work)
        first = await client.start_turn(thread, "one")
        await model.next_request(1)
        second, third, fourth = [await client.start_turn(thread, text) for text in ("two", "three", "four")]
        assert await client.call("turn/interrupt", threadId=thread, turnId=third) == {}
        await client.kill()
        async with AppClient(tmp_path / "home" / ".codex", work) as other:
            resumed = await other.call("thread/resume", threadId=thread)
            assert [turn["id"] for turn in resumed["thread"]["turns"]] == [first]
            fifth = await other.start_turn(thread, "five")
            ends = [(await other.turn_over(thread, turn))["status"] for turn in (second, fourth, fifth)]
            assert ends == ["completed"] * 3
            turns = (await other.call("thread/read", threadId=thread, includeTurns=True))["thread"]["turns"]
            assert [turn["id"] for turn in turns] == [first, second, fourth, fifth]
        assert _last_words(model) == ["one", "two", "four", "five"]


@pytest.mark.slow
async def test_a_message_by_another_door_comes_after_the_turns_that_a_killed_server_left(tmp_path: Path) -> None:
    async with scene([hang(), say("all read")], tmp_path) as (model, client, work):
        thread = await client.start_thread(work)
        await client.start_turn(thread, "one")
        await model.next_request(1)
        for text in ("two", "three"):
            await client.start_turn(thread, text)
        await client.kill()
        async with McpProcess(home=tmp_path / "home" / ".codex", cwd=work) as mcp:
            assert text_of(await mcp.call_tool("codex-reply", threadId=thread, prompt="four")) == "all read"
        said = [message["content"] for message in model.requests[-1]["messages"] if message["role"] == "user"]
        assert [text if isinstance(text, str) else text[-1]["text"] for text in said][-3:] == ["two", "three", "four"]


@pytest.mark.slow
async def test_a_turn_that_waits_for_one_of_another_process_outlives_that_process(tmp_path: Path) -> None:
    async with scene([hang(), say("the second"), say("the third")], tmp_path) as (model, client, work):
        thread = await client.start_thread(work)
        await client.start_turn(thread, "one")
        await model.next_request(1)
        async with AppClient(tmp_path / "home" / ".codex", work) as other:
            await other.call("thread/resume", threadId=thread)
            second, taken_back, third = [await other.start_turn(thread, text) for text in ("two", "no", "three")]
            assert await other.call("turn/interrupt", threadId=thread, turnId=taken_back) == {}
            assert (await other.turn_over(thread, taken_back))["status"] == "interrupted"
            await client.kill()
            ends = [(await other.turn_over(thread, turn))["status"] for turn in (second, third)]
            assert ends == ["completed", "completed"]
        assert _last_words(model) == ["one", "two", "three"]


def _last_words(model: ScriptedModel) -> list[str]:
    """The last message of a user in each request."""
    users = [[message["content"] for message in request["messages"] if message["role"] == "user"][-1] for request in model.requests]
    return [text if isinstance(text, str) else text[-1]["text"] for text in users]


@pytest.mark.slow
async def test_ids_of_items_are_unique_in_their_thread_and_the_same_when_read_again(tmp_path: Path) -> None:
    script = [call("shell", command=["true"]), say("one"), call("shell", command=["true"]), say("two")]
    async with scene(script, tmp_path) as (_, client, work):
        thread = await client.start_thread(work)
        for text in ("first", "second"):
            await client.run_turn(thread, text)
        told = [message["params"]["item"] for message in client.messages if message.get("method") == "item/completed"]
        read = (await client.call("thread/read", threadId=thread, includeTurns=True))["thread"]["turns"]
        items = [item for turn in read for item in turn["items"]]
        assert [untimed(item) for item in items] == [untimed(item) for item in told]
        assert len({item["id"] for item in items}) == len(items) == 6
        pages = await client.call("thread/items/list", threadId=thread, limit=4)
        rest = await client.call("thread/items/list", threadId=thread, limit=4, cursor=pages["nextCursor"])
        assert [entry["item"] for entry in pages["data"] + rest["data"]] == items
        assert rest["nextCursor"] is None


def untimed(item: dict[str, Any]) -> dict[str, Any]:
    """A text begins live when its first piece comes, and is read again by the time of its record."""
    return {name: value for name, value in item.items() if not name.endswith("AtMs")}


@pytest.mark.slow
async def test_a_client_that_does_not_read_is_served_when_it_does(tmp_path: Path) -> None:
    """More than a pipe holds: the server goes on meanwhile, and nothing is lost."""
    script = [call("shell", command=["bash", "-c", "yes | head -c 700000"]), say("word " * 100_000)]
    async with scene(script, tmp_path) as (model, client, work):
        thread = await client.start_thread(work)
        with client.not_reading():
            turn = client.ask("turn/start", threadId=thread, input=[{"type": "text", "text": "go"}])
            models = client.ask("model/list")
            await model.next_request(2)
        await client.answer(models)
        ended = await client.turn_over(thread, (await client.answer(turn))["turn"]["id"])
        deltas = [m["params"]["delta"] for m in client.messages if m.get("method") == "item/agentMessage/delta"]
    assert ended["items"][0]["text"] == "word " * 100_000
    assert "".join(deltas) in ("", "word " * 100_000), "a client that is far behind has it at once, with the item"


async def test_no_key_of_the_configuration_or_of_a_login_is_told(tmp_path: Path) -> None:
    config = {"model_providers.mock.http_headers": {"X-Secret": "hidden-value-1"}, "mcp_servers.one.command": "true"}
    config |= {"mcp_servers.one.env": {"TOKEN": "hidden-value-2"}}
    async with scene([], tmp_path, config=config) as (_, client, _):
        await client.call("account/login/start", type="apiKey", apiKey="hidden-value-3")
        for method in ("config/read", "account/read", "getAuthStatus", "model/list"):
            await client.call(method, **({"includeLayers": True} if method == "config/read" else {}))
        assert "hidden-value" not in json.dumps(client.messages) + client.stderr


@pytest.mark.slow
async def test_a_turn_is_told_to_be_over_although_another_server_was_quicker(tmp_path: Path) -> None:
    script = [deltas(["one", HOLD, " more"]), say("two")]
    async with scene(script, tmp_path) as (model, client, work), AppClient(tmp_path / "home" / ".codex", work) as other:
        thread = await client.start_thread(work)
        await other.call("thread/resume", threadId=thread)
        await pause(other.pid, tmp_path / "home" / ".codex")
        late = other.ask("turn/start", threadId=thread, input=[{"type": "text", "text": "mine"}])  # it looks idle from there
        first = await client.start_turn(thread, "first")
        await model.next_request(1)
        go_on(other.pid)
        second = (await other.answer(late))["turn"]["id"]
        model.release()
        assert (await client.turn_over(thread, first))["status"] == "completed"
        assert (await other.turn_over(thread, second))["status"] == "completed"
        assert "mine" in json.dumps(model.requests[-1]["messages"])
