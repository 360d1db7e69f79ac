"""The conversation tools: create, send, list, interrupt, approve, delete; forks and overrides; both doors are one."""

import base64
import re
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import answered, kinds, scene, text_of, thread_of, told_to_model, users_in
from tests.e2e.talking import Stream, create, listed, send, structured
from tests.support.interpreter import PLAIN_PYTHON
from understudy.testing import HOLD, McpProcess, ScriptedModel, call, deltas, hang, say

NOBODY = "67e55044-10b1-426f-9247-bb680e5fe0c8"


async def test_create_and_send(tmp_path: Path) -> None:
    async with scene([say("Done")], tmp_path) as (model, client):
        result = await client.call_tool("conversationCreate", prompt="", model="o3", cwd=str(tmp_path))
        conversation = result["structuredContent"]["conversation_id"]
        assert result == {
            "content": [{"text": f'{{"conversation_id":"{conversation}","model":"o3"}}', "type": "text"}],
            "isError": False,
            "structuredContent": {"conversation_id": conversation, "model": "o3"},
        }
        sent = await send(client, conversation, "Hello")
        meta = sent.pop("_meta")
        assert re.fullmatch(r"[0-9a-f-]{36}", meta["messageId"])
        assert sent == {
            "content": [{"text": '{"status":"ok"}', "type": "text"}],
            "isError": False,
            "structuredContent": {"status": "ok"},
        }
        request = (await model.next_request(1)).body
        assert (request["model"], request["stream"]) == ("o3", True)
        assert request["messages"][-1] == {"role": "user", "content": "Hello"}
        stream = Stream(client, conversation)
        await stream.until("task_complete")
        assert client.notifications("codex/event") == [], "nothing is pushed to who did not ask"


async def test_a_prompt_starts_the_first_turn_at_once(tmp_path: Path) -> None:
    async with scene([say("Done")], tmp_path) as (model, client):
        conversation = await create(client, prompt="go", config={"model": "other"})
        await Stream(client, conversation).until("task_complete")
        assert model.requests[0]["model"] == "other"


async def test_mistakes_are_told_in_the_shape_of_each_tool(tmp_path: Path) -> None:
    async with scene([], tmp_path) as (_, client):
        conversation = await create(client)
        text = [{"type": "text", "text": "x"}]
        table: list[tuple[str, dict[str, Any], str]] = [
            ("conversationSendMessage", {"conversation_id": conversation, "content": []}, "No content items provided"),
            ("conversationSendMessage", {"conversation_id": NOBODY, "content": []}, "No content items provided"),
            ("conversationSendMessage", {"conversation_id": NOBODY, "content": text}, "Session does not exist"),
            ("conversationSendMessage", {"conversation_id": "x", "content": text}, "Failed to parse conversation_id: invalid ch"),
            ("conversationSendMessage", {"content": text}, "missing field `conversation_id`"),
            ("conversationSendMessage", {"conversation_id": conversation}, "missing field `content`"),
            ("conversationSendMessage", {"conversation_id": conversation, "content": "x"}, "invalid type: string"),
            ("conversationSendMessage", {"conversation_id": conversation, "content": [{"type": "video"}]}, "content: "),
            ("conversationSendMessage", {"conversation_id": conversation, "content": [{"type": "text"}]}, "content: "),
            ("conversationSendMessage", {"conversation_id": conversation, "content": text, "modle": "m"}, "unknown field `modle`"),
            (
                "conversationSendMessage",
                {"conversation_id": conversation, "content": text, "parent_message_id": NOBODY},
                f"no message {NOBODY} in this conversation",
            ),
            (
                "conversationSendMessage",
                {"conversation_id": conversation, "content": text, "approval_policy": "zz"},
                "unknown variant `zz`",
            ),
            (
                "conversationSendMessage",
                {"conversation_id": conversation, "content": text, "cwd": "/no/such/folder"},
                "/no/such/folder",
            ),
            ("conversationInterrupt", {"conversation_id": NOBODY}, "Session does not exist"),
            ("conversationApprove", {"conversation_id": NOBODY, "call_id": "c", "decision": "approved"}, "Session does not exist"),
            (
                "conversationApprove",
                {"conversation_id": conversation, "call_id": "c", "decision": "approved"},
                "no open question with call_id `c`; open ones: none",
            ),
            (
                "conversationApprove",
                {"conversation_id": conversation, "call_id": "c", "decision": "maybe"},
                "unknown variant `maybe`",
            ),
            ("conversationDelete", {"conversation_id": NOBODY}, "Session does not exist"),
            ("conversationDelete", {}, "missing field `conversation_id`"),
        ]
        for tool, arguments, words in table:
            result = await client.call_tool(tool, arguments)
            assert result["isError"] is True, (tool, arguments)
            told = structured(result)
            assert told["status"] == "error"
            assert words in told["message"], (tool, arguments)
        for arguments, words in (
            ({"cwd": str(tmp_path / "nowhere")}, "nowhere"),
            ({"sandbox": "bogus"}, "unknown variant `bogus`"),
            ({"profile": "nobody"}, "Failed to load config: config profile `nobody` not found"),
        ):
            result = await client.call_tool("conversationCreate", arguments)
            assert result["isError"] is True
            assert words in structured(result)["message"]
        for arguments, words in (({"cursor": "nonsense"}, "invalid cursor"), ({"limit": -1}, "u32"), ({"limit": "x"}, "u32")):
            result = await client.call_tool("conversationsList", arguments)
            assert result["isError"] is True
            assert words in structured(result)["message"]
        for arguments in ({"conversation_id": NOBODY}, {"conversation_id": "x"}, {}):
            result = await client.call_tool("conversationStream", arguments)
            assert result["isError"] is True
            assert "structuredContent" not in result
        assert [entry["conversation_id"] for entry in await listed(client)] == [conversation], "no mistake made a conversation"


