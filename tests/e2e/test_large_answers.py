"""Answers of a model that are too large, too many or broken: the server stays small and awake, says why, and goes on."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import answered, scene, text_of, thread_of
from understudy.testing import McpProcess, Step, call, deltas, say

WIRES = pytest.mark.parametrize("wire", ["chat", "responses"])
MIB = 1024 * 1024
MOST_MEMORY = 160 * MIB  # for an answer of 4 MiB, which is in a dozen places at once for a moment
FLUSH = 0.0  # a pause of no length: what was said so far goes out


def most_memory(client: McpProcess) -> int:
    """The most that the server ever held, in bytes."""
    status = Path(f"/proc/{client.process.pid}/status").read_text()
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")))


def recorded(steps: Iterable[Step]) -> dict[str, Any]:
    return {"events": list(steps)}


def text_events(wire: str, piece: str, count: int) -> Iterable[Step]:
    event: dict[str, Any] = (
        {"choices": [{"index": 0, "delta": {"content": piece}}]}
        if wire == "chat"
        else {"type": "response.output_text.delta", "delta": piece}
    )
    for number in range(count):
        yield event
        if number * len(piece) % MIB < len(piece):
            yield FLUSH


def argument_events(piece: str, count: int) -> Iterable[Step]:
    first = {"index": 0, "id": "c", "function": {"name": "shell", "arguments": '{"command": ["'}}
    yield {"choices": [{"index": 0, "delta": {"tool_calls": [first]}}]}
    for _ in range(count):
        more = {"index": 0, "function": {"arguments": piece}}
        yield {"choices": [{"index": 0, "delta": {"tool_calls": [more]}}]}
        yield FLUSH


async def ping_until_done(client: McpProcess, call_: Any) -> int:
    """How many pings were answered while the call went on."""
    count = 0
    while not call_.done:
        await client.request("ping")
        count += 1
    return count


@pytest.mark.slow
@WIRES
async def test_a_text_without_end_ends_the_turn_and_memory_stays_bounded(tmp_path: Path, wire: str) -> None:
    endless = recorded(text_events(wire, "x" * 65536, 150 * MIB // 65536))
    async with scene([endless, say("short")], tmp_path, wire=wire) as (model, client):
        call_ = client.call_tool("codex", prompt="write")
        assert await ping_until_done(client, call_) > 1
        result = await call_
        assert result["isError"]
        assert "the model's answer is too large: more than 4 MiB of text in one answer" in text_of(result)
        assert most_memory(client) < MOST_MEMORY
        assert text_of(await client.call_tool("codex-reply", threadId=thread_of(result), prompt="go on")) == "short"
        assert len(json.dumps(model.requests[1])) < 2 * MIB  # of the text that was refused, the model is sent the beginning


@pytest.mark.slow
async def test_arguments_without_end_end_the_turn_and_memory_stays_bounded(tmp_path: Path) -> None:
    endless = recorded(argument_events("x" * 262144, 120 * MIB // 262144))
    async with scene([endless, say("short")], tmp_path) as (_, client):
        call_ = client.call_tool("codex", prompt="call")
        await ping_until_done(client, call_)
        result = await call_
        assert "more than 8 MiB of arguments for tools" in text_of(result)
        assert most_memory(client) < MOST_MEMORY / 3
        assert text_of(await client.call_tool("codex-reply", threadId=thread_of(result), prompt="go on")) == "short"


@pytest.mark.slow
async def test_thousands_of_tool_calls_in_one_answer_do_not_keep_a_ping_waiting(tmp_path: Path) -> None:
    """They come in one event; each is run and answered, in order, with pings answered between them."""
    arguments = json.dumps({"plan": [{"step": "one", "status": "pending"}]})
    calls = [{"index": n, "id": f"c{n}", "function": {"name": "update_plan", "arguments": arguments}} for n in range(5000)]
    event = {"choices": [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}]}
    async with scene([recorded([event]), say("done")], tmp_path, config={"include_plan_tool": True}) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        await ping_until_done(client, call_)
        assert text_of(await call_) == "done"
        frames = ["plan" if frame.get("method") == "plan_update" else "pong" for frame in client.frames if is_plan_or_pong(frame)]
        during = frames[frames.index("plan") : len(frames) - frames[::-1].index("plan")]
        assert during.count("plan") == 5000
        assert during.count("pong") > 0, "how many is a matter of how fast the client is"
        outputs = [one["tool_call_id"] for one in model.requests[1]["messages"] if one["role"] == "tool"]
        assert outputs == [f"c{n}" for n in range(5000)]


def is_plan_or_pong(frame: dict[str, Any]) -> bool:
    return frame.get("method") == "plan_update" or frame.get("result") == {}


@WIRES
async def test_a_character_cut_in_two_arrives_whole_everywhere(tmp_path: Path, wire: str) -> None:
    smile = "\U0001f600"
    first, second = "\ud83d", "\ude00"
    script = [deltas([f"a{first}", f"{second}b"]) + call("none", arguments_text=f'{{"x": "{first}{second}"}}'), say("end")]
    async with scene(script, tmp_path, wire=wire) as (model, client):
        call_ = client.call_tool("codex", prompt="smile")
        assert text_of(await call_) == "end"
        events = client.events(call_)
        said = "".join(event["delta"] for event in events if event["type"] == "agent_message_delta")
        assert said == f"a{smile}bend"
        assert [event["message"] for event in events if event["type"] == "agent_message"] == [f"a{smile}b", "end"]
        assert f"a{smile}b" in json.dumps(model.requests[1], ensure_ascii=False)
        assert f'\\"{smile}\\"' in json.dumps(model.requests[1], ensure_ascii=False)


@pytest.mark.quick(1)
@pytest.mark.parametrize("odd", [9 * 10**4299, -7, 1e300, "12", None], ids=lambda odd: str(odd)[:5])
async def test_odd_token_counts_do_not_keep_an_answer_from_being_given(tmp_path: Path, odd: Any) -> None:
    usage = {"prompt_tokens": odd, "completion_tokens": odd, "total_tokens": odd}
    answer = recorded([{"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}], "usage": usage}])
    async with scene([answer, answer], tmp_path) as (_, client):
        result = await client.call_tool("codex", prompt="go")
        assert result == answered("hi", thread_of(result))
        assert text_of(await client.call_tool("codex-reply", threadId=thread_of(result), prompt="go on")) == "hi"
