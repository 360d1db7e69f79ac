"""`conversationStream`: all that happened, then what happens, each event once; on, off, taken over, and with questions."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import kinds, scene, thread_of
from tests.e2e.talking import Stream, create, listed, send
from tests.store.records import append, new_id, noticed, open_log, opened
from understudy.testing import HOLD, call, cut_after, deltas, say

ASKING = {"approval_policy": "untrusted", "sandbox_mode": "danger-full-access"}
DELTA = "agent_message_delta"


def told(*texts: str) -> list[dict[str, Any]]:
    """The events of finished turns that said these things."""
    return [
        {"msg": msg}
        for text in texts
        for msg in (
            {"type": "task_started"},
            {"type": "agent_message", "message": text},
            {"type": "task_complete", "last_agent_message": text},
        )
    ]


async def test_connect_then_send_receives_initial_state_and_notifications(tmp_path: Path) -> None:
    async with scene([say("Done")], tmp_path) as (_, client):
        conversation = await create(client)
        stream = Stream(client, conversation)
        assert await stream.call == {"content": [{"text": "{}", "type": "text"}], "isError": False, "structuredContent": {}}
        snapshot = await client.next_notification("notifications/initial_state")
        assert snapshot["params"] == {"_meta": {"conversationId": conversation}, "initial_state": {"events": []}}
        await send(client, conversation, "Hello")
        message = await client.next_notification("agent_message")
        assert message == {
            "jsonrpc": "2.0",
            "method": "agent_message",
            "params": {"msg": {"type": "agent_message", "message": "Done"}},
        }
        await stream.until("task_complete")
        assert [event for event in stream.events() if event["msg"]["type"] != DELTA] == told("Done")
        order = [frame for frame in client.frames[stream.began :] if frame.get("method") != "agent_message_delta"]
        assert [frame.get("method", "response") for frame in order] == [
            "response",
            "notifications/initial_state",
            "response",
            "task_started",
            "agent_message",
            "task_complete",
        ]


async def test_send_then_connect_receives_initial_state_with_message(tmp_path: Path) -> None:
    async with scene([say("Done")], tmp_path) as (_, client):
        conversation = await create(client, prompt="Hello")
        stream = Stream(client, conversation)
        await stream.until("task_complete")
        assert [event for event in stream.events() if event["msg"]["type"] != DELTA] == told("Done")
        assert await Stream(client, conversation).snapshot() == told("Done")


@pytest.mark.slow
async def test_cancel_stream_then_reconnect_catches_up_initial_state(tmp_path: Path) -> None:
    async with scene([say("Done 1"), say("Done 2")], tmp_path) as (_, client):
        conversation = await create(client)
        first = Stream(client, conversation)
        await send(client, conversation, "M1")
        await first.until("task_complete")
        await first.cancel()
        await send(client, conversation, "M2")
        seen = len(client.frames)
        while (await listed(client))[0]["status"] != "idle":
            pass
        assert [frame for frame in client.frames[seen:] if "method" in frame] == [], "nothing comes to a stream that is off"
        second = Stream(client, conversation)
        assert await second.snapshot() == told("Done 1", "Done 2")


async def test_who_comes_in_the_middle_of_an_answer_gets_what_was_said_of_it_once(tmp_path: Path) -> None:
    script = [
        call("shell", command=["sh", "-c", "echo begun; until [ -e go ]; do sleep 0.02; done"]),
        deltas(["Hel", "lo", HOLD, "!"]),
    ]
    async with scene(script, tmp_path) as (model, client):
        conversation = await create(client, prompt="go")
        early = Stream(client, conversation)
        await early.until("exec_command_output_delta")
        late = Stream(client, conversation, after=0)
        snapshot = [event["msg"] for event in await late.snapshot()]
        assert snapshot[-1] == {
            "type": "exec_command_output_delta",
            "call_id": "call1",
            "stream": "stdout",
            "chunk": list(b"begun\n"),
        }
        (tmp_path / "go").touch()
        await late.until(DELTA, 2)
        later = Stream(client, conversation)
        snapshot = [event["msg"] for event in await later.snapshot()]
        assert snapshot[-1] == {"type": DELTA, "delta": "Hello"}
        assert kinds(snapshot) == ["task_started", "exec_command_begin", "exec_command_end", DELTA], "finished output is folded"
        model.release()
        await later.until("task_complete")
        assert [event["msg"] for event in later.live()] == [
            {"type": DELTA, "delta": "!"},
            {"type": "agent_message", "message": "Hello!"},
            {"type": "task_complete", "last_agent_message": "Hello!"},
        ]


async def test_with_after_every_event_says_where_it_stands(tmp_path: Path) -> None:
    async with scene([say("one"), say("two")], tmp_path) as (_, client):
        conversation = await create(client)
        live = Stream(client, conversation, after=0)
        first = (await send(client, conversation, "M1"))["_meta"]["messageId"]
        await live.until("task_complete")
        second = (await send(client, conversation, "M2"))["_meta"]["messageId"]
        await live.until("task_complete", 2)
        events = [event for event in live.events() if event["msg"]["type"] != DELTA]
        assert kinds([event["msg"] for event in events]) == [
            "session_configured",
            "user_message",
            "task_started",
            "agent_message",
            "task_complete",
            "user_message",
            "task_started",
            "agent_message",
            "task_complete",
        ]
        assert [event["_meta"].get("messageId") for event in events] == [None, *[first] * 4, *[second] * 4]
        assert {event["_meta"]["conversationId"] for event in events} == {conversation}
        numbers = [event["_meta"]["seq"] for event in events]
        assert numbers == sorted(numbers)
        assert events[1]["msg"] == {"type": "user_message", "message": "M1", "message_id": first, "images": []}

        again = Stream(client, conversation, after=0)
        assert await again.snapshot() == events
        for cut in {0, *numbers, numbers[-1] + 5}:
            tail = Stream(client, conversation, after=cut)
            await tail.call
            frames = client.frames[tail.began :]
            assert await tail.snapshot() == [event for event in events if event["_meta"]["seq"] > cut], cut
            assert [frame["method"] for frame in frames if "method" in frame] == [
                "notifications/stream_disconnected",
                "notifications/initial_state",
            ] or len(frames) < 3


async def test_live_deltas_carry_the_number_of_the_record_before_them(tmp_path: Path) -> None:
    async with scene([deltas(["a", "b", HOLD, "c"])], tmp_path) as (model, client):
        conversation = await create(client, prompt="go")
        stream = Stream(client, conversation, after=0)
        await stream.until(DELTA)
        model.release()
        await stream.until("task_complete")
        numbers = [event["_meta"]["seq"] for event in stream.events()]
        assert numbers == sorted(numbers)
        marks = [event["_meta"]["seq"] for event in stream.events() if event["msg"]["type"] == DELTA]
        message = next(event["_meta"]["seq"] for event in stream.events() if event["msg"]["type"] == "agent_message")
        assert set(marks) == {message - 1}


async def test_a_second_stream_takes_over_and_the_first_is_told(tmp_path: Path) -> None:
    async with scene([deltas(["x", HOLD, "y"])], tmp_path) as (model, client):
        conversation, other = await create(client, prompt="go"), await create(client)
        bystander = Stream(client, other)
        first = Stream(client, conversation)
        await first.until(DELTA)
        second = Stream(client, conversation)
        await second.snapshot()
        frames = client.frames[second.began :]
        assert frames[0] == {
            "jsonrpc": "2.0",
            "method": "notifications/stream_disconnected",
            "params": {
                "_meta": {"conversationId": conversation, "requestId": first.call.id},
                "reason": "New stream() took over",
            },
        }
        assert [frame.get("id", frame.get("method")) for frame in frames[1:3]] == [second.call.id, "notifications/initial_state"]
        await first.cancel()  # of no effect: it is over
        model.release()
        await second.until("task_complete")
        assert kinds([event["msg"] for event in second.live()]) == [DELTA, "agent_message", "task_complete"], "once, not twice"
        assert await bystander.snapshot() == []


async def test_the_same_request_id_as_another_kind_is_not_the_stream(tmp_path: Path) -> None:
    async with scene([say("ok")], tmp_path) as (_, client):
        conversation = await create(client)
        stream = Stream(client, conversation)
        await stream.snapshot()
        await client.notify("notifications/cancelled", {"requestId": str(stream.call.id)})
        await send(client, conversation, "go")
        await stream.until("task_complete")


async def test_a_question_is_held_until_someone_streams_and_comes_after_the_snapshot_once(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made"]), say("done")]
    async with scene(script, tmp_path, config=ASKING) as (model, client):
        made = client.call_tool("conversationCreate", prompt="go")
        conversation = (await made)["structuredContent"]["conversation_id"]
        await model.outcome(1)
        while (await listed(client))[0]["status"] != "waiting":
            pass
        assert not [frame for frame in client.frames if frame.get("method") == "elicitation/create"]
        stream = Stream(client, conversation)
        question = await client.next_request("elicitation/create")
        assert kinds([event["msg"] for event in await stream.snapshot()]) == ["task_started", "exec_approval_request"]
        assert client.frames.index(question) > next(
            n for n, frame in enumerate(client.frames) if frame.get("method") == "notifications/initial_state"
        )
        params = question["params"]
        assert params["codex_mcp_tool_call_id"] == str(made.id)
        assert (params["codex_call_id"], params["codex_event_id"], params["threadId"]) == ("call1", "1", conversation)
        await stream.cancel()
        again = Stream(client, conversation)
        await again.snapshot()
        assert await client.request("ping") == {}
        asked = [frame for frame in client.frames if frame.get("method") == "elicitation/create"]
        assert asked == [question], "it is still open under its own id"
        await client.respond(question, {"decision": "approved"})
        await again.until("task_complete")
        assert (tmp_path / "made").exists()


async def test_a_question_answered_by_the_tool_is_withdrawn(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made"]), say("done"), call("shell", command=["touch", "more"]), say("done")]
    async with scene(script, tmp_path, config=ASKING) as (_, client):
        conversation = await create(client, prompt="go")
        stream = Stream(client, conversation)
        question = await client.next_request("elicitation/create")
        arguments = {"conversation_id": conversation, "call_id": "call1", "decision": "denied"}
        await client.call_tool("conversationApprove", arguments)
        await stream.until("task_complete")
        withdrawn = client.notifications("notifications/cancelled")
        assert [frame["params"]["requestId"] for frame in withdrawn] == [question["id"]]
        await client.respond(question, {"decision": "approved"})  # too late
        await send(client, conversation, "again")
        second = await client.next_request("elicitation/create")
        await client.respond(second, {"decision": "approved"})
        await stream.until("task_complete", 2)
        assert not (tmp_path / "made").exists()
        assert (tmp_path / "more").exists()


@pytest.mark.slow
async def test_a_question_answered_while_nobody_streamed_does_not_stand_in_the_way_of_the_next(tmp_path: Path) -> None:
    """The model gives its calls the same id again and again."""
    script = [call("shell", command=["touch", "made"]), say("done"), call("shell", command=["touch", "more"]), say("done")]
    async with scene(script, tmp_path, config=ASKING) as (_, client):
        conversation = await create(client, prompt="go")
        stream = Stream(client, conversation)
        await client.next_request("elicitation/create")
        await stream.cancel()
        arguments = {"conversation_id": conversation, "call_id": "call1", "decision": "denied"}
        await client.call_tool("conversationApprove", arguments)
        again = Stream(client, conversation)
        await again.until("task_complete")
        await send(client, conversation, "again")
        second = await client.next_request("elicitation/create")
        await client.respond(second, {"decision": "approved"})
        await again.until("task_complete", 2)
        assert (tmp_path / "more").exists()


@pytest.mark.slow
async def test_two_conversations_with_the_same_call_id_are_asked_apart(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "one"]), call("shell", command=["touch", "two"]), say("done"), say("done")]
    async with scene(script, tmp_path, config=ASKING) as (model, client):
        one = await create(client, prompt="one")
        await model.outcome(1)
        two = await create(client, prompt="two")
        streams = [Stream(client, one), Stream(client, two)]
        questions = [await client.next_request("elicitation/create") for _ in streams]
        by_thread = {question["params"]["threadId"]: question for question in questions}
        assert set(by_thread) == {one, two}
        await client.respond(by_thread[two], {"decision": "denied"})
        await streams[1].client.wait_for_frame(
            lambda _: "task_complete" in [event["msg"]["type"] for event in streams[1].events()], "the end of one turn"
        )
        assert client.notifications("notifications/cancelled") == [], "the other question stands"
        await client.respond(by_thread[one], {"decision": "approved"})
        await client.wait_for_frame(lambda _: (tmp_path / "one").exists(), "the approved command")
        assert not (tmp_path / "two").exists()
        for stream in streams:
            await stream.cancel()
        for conversation in (one, two):
            await Stream(client, conversation).until("task_complete")


async def test_a_call_and_a_stream_on_one_connection_each_get_their_own_copy(tmp_path: Path) -> None:
    async with scene([say("one"), say("two")], tmp_path) as (_, client):
        thread = thread_of(await client.call_tool("codex", prompt="one"))
        stream = Stream(client, thread, after=0)
        await stream.snapshot()
        reply = client.call_tool("codex-reply", threadId=thread, prompt="two")
        await reply
        await stream.until("task_complete", 2)
        assert kinds(client.events(reply), DELTA) == ["task_started", "agent_message", "task_complete"]
        assert kinds([event["msg"] for event in stream.live()], DELTA) == [
            "user_message",
            "task_started",
            "agent_message",
            "task_complete",
        ]


@pytest.mark.slow
async def test_what_was_said_of_a_cut_answer_is_told_to_late_viewers_too(tmp_path: Path) -> None:
    async with scene([deltas(["half an ", "ans", HOLD]), cut_after(deltas(["half ", "again"]))], tmp_path) as (_, client):
        conversation = await create(client, prompt="1")
        stream = Stream(client, conversation)
        await stream.until(DELTA)
        if len([kind for kind in stream.kinds() if kind == DELTA]) < 2:
            await client.wait_for_frame(lambda _: "ans" in str(stream.messages()), "the second piece")
        await client.call_tool("conversationInterrupt", conversation_id=conversation)
        await stream.until("task_complete")
        await send(client, conversation, "2")
        await stream.until("task_complete", 2)
        late = Stream(client, conversation, after=0)
        snapshot = await late.snapshot()
        assert [event["msg"]["delta"] for event in snapshot if event["msg"]["type"] == DELTA] == ["half an ans", "half again"]
        numbers = [event["_meta"]["seq"] for event in snapshot]
        assert numbers == sorted(numbers)


async def test_a_stream_ends_with_a_word_when_its_conversation_is_deleted(tmp_path: Path) -> None:
    async with scene([], tmp_path) as (_, client):
        conversation = await create(client)
        stream = Stream(client, conversation)
        await stream.snapshot()
        await client.call_tool("conversationDelete", conversation_id=conversation)
        gone = await client.next_notification("notifications/stream_disconnected")
        assert gone["params"]["_meta"] == {"conversationId": conversation, "requestId": stream.call.id}
        assert "deleted" in gone["params"]["reason"]


@pytest.mark.slow
async def test_a_conversation_of_five_thousand_events_is_told_whole_and_its_tail_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    count = 5000
    log = open_log(home / "understudy")
    name = new_id()
    await append(log, opened(name))
    await append(log, noticed(name, 1, 2, count=count))
    log.close()
    async with scene([say("and more")], tmp_path, home=home) as (_, client):
        snapshot = await Stream(client, name).snapshot()
        assert [event["msg"]["message"] for event in snapshot] == [f"note {n}" for n in range(2, count + 2)]
        tail = Stream(client, name, after=count - 2)
        assert [event["_meta"]["seq"] for event in await tail.snapshot()] == [count - 1, count, count + 1]
        await send(client, name, "go on")
        await tail.until("task_complete")
        numbers = [event["_meta"]["seq"] for event in tail.events()]
        assert numbers == sorted(numbers)