async def test_a_message_while_a_turn_runs_joins_it_and_is_read_once(tmp_path: Path) -> None:
    async with scene([deltas(["first", HOLD]), say("second")], tmp_path) as (model, client):
        conversation = await create(client, prompt="one")
        stream = Stream(client, conversation)
        await stream.until("agent_message_delta")
        two = await send(client, conversation, "two")
        three = await send(client, conversation, "three")
        assert two["structuredContent"] == three["structuredContent"] == {"status": "ok"}
        assert two["_meta"]["joined"] is True
        model.release()
        await stream.until("task_complete")
        assert users_in(model.requests[1]) == ["one", "two", "three"]
        assert stream.kinds("agent_message_delta") == ["task_started", "agent_message", "agent_message", "task_complete"]


async def test_images_reach_the_model_and_one_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(b"\x89PNG fake")
    async with scene([say("ok"), say("ok")], tmp_path) as (model, client):
        conversation = await create(client, cwd=str(tmp_path))
        content = [
            {"type": "text", "text": "look"},
            {"type": "local_image", "path": "dot.png"},
            {"type": "image", "image_url": "data:image/png;base64,AAAA"},
        ]
        await client.call_tool("conversationSendMessage", conversation_id=conversation, content=content)
        stream = Stream(client, conversation, after=0)
        await stream.until("task_complete")
        [parts] = [message["content"] for message in model.requests[0]["messages"] if isinstance(message["content"], list)]
        urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        assert urls == [
            "data:image/png;base64," + base64.b64encode(b"\x89PNG fake").decode(),
            "data:image/png;base64,AAAA",
        ]
        [shown] = [event for event in stream.messages() if event["type"] == "user_message"]
        assert shown["images"] == urls
        for path, reason in (("missing.png", "no such file"), (".", "is not a regular file")):
            content = [{"type": "text", "text": "x"}, {"type": "local_image", "path": path}]
            result = await client.call_tool("conversationSendMessage", conversation_id=conversation, content=content)
            assert result["isError"] is True
            message = structured(result)["message"]
            assert str(tmp_path / path).rstrip("/.") in message
            assert reason in message
        await send(client, conversation, "still there?")
        await stream.until("task_complete", 2)
        assert users_in(model.requests[1])[-1] == "still there?"


