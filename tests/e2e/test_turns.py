"""A turn from prompt to answer: events in both schemas, their order, what the model is sent, and the result."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import answered, failed, kinds, scene, session_of, text_of, thread_of, told_to_model, users_in
from understudy.testing import HOLD, call, cut_after, deltas, reasoning, say, status

WIRES = pytest.mark.parametrize("wire", ["chat", "responses"])


async def test_a_plain_turn_says_everything_twice_and_then_answers(tmp_path: Path) -> None:
    async with scene([say("Enjoy!", usage=(7, 3))], tmp_path) as (model, client):
        before = len(client.frames)
        call_ = client.call_tool("codex", prompt="hello", model="other-model")
        result = await call_
        thread = thread_of(result)
        assert result == answered("Enjoy!", thread)

        meta = {"requestId": call_.id, "threadId": thread}
        events: list[tuple[str, dict[str, Any]]] = [
            (
                "0",
                {
                    "type": "session_configured",
                    "session_id": thread,
                    "model": "other-model",
                    "history_log_id": 0,
                    "history_entry_count": 0,
                },
            ),
            ("1", {"type": "task_started"}),
            ("1", {"type": "agent_message_delta", "delta": "Enjoy!"}),
            ("1", {"type": "agent_message", "message": "Enjoy!"}),
            (
                "1",
                {
                    "type": "token_count",
                    "input_tokens": 7,
                    "cached_input_tokens": None,
                    "output_tokens": 3,
                    "reasoning_output_tokens": None,
                    "total_tokens": 10,
                },
            ),
            ("1", {"type": "task_complete", "last_agent_message": "Enjoy!"}),
        ]
        expected = [
            {"jsonrpc": "2.0", "method": method, "params": {"_meta": meta, "id": turn, "msg": msg}}
            for turn, msg in events
            for method in ("codex/event", msg["type"])
        ]
        assert client.frames[before:] == [*expected, {"id": call_.id, "jsonrpc": "2.0", "result": result}]

        [request] = model.requests
        assert (request["model"], request["stream"]) == ("other-model", True)
        assert users_in(request) == ["hello"]


@WIRES
async def test_text_and_reasoning_are_passed_on_as_they_come(tmp_path: Path, wire: str) -> None:
    answer = reasoning("Thinking it over.") + deltas(["Hel", "lo, ", HOLD, "wörld"], usage=(5, 2))
    config = {"show_raw_agent_reasoning": True}
    async with scene([answer], tmp_path, wire=wire, config=config) as (model, client):
        call_ = client.call_tool("codex", prompt="hi")
        await client.event("agent_message_delta", call_, 2)  # while the model still speaks
        assert not call_.done
        model.release()
        assert text_of(await call_) == "Hello, wörld"
        events = client.events(call_)
        said = [event["delta"] for event in events if event["type"] == "agent_message_delta"]
        assert said == ["Hel", "lo, ", "wörld"]
        thought = "agent_reasoning" if wire == "responses" else "agent_reasoning_raw_content"
        assert kinds(events) == [
            "session_configured",
            "task_started",
            f"{thought}_delta",
            thought,
            "agent_message_delta",
            "agent_message_delta",
            "agent_message_delta",
            "agent_message",
            "token_count",
            "task_complete",
        ]


@WIRES
async def test_a_command_runs_and_the_model_is_told(tmp_path: Path, wire: str) -> None:
    script = [call("shell", command=["sh", "-c", "echo out; echo err >&2; exit 3"]), say("done")]
    async with scene(script, tmp_path, wire=wire) as (model, client):
        call_ = client.call_tool("codex", prompt="run it")
        assert text_of(await call_) == "done"
        events = client.events(call_)
        assert kinds(events, "exec_command_output_delta", "token_count", "agent_message_delta") == [
            "session_configured",
            "task_started",
            "exec_command_begin",
            "exec_command_end",
            "agent_message",
            "task_complete",
        ]
        begin = next(event for event in events if event["type"] == "exec_command_begin")
        assert (begin["call_id"], begin["cwd"]) == ("call1", str(tmp_path))
        printed = {"stdout": b"", "stderr": b""}
        for event in events:
            if event["type"] == "exec_command_output_delta":
                printed[event["stream"]] += bytes(event["chunk"])
        assert printed == {"stdout": b"out\n", "stderr": b"err\n"}
        end = next(event for event in events if event["type"] == "exec_command_end")
        assert (end["stdout"], end["stderr"], end["exit_code"]) == ("out\n", "err\n", 3)
        if wire == "chat":
            told = json.loads(told_to_model(model.requests[1]))
        else:
            [output] = [item for item in model.requests[1]["input"] if item["type"] == "function_call_output"]
            told = json.loads(output["output"])
        assert sorted(told["output"].splitlines()) == ["err", "out"], "both streams"
        assert told["metadata"]["exit_code"] == 3


async def test_several_calls_of_one_answer_run_in_their_order(tmp_path: Path) -> None:
    both = say("Two things.") + call("shell", call_id="a", command=["sh", "-c", "echo 1 >> log"])
    both += call("shell", call_id="b", command=["sh", "-c", "echo 2 >> log"])
    async with scene([both, say("done")], tmp_path) as (model, client):
        call_ = client.call_tool("codex", prompt="both")
        assert text_of(await call_) == "done"
        assert (tmp_path / "log").read_text() == "1\n2\n"
        order = [(event["type"], event.get("call_id")) for event in client.events(call_)]
        steps = [("agent_message", None), ("exec_command_begin", "a"), ("exec_command_end", "a"), ("exec_command_begin", "b")]
        places = [order.index(step) for step in steps]
        assert places == sorted(places), "text before the calls, calls in order"
        assert told_to_model(model.requests[1], "a")
        assert told_to_model(model.requests[1], "b")


UNUSABLE = [
    (call("frobnicate", x=1), "unsupported call: frobnicate"),
    (call("shell", arguments_text="{"), "failed to parse function arguments: EOF while parsing an object at line 1 column 1"),
    (
        call("shell", command="ls"),
        'failed to parse function arguments: invalid type: string "ls", expected a sequence at line 1 column 16',
    ),
    (call("shell", command=[]), "execution error: command args are empty"),
    (call("update_plan", plan="x"), 'failed to parse function arguments: invalid type: string "x", expected a sequence'),
    (call("apply_patch", input="nonsense"), "error: "),
]


async def test_a_tool_that_cannot_be_used_so_is_told_to_the_model(tmp_path: Path) -> None:
    script = [step for asked, _ in UNUSABLE for step in (asked, say("I see"))]
    async with scene(script, tmp_path) as (model, client):
        for number, (_, told) in enumerate(UNUSABLE):
            assert text_of(await client.call_tool("codex", prompt="go")) == "I see"
            assert told_to_model(model.requests[2 * number + 1]).startswith(told)


async def test_a_program_that_is_not_there_is_told_to_the_model(tmp_path: Path) -> None:
    async with scene([call("shell", command=["no-such-program"]), say("I see")], tmp_path) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        assert text_of(await call_) == "I see"
        assert "no-such-program" in told_to_model(model.requests[1]) or "No such file" in told_to_model(model.requests[1])
        assert "exec_command_end" in kinds(client.events(call_))


async def test_a_patch_and_a_plan_are_shown(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch"
    plan = call("update_plan", call_id="p", explanation="so", plan=[{"step": "Look", "status": "in_progress"}])
    async with scene([plan, call("apply_patch", input=patch), say("done")], tmp_path) as (model, client):
        call_ = client.call_tool("codex", {"prompt": "go", "include-plan-tool": True})
        await call_
        assert (tmp_path / "new.txt").read_text() == "hello\n"
        events = client.events(call_)
        assert {"type": "plan_update", "explanation": "so", "plan": [{"step": "Look", "status": "in_progress"}]} in events
        assert told_to_model(model.requests[1], "p") == "Plan updated"
        begin = next(event for event in events if event["type"] == "patch_apply_begin")
        assert begin["changes"] == {str(tmp_path / "new.txt"): {"add": {"content": "hello\n"}}}
        assert begin["auto_approved"] is True
        assert "turn_diff" in kinds(events)
        assert json.loads(told_to_model(model.requests[2]))["metadata"]["exit_code"] == 0


async def test_the_next_message_goes_on_with_all_that_was_said(tmp_path: Path) -> None:
    script = [call("shell", command=["echo", "hi"]), say("first"), say("second"), say("third")]
    async with scene(script, tmp_path) as (model, client):
        first = await client.call_tool("codex", prompt="one")
        thread = thread_of(first)
        reply = client.call_tool("codex-reply", threadId=thread, prompt="two")
        assert await reply == answered("second", thread)
        assert kinds(client.events(reply), "agent_message_delta") == ["task_started", "agent_message", "task_complete"]
        ids = {frame["params"]["id"] for frame in client.notifications("codex/event") if frame["params"]["_meta"]["requestId"] == 2}
        assert ids == {"2"}
        again = await client.call_tool("codex-reply", sessionId=thread.upper(), prompt="three")
        assert again == answered("third", thread)
        roles = [message["role"] for message in model.requests[3]["messages"]]
        assert roles[-7:] == ["user", "assistant", "tool", "assistant", "user", "assistant", "user"]
        assert users_in(model.requests[3]) == ["one", "two", "three"]
        said = [message.get("content") for message in model.requests[3]["messages"] if message["role"] == "assistant"]
        assert [text for text in said if text] == ["first", "second"], "each answer once"


async def test_base_instructions_replace_ours_and_developer_instructions_are_added(tmp_path: Path) -> None:
    async with scene([say("ok")], tmp_path) as (model, client):
        arguments = {"prompt": "hi", "base-instructions": "You are a test.", "developer-instructions": "Be brief."}
        await client.call_tool("codex", arguments)
        messages = model.requests[0]["messages"]
        assert messages[0]["role"] == "system"
        assert messages[0]["content"].startswith("You are a test.")
        assert any("Be brief." in str(message["content"]) for message in messages[1:])


async def test_a_failed_turn_is_an_error_then_its_end_then_the_answer_and_the_session_goes_on(tmp_path: Path) -> None:
    refused = status(400, {"error": {"message": "no such model"}})
    async with scene([refused, cut_after(deltas(["half of"])), say("better")], tmp_path) as (model, client):
        call_ = client.call_tool("codex", prompt="one")
        result = await call_
        thread = thread_of(result)
        message = text_of(result)
        assert result == failed(message, thread)
        assert "400" in message
        assert "no such model" in message, "the provider's own words"
        assert client.events(call_)[-2:] == [
            {"type": "error", "message": message},
            {"type": "task_complete", "last_agent_message": None},
        ]
        cut = client.call_tool("codex-reply", threadId=thread, prompt="two")
        assert "stream disconnected before completion" in text_of(await cut)
        assert kinds(client.events(cut))[-2:] == ["error", "task_complete"]
        assert await client.call_tool("codex-reply", threadId=thread, prompt="three") == answered("better", thread)
        assert users_in(model.requests[2]) == ["one", "two", "three"], "what was said stays said"


async def test_a_cut_stream_is_asked_again_and_shows_nothing_twice(tmp_path: Path) -> None:
    script = [cut_after(deltas(["Hel", "lo"])), deltas(["Hell", "o, wor", "ld"])]
    async with scene(script, tmp_path, config={"model_providers.mock.stream_max_retries": 2}) as (_, client):
        call_ = client.call_tool("codex", prompt="hi")
        assert text_of(await call_) == "Hello, world"
        events = client.events(call_)
        assert "".join(event["delta"] for event in events if event["type"] == "agent_message_delta") == "Hello, world"
        [notice] = [event["message"] for event in events if event["type"] == "background_event"]
        assert notice.startswith("stream error: stream disconnected before completion: ")
        assert "retrying 1/2 in " in notice


@pytest.mark.slow
async def test_a_retry_that_goes_another_way_says_so_and_gives_the_whole_text(tmp_path: Path) -> None:
    script = [cut_after(deltas(["Hel"])), deltas(["Good ", "day"])]
    async with scene(script, tmp_path, config={"model_providers.mock.stream_max_retries": 1}) as (_, client):
        call_ = client.call_tool("codex", prompt="hi")
        assert text_of(await call_) == "Good day"
        events = client.events(call_)
        assert [event["delta"] for event in events if event["type"] == "agent_message_delta"] == ["Hel"]
        assert [event["message"] for event in events if event["type"] == "agent_message"] == ["Good day"]
        assert len([event for event in events if event["type"] == "background_event"]) == 2


async def test_a_retry_never_runs_a_command_again(tmp_path: Path) -> None:
    ran = call("shell", call_id="a", command=["sh", "-c", "echo x >> log"])
    responses_cut = cut_after(ran)
    config = {"model_providers.mock.stream_max_retries": 1}
    async with scene([responses_cut, say("done")], tmp_path, wire="responses", config=config) as (model, client):
        assert text_of(await client.call_tool("codex", prompt="go")) == "done"
        assert (tmp_path / "log").read_text() == "x\n"
        sent = [item["type"] for item in model.requests[1]["input"]]
        assert sent.count("function_call") == 1
        assert sent.count("function_call_output") == 1, "the retry carries the call and its outcome"


@pytest.mark.slow
async def test_a_model_server_killed_in_mid_stream_fails_the_call_and_the_next_one_works(tmp_path: Path) -> None:
    from understudy.testing import McpProcess, ScriptedModel

    async with ScriptedModel([say("alive")]) as second:
        first = ScriptedModel([deltas(["some ", HOLD])])
        async with first.serving(), McpProcess(first.url, cwd=tmp_path) as client:
            call_ = client.call_tool("codex", prompt="hi")
            await client.event("agent_message_delta", call_)
            await first.kill()
            result = await call_
            assert result["isError"] is True
            assert kinds(client.events(call_))[-2:] == ["error", "task_complete"]
            dead = await client.call_tool("codex-reply", threadId=thread_of(result), prompt="still there?")
            assert dead["isError"] is True
            alive = await client.call_tool("codex", prompt="hi", config={"model_providers.mock.base_url": second.url})
            assert text_of(alive) == "alive"


async def test_two_sessions_run_at_once_and_keep_their_events_apart(tmp_path: Path) -> None:
    script = [deltas(["a", HOLD, "A"]), deltas(["b", HOLD, "B"])]
    async with scene(script, tmp_path) as (model, client):
        one = client.call_tool("codex", prompt="one")
        await client.event("agent_message_delta", one)
        two = client.request("tools/call", {"name": "codex", "arguments": {"prompt": "two"}}, request_id=str(one.id))
        await client.event("agent_message_delta", two)
        assert await client.request("ping") == {}
        model.release()
        assert text_of(await one) == "aA"
        assert text_of(await two) == "bB"
        assert await session_of(client, one) != await session_of(client, two)
        for frame in client.notifications("codex/event"):
            meta = frame["params"]["_meta"]
            assert meta["threadId"] == (await session_of(client, one if meta["requestId"] == one.id else two))


@pytest.mark.parametrize(
    ("setting", "methods"), [("both", {"codex/event", "task_started"}), ("codex/event", {"codex/event"}), ("none", set[str]())]
)
async def test_the_user_chooses_under_which_methods_events_come(tmp_path: Path, setting: str, methods: set[str]) -> None:
    async with scene([say("ok")], tmp_path, config={"understudy.events": setting}) as (_, client):
        assert text_of(await client.call_tool("codex", prompt="hi")) == "ok"
        seen = {frame["method"] for frame in client.frames if "method" in frame}
        assert {method for method in seen if method in ("codex/event", "task_started")} == methods


async def test_a_caller_that_wants_progress_gets_a_word_for_every_step(tmp_path: Path) -> None:
    script = [call("shell", command=["echo", "hi"]), say("all done")]
    async with scene(script, tmp_path, config={"understudy.events": "none"}) as (_, client):
        running = client.call_tool("codex", prompt="go", meta={"progressToken": "tok"})
        thread = (await running)["structuredContent"]["threadId"]
        steps = [frame["params"] for frame in client.notifications("notifications/progress")]
        assert [step["message"] for step in steps] == [
            f"asking the model (thread {thread})",
            "runs echo hi",
            "command ended with exit code 0",
            "asking the model",
            "all done",
        ]
        assert [step["progress"] for step in steps] == [1, 2, 3, 4, 5]
        assert {step["progressToken"] for step in steps} == {"tok"}
        before = len(client.frames)
        await client.request("ping")
        assert len(client.frames) == before + 1, "nothing more is said of a call that is over"


async def test_each_session_is_told_the_project_s_words_as_they_are_when_it_begins(tmp_path: Path) -> None:
    async with scene([say("one"), say("two"), say("three")], tmp_path) as (model, client):
        words = tmp_path / "AGENTS.md"
        for text in ("Use tabs.", "Use spaces."):
            words.write_text(text)
            await client.call_tool("codex", prompt="hello")
        words.unlink()
        await client.call_tool("codex", prompt="hello")
        told = [json.dumps(request) for request in model.requests]
        assert [("Use tabs." in one, "Use spaces." in one) for one in told] == [(True, False), (False, True), (False, False)]
