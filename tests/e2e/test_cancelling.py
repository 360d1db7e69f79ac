"""Cancelling at every moment, and messages that come while a turn runs."""

import json
from pathlib import Path

import pytest

from tests.e2e.scenes import answered, failed, is_alive, kinds, scene, session_of, text_of, thread_of, told_to_model, users_in
from tests.e2e.talking import Stream
from understudy.testing import HOLD, call, deltas, hang, say

ASKING = {"approval_policy": "untrusted", "sandbox_mode": "danger-full-access"}
SLEEPER = "sleep 60 & echo $! > child; echo started; wait"


async def test_cancelling_while_the_model_is_asked_or_speaks(tmp_path: Path) -> None:
    script = [hang(), deltas(["half an ", "ans", HOLD]), say("here")]
    async with scene(script, tmp_path) as (model, client):
        first = client.call_tool("codex", prompt="one")
        await model.next_request(1)
        await client.cancel(first)
        result = await first
        thread = thread_of(result)
        assert result == failed("Turn interrupted", thread)
        assert await model.outcome(1) == "dropped", "the model is not kept working"
        second = client.call_tool("codex-reply", threadId=thread, prompt="two")
        await client.event("agent_message_delta", second, 2)
        await client.cancel(second)
        assert await second == failed("Turn interrupted", thread)
        assert await model.outcome(2) == "dropped"
        assert client.events(second)[-2:] == [
            {"type": "error", "message": "Turn interrupted"},
            {"type": "task_complete", "last_agent_message": None},
        ]
        assert await client.call_tool("codex-reply", threadId=thread, prompt="three") == answered("here", thread)
        assert users_in(model.requests[2]) == ["one", "two", "three"]
        said = [message["content"] for message in model.requests[2]["messages"] if message["role"] == "assistant"]
        assert said == ["half an ans"], "what was shown stays in the history"


@pytest.mark.quick(1)
@pytest.mark.parametrize("mode", ["danger-full-access", "workspace-write"])
async def test_cancelling_a_command_ends_it_with_its_children_and_keeps_what_it_said(tmp_path: Path, mode: str) -> None:
    script = [call("shell", command=["sh", "-c", SLEEPER], timeout=100_000), say("I see")]
    async with scene(script, tmp_path, config={"sandbox_mode": mode}) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        await client.event("exec_command_output_delta", call_)
        await client.cancel(call_)
        result = await call_
        thread = thread_of(result)
        assert result == failed("Turn interrupted", thread)
        if mode == "danger-full-access":
            assert not is_alive(int((tmp_path / "child").read_text()))
        assert kinds(client.events(call_), "exec_command_output_delta") == [
            "session_configured",
            "task_started",
            "exec_command_begin",
            "exec_command_end",
            "error",
            "task_complete",
        ]
        end = next(event for event in client.events(call_) if event["type"] == "exec_command_end")
        assert end["stdout"] == "started\n"
        assert await client.call_tool("codex-reply", threadId=thread, prompt="and?") == answered("I see", thread)
        told = json.loads(told_to_model(model.requests[1]))
        assert "started" in told["output"]
        assert "interrupted" in told["output"]


async def test_cancelling_while_a_question_is_open_withdraws_it(tmp_path: Path) -> None:
    async with scene([call("shell", command=["touch", "made"]), say("ok")], tmp_path, config=ASKING) as (_, client):
        call_ = client.call_tool("codex", prompt="go")
        question = await client.next_request("elicitation/create")
        await client.cancel(call_)
        result = await call_
        assert text_of(result) == "Turn interrupted"
        [withdrawn] = client.notifications("notifications/cancelled")
        assert withdrawn["params"]["requestId"] == question["id"]
        await client.respond(question, {"decision": "approved"})  # too late
        assert text_of(await client.call_tool("codex-reply", threadId=thread_of(result), prompt="x")) == "ok"
        assert not (tmp_path / "made").exists()