async def test_overrides_hold_from_their_message_on(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    script = [call("shell", command=["pwd"]), say("a"), call("shell", command=["pwd"]), say("b"), say("c")]
    async with scene(script, tmp_path) as (model, client):
        conversation = await create(client, prompt="one", base_instructions="Base one.")
        stream = Stream(client, conversation)
        await stream.until("task_complete")
        await send(client, conversation, "two", model="m2", cwd=str(tmp_path / "sub"), base_instructions="Base two.")
        await stream.until("task_complete", 2)
        await send(client, conversation, "three")
        await stream.until("task_complete", 3)
        assert [request["model"] for request in model.requests] == ["mock-model", "mock-model", "m2", "m2", "m2"]
        assert [request["messages"][0]["content"][:9] for request in model.requests] == ["Base one."] * 2 + ["Base two."] * 3
        begun = [event["cwd"] for event in stream.messages() if event["type"] == "exec_command_begin"]
        assert begun == [str(tmp_path), str(tmp_path / "sub")]
        [entry] = await listed(client)
        assert (entry["cwd"], entry["model"]) == (str(tmp_path / "sub"), "m2")


@pytest.mark.slow
async def test_an_earlier_message_can_be_gone_on_from_again_and_again(tmp_path: Path) -> None:
    script = [say(text) for text in ("A1", "A2", "A3", "B2", "C3", "D2")]
    async with scene(script, tmp_path) as (model, client):
        conversation = await create(client)
        stream = Stream(client, conversation, after=0)
        ids: dict[str, str] = {}

        async def turn(text: str, parent: str | None = None) -> None:
            more = {"parent_message_id": ids[parent]} if parent else {}
            ids[text] = (await send(client, conversation, text, **more))["_meta"]["messageId"]
            await stream.until("task_complete", len(ids))

        for text in ("1", "2", "3"):
            await turn(text)
        await turn("2b", "1")
        assert users_in(model.requests[3]) == ["1", "2b"]
        await turn("3c", "2")  # a message on the path that was left
        assert users_in(model.requests[4]) == ["1", "2", "3c"]
        await turn("4d")
        assert users_in(model.requests[5]) == ["1", "2", "3c", "4d"]
        shown = [event for event in stream.messages() if event["type"] == "user_message"]
        assert [event["message_id"] for event in shown] == list(ids.values())
        assert [event.get("parent_message_id") for event in shown] == [None, None, None, ids["1"], ids["2"], None]


@pytest.mark.slow
async def test_a_fork_while_a_turn_runs_is_refused_with_advice(tmp_path: Path) -> None:
    async with scene([say("one"), deltas(["x", HOLD])], tmp_path) as (model, client):
        conversation = await create(client)
        stream = Stream(client, conversation)
        first = (await send(client, conversation, "one"))["_meta"]["messageId"]
        await stream.until("task_complete")
        await send(client, conversation, "two")
        await stream.until("agent_message_delta", 2)
        refused = await send(client, conversation, "fork", parent_message_id=first)
        assert refused["isError"] is True
        assert "interrupt it, or wait for its end" in structured(refused)["message"]
        model.release()
        await stream.until("task_complete", 2)


async def test_the_list_has_every_field_and_pages(tmp_path: Path) -> None:
    async with scene([say("ok")] * 3, tmp_path) as (_, client):
        names: list[str] = []
        for number in range(3):
            names.append(await create(client, prompt=f"  task\n {number} " + "x" * 100, model=f"m{number}"))
            await Stream(client, names[-1]).until("task_complete")
        empty = await create(client)
        entries = await listed(client)
        assert [entry["conversation_id"] for entry in entries] == [empty, *reversed(names)]
        moment = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"
        entry = entries[1]
        assert re.fullmatch(moment, entry.pop("created_at"))
        assert re.fullmatch(moment, entry.pop("updated_at"))
        title = entry.pop("title")
        assert title.startswith("task 2 xxx")
        assert len(title) <= 80
        assert entry == {
            "conversation_id": names[2],
            "status": "idle",
            "message_count": 2,
            "cwd": str(tmp_path),
            "model": "m2",
            "pending": [],
        }
        assert (entries[0]["title"], entries[0]["message_count"]) == ("New conversation", 0)

        first = structured(await client.call_tool("conversationsList", limit=2))
        await create(client)
        second = structured(await client.call_tool("conversationsList", limit=2, cursor=first["next_cursor"]))
        paged = [entry["conversation_id"] for page in (first, second) for entry in page["conversations"]]
        assert paged == [empty, *reversed(names)]
        assert "next_cursor" not in second
        assert structured(await client.call_tool("conversationsList", limit=0)) == {"conversations": []}


async def test_an_interrupt_ends_the_turn_and_says_so(tmp_path: Path) -> None:
    async with scene([hang(), say("better")], tmp_path) as (model, client):
        conversation = await create(client, prompt="one")
        stream = Stream(client, conversation)
        await model.next_request(1)
        assert (await listed(client))[0]["status"] == "running"
        answer = structured(await client.call_tool("conversationInterrupt", conversation_id=conversation))
        assert answer["status"] == "ok"
        await stream.until("task_complete")
        assert stream.messages()[-2:] == [
            {"type": "error", "message": "Turn interrupted"},
            {"type": "task_complete", "last_agent_message": None},
        ]
        again = structured(await client.call_tool("conversationInterrupt", conversation_id=conversation))
        assert again["status"] == "ok", "nothing ran, and that is no error"
        assert (await listed(client))[0]["status"] == "idle"
        await send(client, conversation, "two")
        await stream.until("task_complete", 2)
        assert users_in(model.requests[1]) == ["one", "two"]


@pytest.mark.slow
async def test_cancelling_a_message_interrupts_the_turn_it_began_and_no_other(tmp_path: Path) -> None:
    async with scene([hang(), deltas(["x", HOLD])], tmp_path) as (model, client):
        conversation = await create(client)
        stream = Stream(client, conversation)
        first = send(client, conversation, "one")
        await first
        await model.next_request(1)
        await client.cancel(first)
        await stream.until("error")
        await send(client, conversation, "two")
        await stream.until("agent_message_delta")
        await client.cancel(first)
        assert await client.request("ping") == {}
        model.release()
        await stream.until("task_complete", 2)
        assert stream.messages()[-1]["last_agent_message"] == "x"


@pytest.mark.quick(1)
@pytest.mark.parametrize("decision", ["approved", "denied", "abort"])
async def test_a_question_waits_and_can_be_answered_by_a_tool(tmp_path: Path, decision: str) -> None:
    script = [call("shell", command=["touch", "made"])] + ([] if decision == "abort" else [say("done")])
    config = {"approval_policy": "untrusted", "sandbox_mode": "danger-full-access"}
    async with scene(script, tmp_path, config=config, capabilities={}) as (model, client):
        conversation = await create(client, prompt="go")
        stream = Stream(client, conversation)
        asked = await stream.until("exec_approval_request")
        assert asked["command"] == ["touch", "made"]
        [entry] = await listed(client)
        assert (entry["status"], entry["pending"]) == ("waiting", ["call1"])
        wrong = await client.call_tool("conversationApprove", conversation_id=conversation, call_id="zz", decision="approved")
        assert structured(wrong)["message"] == "no open question with call_id `zz`; open ones: call1"
        arguments = {"conversation_id": conversation, "call_id": "call1", "decision": decision}
        assert structured(await client.call_tool("conversationApprove", arguments)) == {"status": "ok"}
        await stream.until("task_complete")
        assert (tmp_path / "made").exists() == (decision == "approved")
        if decision == "denied":
            assert told_to_model(model.requests[1]) == "exec command rejected by user"
        assert client.find_response("elicitation") is None
        late = await client.call_tool("conversationApprove", arguments)
        assert late["isError"] is True


async def test_a_deleted_conversation_is_gone_and_its_turn_with_it(tmp_path: Path) -> None:
    async with scene([say("ok"), hang()], tmp_path) as (model, client):
        kept = await create(client, prompt="keep")
        await Stream(client, kept).until("task_complete")
        gone = await create(client, prompt="one")
        await model.next_request(2)
        assert structured(await client.call_tool("conversationDelete", conversation_id=gone)) == {"status": "ok"}
        assert await model.outcome(2) == "dropped"
        assert [entry["conversation_id"] for entry in await listed(client)] == [kept]
        for tool in ("conversationStream", "conversationDelete", "conversationInterrupt"):
            assert (await client.call_tool(tool, conversation_id=gone))["isError"] is True
        reply = await client.call_tool("codex-reply", threadId=gone, prompt="x")
        assert text_of(reply).splitlines()[0] == f"Session not found for session_id: {gone}"


@pytest.mark.slow
async def test_deleting_takes_a_deep_and_closed_private_folder_along_and_blocks_nobody(tmp_path: Path) -> None:
    dig = """
import os
os.chdir("/tmp")
os.mkdir("closed"); open("closed/x", "w").close(); os.chmod("closed", 0)
os.mkdir(bytes([255, 10]))
for _ in range(1500): os.mkdir("d"); os.chdir("d")
print("dug")
"""
    run = call("shell", command=[PLAIN_PYTHON, "-c", dig], timeout=50_000)
    home = tmp_path / "home"
    home.mkdir()
    async with scene([run, say("ok")], tmp_path, config={"sandbox_mode": "workspace-write"}, home=home) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="go"))
        assert "dug" in told_to_model(model.requests[1])
        (private,) = home.glob("understudy/tmp/*")
        deleting = client.call_tool("conversationDelete", conversation_id=thread)
        assert await client.request("ping") == {}
        assert structured(await deleting) == {"status": "ok"}
        assert not private.exists()
    assert list(private.parent.glob("*")) == [], "the server has removed it all before it left"


