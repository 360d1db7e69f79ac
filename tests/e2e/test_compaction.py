"""A context that gets full: what goes, what stays, who is told, and what a failure on the way costs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.contexts import begins_like, shown, texts
from tests.e2e.scenes import kinds, scene, text_of, thread_of
from understudy.testing import call, cut_after, say, status

WIRES = pytest.mark.parametrize("wire", ["chat", "responses", "anthropic"])
ASK = "Sum it up in our words."
LIMIT = {"model_auto_compact_token_limit": 4000, "compact_prompt": ASK}
FULL = status(400, {"error": {"message": "too long", "code": "context_length_exceeded", "type": "invalid_request_error"}})


def echo(text: str, call_id: str) -> Any:
    return call("shell", command=["echo", text], call_id=call_id)


def printing(size: int, call_id: str) -> Any:
    return call("shell", command=["sh", "-c", f"head -c {size} /dev/zero | tr '\\0' {call_id[-1]}"], call_id=call_id)


def counted(answer: Any, tokens: int) -> Any:
    return replace(answer, usage=(tokens - 5, 5))


@pytest.mark.quick(1)
@WIRES
async def test_a_turn_begins_with_a_summary_when_the_last_one_reached_the_limit(tmp_path: Path, wire: str) -> None:
    script = [say("first answer", usage=(3995, 5)), say("SUMMARY", usage=(4100, 10)), say("second answer", usage=(90, 10))]
    async with scene(script, tmp_path, wire=wire, config=LIMIT) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="first prompt"))
        reply = client.call_tool("codex-reply", threadId=thread, prompt="second prompt")
        assert text_of(await reply) == "second answer"
        first, asked, last = model.requests
        assert shown(asked) == [("user", "first prompt"), ("assistant", "first answer"), ("user", ASK)]
        assert (asked.get("tools") or []) == [] or asked["tool_choice"] == {"type": "none"}
        (_, note), *rest = shown(last)
        assert note.endswith("SUMMARY")
        assert rest == [("user", "first prompt"), ("assistant", "first answer"), ("user", "second prompt")]
        assert last["tools"] == first["tools"]
        told = kinds(client.events(reply), "agent_message_delta")
        assert told == ["task_started", "token_count", "background_event", "agent_message", "token_count", "task_complete"]
        [notice] = [event["message"] for event in client.events(reply) if event["type"] == "background_event"]
        assert notice.startswith("context compacted: the model summed up what was before (4000 tokens before, about ")


@pytest.mark.slow
@WIRES
async def test_one_token_below_the_limit_nothing_is_summed_up(tmp_path: Path, wire: str) -> None:
    script = [say("first answer", usage=(3994, 5)), say("second answer", usage=(3994, 5))]
    async with scene(script, tmp_path, wire=wire, config=LIMIT) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="first prompt"))
        await client.call_tool("codex-reply", threadId=thread, prompt="second prompt")
        assert begins_like(model.requests[1], model.requests[0])


@pytest.mark.slow
async def test_the_limit_is_nine_tenths_of_the_window_that_is_configured(tmp_path: Path) -> None:
    script = [say("1", usage=(8990, 5)), say("2", usage=(8995, 5)), say("SUMMARY"), say("3")]
    async with scene(script, tmp_path, config={"model_context_window": 10_000}) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="a"))
        for prompt in ("b", "c"):
            await client.call_tool("codex-reply", threadId=thread, prompt=prompt)
        assert "tools" in model.requests[1]
        assert "tools" not in model.requests[2]
        assert "SUMMARY" in texts(model.requests[3])


@pytest.mark.slow
@WIRES
async def test_in_the_middle_of_a_turn_the_last_calls_stay_with_their_outputs(tmp_path: Path, wire: str) -> None:
    script = [counted(echo("hi", "call1"), 9005), say("SUMMARY", usage=(10, 5)), say("done", usage=(10, 5))]
    async with scene(script, tmp_path, wire=wire, config=LIMIT) as (model, client):
        turn = client.call_tool("codex", prompt="go")
        assert text_of(await turn) == "done"
        _, asked, last = model.requests
        assert [who for who, _ in shown(asked)] == ["user", "call", "output", "user"]
        assert [who for who, _ in shown(last)] == ["user", "user", "call", "output"]
        assert shown(last)[1:] == shown(asked)[:-1]
        assert "background_event" in kinds(client.events(turn))


@pytest.mark.slow
@WIRES
async def test_where_old_outputs_are_enough_they_go_and_no_summary_is_asked_for(tmp_path: Path, wire: str) -> None:
    script = [
        counted(printing(9000, "call1"), 3000),
        say("one", usage=(5300, 5)),
        say("two", usage=(9100, 5)),
        say("three", usage=(3000, 5)),
    ]
    config = {"model_auto_compact_token_limit": 9000}
    async with scene(script, tmp_path, wire=wire, config=config) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="print a lot"))
        await client.call_tool("codex-reply", threadId=thread, prompt="and now?")
        reply = client.call_tool("codex-reply", threadId=thread, prompt="go on")
        assert text_of(await reply) == "three"
        before, after = shown(model.requests[2]), shown(model.requests[3])
        assert "1" * 1000 in before[2][1]
        assert "was left out to make room" in after[2][1]
        assert len(after[2][1]) < 100
        assert [*after[:2], *after[3:]] == [*before[:2], *before[3:], ("assistant", "two"), ("user", "go on")]
        [notice] = [event["message"] for event in client.events(reply) if event["type"] == "background_event"]
        assert notice.startswith("context compacted: old outputs are no longer sent (9105 tokens before, about ")


@pytest.mark.slow
@WIRES
async def test_a_context_that_the_provider_calls_full_is_summed_up_once_and_asked_again(tmp_path: Path, wire: str) -> None:
    script = [say("one"), say("two"), FULL, say("SUMMARY"), say("three")]
    config = {"compact_prompt": ASK}
    async with scene(script, tmp_path, wire=wire, config=config) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="the goal"))
        await client.call_tool("codex-reply", threadId=thread, prompt="x" * 60_000)
        assert text_of(await client.call_tool("codex-reply", threadId=thread, prompt="three?")) == "three"
        asked, last = shown(model.requests[3]), shown(model.requests[4])
        assert asked[-1] == ("user", ASK)
        assert last[0] == ("user", "the goal")
        assert last[-1] == ("user", "three?")
        assert "SUMMARY" in texts(model.requests[4])
        assert len(texts(model.requests[4])) < 40_000


@pytest.mark.slow
async def test_a_context_that_stays_full_fails_the_turn_and_not_the_conversation(tmp_path: Path) -> None:
    script = [say("one"), say("two"), FULL, say("SUMMARY"), FULL, say("four")]
    async with scene(script, tmp_path) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="the goal"))
        await client.call_tool("codex-reply", threadId=thread, prompt="x" * 60_000)
        failed = await client.call_tool("codex-reply", threadId=thread, prompt="three?")
        assert failed["isError"]
        assert "context_length_exceeded" in text_of(failed)
        assert text_of(await client.call_tool("codex-reply", threadId=thread, prompt="four?")) == "four"
        assert [text for who, text in shown(model.requests[5]) if who == "user"][-2:] == ["three?", "four?"]


@pytest.mark.slow
async def test_a_prompt_too_long_for_any_context_fails_and_the_next_one_is_answered(tmp_path: Path) -> None:
    huge = "y" * 300_000
    script = [FULL, FULL, say("SUMMARY"), say("fine")]
    async with scene(script, tmp_path) as (model, client):
        first = await client.call_tool("codex", prompt=huge)
        assert first["isError"]
        told, hint = text_of(first).split("\n")
        assert "context_length_exceeded" in told
        assert "about 75008 tokens of messages" in hint
        assert "Send a shorter message" in hint
        thread = thread_of(first)
        assert text_of(await client.call_tool("codex-reply", threadId=thread, prompt="shorter")) == "fine"
        assert shown(model.requests[0])[0] == ("user", huge)
        last = shown(model.requests[3])
        assert last[-1] == ("user", "shorter")
        assert len(texts(model.requests[3])) < 100_000
        assert "were left out to make room" in texts(model.requests[3])


@pytest.mark.slow
async def test_a_window_too_small_for_instructions_and_tools_is_told_so(tmp_path: Path) -> None:
    async with scene([FULL], tmp_path) as (_, client):
        assert "Choose a model with a larger context window" in text_of(await client.call_tool("codex", prompt="hello"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "failure",
    [status(500, "no"), status(400, "no"), cut_after(say("SUMM")), say("")],
    ids=["down", "refused", "cut", "empty"],
)
async def test_a_summary_that_fails_leaves_the_turn_and_its_prompt_as_they_are(tmp_path: Path, failure: Any) -> None:
    script = [say("first answer", usage=(5000, 5)), failure, say("second answer", usage=(5100, 5)), say("SUMMARY"), say("third")]
    async with scene(script, tmp_path, config=LIMIT) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="first prompt"))
        reply = client.call_tool("codex-reply", threadId=thread, prompt="second prompt")
        assert text_of(await reply) == "second answer"
        [notice] = [event["message"] for event in client.events(reply) if event["type"] == "background_event"]
        assert notice.startswith("the conversation could not be summed up: ")
        assert notice.endswith("; it goes on as it is")
        assert begins_like(model.requests[2], model.requests[0])
        assert shown(model.requests[2])[-1] == ("user", "second prompt")
        assert text_of(await client.call_tool("codex-reply", threadId=thread, prompt="third prompt")) == "third"
        assert "SUMMARY" in texts(model.requests[4])


async def test_a_full_context_that_cannot_be_summed_up_goes_on_without_its_oldest_part(tmp_path: Path) -> None:
    script = [say("one"), say("two"), FULL, status(500, "down"), say("three")]
    async with scene(script, tmp_path) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="the goal"))
        await client.call_tool("codex-reply", threadId=thread, prompt="x" * 60_000)
        assert text_of(await client.call_tool("codex-reply", threadId=thread, prompt="three?")) == "three"
        last = shown(model.requests[4])
        assert (last[0], last[-1]) == (("user", "the goal"), ("user", "three?"))
        assert "could not be summed up" in texts(model.requests[4])


@pytest.mark.slow
async def test_plan_and_changed_files_outlive_a_summary_that_forgets_them(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Add File: made.txt\n+x\n*** End Patch"
    plan = call("update_plan", plan=[{"step": "make it", "status": "in_progress"}], call_id="p1")
    script = [
        plan + call("apply_patch", input=patch, call_id="p2"),
        say("made", usage=(5000, 5)),
        say("SUMMARY"),
        say("and on"),
    ]
    async with scene(script, tmp_path, config=LIMIT) as (model, client):
        thread = thread_of(await client.call_tool("codex", {"prompt": "make a file", "include-plan-tool": True}))
        await client.call_tool("codex-reply", threadId=thread, prompt="and then?")
        note = next(text for _, text in shown(model.requests[3]) if "SUMMARY" in text)
        assert "- [in_progress] make it" in note
        assert "made.txt" in note


@pytest.mark.slow
async def test_modern_events_of_a_compaction_come_in_the_recorded_order(tmp_path: Path) -> None:
    script = [say("first answer", usage=(5000, 5)), say("SUMMARY", usage=(6000, 5)), say("second answer", usage=(100, 5))]
    config = LIMIT | {"understudy.wire": "modern"}
    async with scene(script, tmp_path, config=config) as (_, client):
        thread = thread_of(await client.call_tool("codex", prompt="first prompt"))
        reply = client.call_tool("codex-reply", threadId=thread, prompt="second prompt")
        await reply
        events = client.events(reply)
        wanted = [
            "task_started",
            "token_count",
            "token_count",
            "context_compacted",
            "agent_message",
            "token_count",
            "task_complete",
        ]
        assert kinds(events, "agent_message_content_delta") == wanted
        spent, left, last = [event["info"] for event in events if event["type"] == "token_count"]
        assert (spent["total_token_usage"]["total_tokens"], spent["last_token_usage"]["total_tokens"]) == (11_010, 6005)
        assert left["total_token_usage"] == spent["total_token_usage"]
        assert left["last_token_usage"]["input_tokens"] == 0 < left["last_token_usage"]["total_tokens"]
        assert last["total_token_usage"]["total_tokens"] == 11_115


@pytest.mark.slow
async def test_a_second_summary_is_made_from_the_first_and_the_goal_stays(tmp_path: Path) -> None:
    script: list[Any] = []
    for number in range(1, 6):
        script += [say(f"answer {number} " + "a" * 3000, usage=(6000, 5)), say(f"SUMMARY {number}")]
    script[-1] = say("the end")
    async with scene(script[:-1], tmp_path, config=LIMIT) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="the goal " + "g" * 2000))
        for number in range(2, 6):
            await client.call_tool("codex-reply", threadId=thread, prompt=f"prompt {number} " + "p" * 3000)
        for number, request in enumerate(model.requests[3::2], start=1):
            assert f"SUMMARY {number}" in texts(request)  # the model that sums up again has the last summary before it
        last = shown(model.requests[-1])
        assert last[0][1].startswith("the goal ")
        assert "SUMMARY 4" in texts(model.requests[-1])
        assert "SUMMARY 3" not in texts(model.requests[-1])
        assert json.dumps(model.requests[-1]).count("answer 1 ") == 0


FAILED_STREAM: dict[str, list[dict[str, Any]]] = {
    "responses": [
        {"type": "response.created", "response": {"id": "resp_1"}},
        {
            "type": "response.failed",
            "response": {"id": "resp_1", "error": {"code": "context_length_exceeded", "message": "too long"}},
        },
    ],
    "chat": [{"error": {"code": "context_length_exceeded", "message": "too long"}}],
    "anthropic": [
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": {"input_tokens": 9}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "three"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "model_context_window_exceeded"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ],
}


@pytest.mark.quick(1)
@WIRES
async def test_a_stream_that_says_the_context_is_full_is_asked_again_after_a_summary(tmp_path: Path, wire: str) -> None:
    script = [say("one"), say("two"), {"events": FAILED_STREAM[wire]}, say("SUMMARY"), say("three and more")]
    async with scene(script, tmp_path, wire=wire) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="the goal"))
        await client.call_tool("codex-reply", threadId=thread, prompt="x" * 60_000)
        reply = client.call_tool("codex-reply", threadId=thread, prompt="three?")
        assert text_of(await reply) == "three and more"
        assert "SUMMARY" in texts(model.requests[4])
        assert ("user", "three?") in shown(model.requests[4])