@pytest.mark.slow
async def test_cancels_that_mean_nothing_change_nothing(tmp_path: Path) -> None:
    async with scene([say("one"), deltas(["x", HOLD])], tmp_path) as (model, client):
        finished = client.call_tool("codex", prompt="one")
        thread = thread_of(await finished)
        await client.notify("notifications/cancelled", {"requestId": 12345})
        await client.notify("notifications/cancelled", {"requestId": "nobody"})
        running = client.call_tool("codex-reply", threadId=thread, prompt="two")
        await client.event("agent_message_delta", running)
        await client.cancel(finished)
        await client.notify("notifications/cancelled", {"requestId": str(running.id)})  # another id, for it is a string
        assert await client.request("ping") == {}
        model.release()
        assert await running == answered("x", thread)
        answers = [frame for frame in client.frames if frame.get("id") == running.id and "result" in frame]
        assert len(answers) == 1


@pytest.mark.slow
async def test_cancelling_twice_is_cancelling_once(tmp_path: Path) -> None:
    script = [call("shell", command=["sh", "-c", SLEEPER], timeout=100_000), say("ok")]
    async with scene(script, tmp_path) as (_, client):
        call_ = client.call_tool("codex", prompt="go")
        await client.event("exec_command_output_delta", call_)
        for _ in range(3):
            await client.cancel(call_)
        result = await call_
        assert not is_alive(int((tmp_path / "child").read_text()))
        assert kinds(client.events(call_)).count("error") == 1
        assert text_of(await client.call_tool("codex-reply", threadId=thread_of(result), prompt="x")) == "ok"


async def test_a_cancel_that_comes_with_the_call_ends_it(tmp_path: Path) -> None:
    """Both are in one write: the turn has not made its first step."""
    async with scene([], tmp_path) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        await client.cancel(call_)
        result = await call_
        assert text_of(result) == "Turn interrupted"
        assert model.requests == []
        assert kinds(client.events(call_)) == ["session_configured", "task_started", "error", "task_complete"]


async def test_ids_may_be_strings_and_are_given_back_as_they_came(tmp_path: Path) -> None:
    async with scene([hang(), say("ok")], tmp_path) as (model, client):
        call_ = client.request("tools/call", {"name": "codex", "arguments": {"prompt": "x"}}, request_id="req-ä")
        await model.next_request(1)
        await client.notify("notifications/cancelled", {"requestId": "req-ä"})
        result = await call_
        assert text_of(result) == "Turn interrupted"
        [meta] = {json.dumps(frame["params"]["_meta"]["requestId"]) for frame in client.notifications("codex/event")}
        assert json.loads(meta) == "req-ä"
        reply = {"name": "codex-reply", "arguments": {"threadId": thread_of(result), "prompt": "y"}}
        assert text_of(await client.request("tools/call", reply, request_id="0")) == "ok"


async def test_a_reply_while_a_turn_runs_joins_it_and_both_are_answered(tmp_path: Path) -> None:
    async with scene([deltas(["first", HOLD]), say("second")], tmp_path) as (model, client):
        one = client.call_tool("codex", prompt="one")
        await client.event("agent_message_delta", one)
        thread = await session_of(client, one)
        two = client.call_tool("codex-reply", threadId=thread, prompt="two")
        assert await client.request("ping") == {}
        model.release()
        assert await one == answered("second", thread)
        assert await two == answered("second", thread)
        assert users_in(model.requests[1]) == ["one", "two"], "once"
        assert client.events(two) == [], "the events go to the call that began the turn"
        assert kinds(client.events(one), "agent_message_delta") == [
            "session_configured",
            "task_started",
            "agent_message",
            "agent_message",
            "task_complete",
        ]