async def test_sessions_and_conversations_are_one_thing(tmp_path: Path) -> None:
    async with scene([say("by call"), say("by message"), say("by reply"), say("again")], tmp_path) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="one"))
        stream = Stream(client, thread)
        assert kinds([event["msg"] for event in await stream.snapshot()]) == ["task_started", "agent_message", "task_complete"]
        await send(client, thread, "two")
        await stream.until("task_complete", 2)
        assert await client.call_tool("codex-reply", threadId=thread, prompt="three") == answered("by reply", thread)
        await stream.until("task_complete", 3)
        made = await create(client, prompt="elsewhere")
        await Stream(client, made).until("task_complete")
        assert {entry["conversation_id"] for entry in await listed(client)} == {thread, made}
        assert users_in(model.requests[2]) == ["one", "two", "three"]


@pytest.mark.slow
async def test_a_policy_chosen_with_a_message_counts_from_it_on(tmp_path: Path) -> None:
    ask = call("shell", command=["touch", "made"])
    async with scene([ask, say("a"), ask, say("b"), ask, say("c")], tmp_path, capabilities={}) as (_, client):
        conversation = await create(client, prompt="1", approval_policy="never")
        stream = Stream(client, conversation)
        await stream.until("task_complete")
        assert "exec_approval_request" not in stream.kinds()
        await send(client, conversation, "2", approval_policy="untrusted")
        await stream.until("exec_approval_request")
        arguments = {"conversation_id": conversation, "call_id": "call1", "decision": "denied"}
        await client.call_tool("conversationApprove", arguments)
        await stream.until("task_complete", 2)
        await send(client, conversation, "3", config={"approval_policy": "never"})
        await stream.until("task_complete", 3)
        assert stream.kinds().count("exec_approval_request") == 1