@pytest.mark.slow
async def test_a_reply_while_a_command_runs_is_read_with_its_outcome(tmp_path: Path) -> None:
    script = [call("shell", command=["sh", "-c", "echo started; until [ -e go ]; do sleep 0.02; done"]), say("both")]
    async with scene(script, tmp_path) as (model, client):
        one = client.call_tool("codex", prompt="one")
        await client.event("exec_command_output_delta", one)
        thread = await session_of(client, one)
        two = client.call_tool("codex-reply", threadId=thread, prompt="two")
        assert await client.request("ping") == {}
        (tmp_path / "go").touch()
        assert await one == await two == answered("both", thread)
        roles = [message["role"] for message in model.requests[1]["messages"]]
        assert roles[-3:] in (["assistant", "tool", "user"], ["user", "assistant", "tool"])
        assert users_in(model.requests[1]) == ["one", "two"]


async def test_cancelling_a_call_that_joined_only_detaches_it(tmp_path: Path) -> None:
    async with scene([deltas(["first", HOLD]), say("second")], tmp_path) as (model, client):
        one = client.call_tool("codex", prompt="one")
        await client.event("agent_message_delta", one)
        thread = await session_of(client, one)
        two = client.call_tool("codex-reply", threadId=thread, prompt="two")
        await client.cancel(two)
        detached = await two
        assert detached["isError"] is True
        assert not one.done
        model.release()
        assert await one == answered("second", thread)
        assert users_in(model.requests[1]) == ["one", "two"], "what was accepted is read all the same"


@pytest.mark.slow
async def test_cancelling_the_call_that_began_the_turn_answers_those_that_joined(tmp_path: Path) -> None:
    async with scene([hang(), say("later")], tmp_path) as (model, client):
        one = client.call_tool("codex", prompt="one")
        await model.next_request(1)
        thread = await session_of(client, one)
        two = client.call_tool("codex-reply", threadId=thread, prompt="two")
        assert await client.request("ping") == {}
        await client.cancel(one)
        assert await one == await two == failed("Turn interrupted", thread)
        assert await client.call_tool("codex-reply", threadId=thread, prompt="three") == answered("later", thread)
        assert users_in(model.requests[1]) == ["one", "two", "three"], "accepted input goes before the new message"


async def test_a_reply_after_a_failure_or_an_interrupt_works(tmp_path: Path) -> None:
    """Three times round: the session is as good as new each time."""
    script = [hang(), say("1"), hang(), say("2"), hang(), say("3")]
    async with scene(script, tmp_path) as (model, client):
        first = client.call_tool("codex", prompt="begin")
        await model.next_request(1)
        await client.cancel(first)
        thread = thread_of(await first)
        assert await client.call_tool("codex-reply", threadId=thread, prompt="a") == answered("1", thread)
        for number in (2, 3):
            call_ = client.call_tool("codex-reply", threadId=thread, prompt="b")
            await model.next_request(2 * number - 1)
            await client.cancel(call_)
            assert await call_ == failed("Turn interrupted", thread)
            assert await client.call_tool("codex-reply", threadId=thread, prompt="c") == answered(str(number), thread)


@pytest.mark.slow
async def test_nothing_follows_the_end_of_a_turn_that_is_cancelled_in_full_flow(tmp_path: Path) -> None:
    turns = 25
    flow = deltas([piece for number in range(200) for piece in (f"word {number} ", 0.0005)])
    async with scene([say("hello"), *[flow] * turns, say("bye")], tmp_path) as (_, client):
        thread = thread_of(await client.call_tool("codex", prompt="begin"))
        stream = Stream(client, thread, after=0)
        await stream.snapshot()
        for number in range(turns):
            call_ = client.call_tool("codex-reply", threadId=thread, prompt=str(number))
            await client.event("agent_message_delta", call_, 1 + number)
            await client.cancel(call_)
            assert await call_ == failed("Turn interrupted", thread)
        assert await client.call_tool("codex-reply", threadId=thread, prompt="end") == answered("bye", thread)
        await stream.until("task_complete", turns + 2)
        told = [event["msg"]["type"] for event in stream.live()]
        of_turns = [part.split() for part in " ".join(told).split("task_started")[1:]]
        assert len(of_turns) == turns + 1
        for events in of_turns:
            assert events[events.index("task_complete") + 1 :] in ([], ["user_message"]), "only the next message comes after it"