@pytest.mark.slow
async def test_a_message_with_other_choices_joins_and_they_count_for_the_next_turn(tmp_path: Path) -> None:
    async with scene([deltas(["x", HOLD]), say("y"), say("z")], tmp_path) as (model, client):
        conversation = await create(client, prompt="1")
        stream = Stream(client, conversation)
        await stream.until("agent_message_delta")
        joined = await send(client, conversation, "2", model="m2")
        assert joined["_meta"]["joined"] is True
        refused = await send(client, conversation, "2b", cwd="/no/such/folder")
        assert refused["isError"] is True
        model.release()
        await stream.until("task_complete")
        await send(client, conversation, "3")
        await stream.until("task_complete", 2)
        assert [request["model"] for request in model.requests] == ["mock-model", "mock-model", "m2"]
        assert users_in(model.requests[2]) == ["1", "2", "3"]


async def test_a_secret_in_the_choices_reaches_the_provider_and_not_the_log(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    secret = "sk-very-secret-0123456789abcdef"
    headers = {"model_providers.mock.http_headers": {"X-Api-Key": secret}}
    async with scene([say("a"), say("b")], tmp_path, home=home) as (model, client):
        conversation = await create(client, prompt="1", config=headers)
        stream = Stream(client, conversation)
        await stream.until("task_complete")
        await send(client, conversation, "2")
        await stream.until("task_complete", 2)
        assert [request.headers.get("x-api-key") for request in model.received] == [secret, secret]
        assert secret not in client.stderr
    for path in home.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path


@pytest.mark.slow
async def test_a_conversation_is_put_away_and_brought_back(tmp_path: Path) -> None:
    async with ScriptedModel([say("hello"), say("still here")]) as model, McpProcess(model.url, cwd=tmp_path) as client:
        first = await client.call_tool("codex", prompt="hi")
        thread = thread_of(first)

        async def ids(**arguments: Any) -> list[str]:
            page = structured(await client.call_tool("conversationsList", **arguments))
            return [row["conversation_id"] for row in page["conversations"]]

        assert structured(await client.call_tool("conversationArchive", conversation_id=thread)) == {"status": "ok"}
        assert (await ids(), await ids(archived=True)) == ([], [thread])
        assert text_of(await client.call_tool("codex-reply", threadId=thread, prompt="and now?")) == "still here"
        assert await ids(archived=True) == [thread], "going on with it does not bring it back"
        assert structured(await client.call_tool("conversationUnarchive", conversation_id=thread)) == {"status": "ok"}
        assert (await ids(), await ids(archived=True)) == ([thread], [])
        refused = await client.call_tool("conversationArchive", conversation_id=NOBODY)
        assert refused["isError"] is True
        assert "Session does not exist" in text_of(refused)
