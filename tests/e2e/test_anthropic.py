"""The whole program on the Anthropic wire, against a server that Anthropic's own client takes for the real one."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.scenes import kinds, scene, text_of, thread_of
from understudy.testing import McpProcess, ScriptedModel, call, cut_after, deltas, reasoning, say, status
from understudy.testing.script import Wire

if TYPE_CHECKING:
    import anthropic

OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
CLAUDE = {"model": "claude-sonnet-5-5"}


def client_of(model: ScriptedModel) -> "anthropic.AsyncAnthropic":
    import anthropic  # takes seconds: only the process that runs these tests shall pay for it

    return anthropic.AsyncAnthropic(base_url=model.url.removesuffix("/v1"), api_key="k", max_retries=0, timeout=60)


REQUEST: dict[str, Any] = {"model": "claude-sonnet-5-5", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.slow
async def test_the_official_client_reads_the_scripted_server() -> None:
    script = [reasoning("hm") + deltas(["Hel", "lo"], usage=(7, 3)) + call("shell", command=["ls"])]
    async with ScriptedModel(script) as model, client_of(model) as client, client.messages.stream(**REQUEST) as stream:
        text = "".join([piece async for piece in stream.text_stream])
        message = await stream.get_final_message()
    assert text == "Hello"
    thought, said, called = message.content
    assert (thought.type, said.type, called.type) == ("thinking", "text", "tool_use")
    assert thought.type == "thinking"
    assert (thought.thinking, thought.signature) == ("hm", "signature-0")
    assert called.type == "tool_use"
    assert called.input == {"command": ["ls"]}
    assert (message.stop_reason, message.usage.input_tokens, message.usage.output_tokens) == ("tool_use", 7, 3)


@pytest.mark.slow
async def test_the_official_client_is_told_of_overload_by_the_scripted_server() -> None:
    import anthropic

    async with ScriptedModel([status(529, OVERLOADED)]) as model, client_of(model) as client:
        with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
            async with client.messages.stream(**REQUEST):
                pass


async def test_a_turn_with_thinking_and_tools_carries_the_signature_back(tmp_path: Path) -> None:
    script = [reasoning("I look") + call("shell", command=["echo", "seen"]), say("done", usage=(70, 30)), say("again")]
    async with scene(script, tmp_path, wire="anthropic", config=CLAUDE) as (model, client):
        asked = client.call_tool("codex", prompt="go")
        first = await asked
        assert text_of(first) == "done"
        assert "agent_reasoning" in kinds(client.events(asked))
        [counted] = [event for event in client.events(asked) if event["type"] == "token_count" and event["input_tokens"] == 70]
        assert counted["output_tokens"] == 30
        second = await client.call_tool("codex-reply", prompt="more", sessionId=thread_of(first))
        assert text_of(second) == "again"
    assert {request.path for request in model.received} == {"/v1/messages"}
    one, two, three = model.requests
    thought, used = two["messages"][1]["content"]
    assert thought == {"type": "thinking", "thinking": "I look", "signature": "signature-0"}
    assert (used["type"], used["input"]) == ("tool_use", {"command": ["echo", "seen"]})
    [result] = two["messages"][2]["content"]
    assert (result["type"], result["tool_use_id"], "seen" in result["content"]) == ("tool_result", used["id"], True)
    assert two["messages"][: len(one["messages"])] == one["messages"]
    assert three["messages"][: len(two["messages"])] == two["messages"]
    assert [turn["role"] for turn in three["messages"]] == ["user", "assistant", "user", "assistant", "user"]


async def test_calls_of_one_answer_run_and_come_back_together(tmp_path: Path) -> None:
    both = call("shell", call_id="one", command=["echo", "1"]) + call("shell", call_id="two", command=["echo", "2"])
    async with scene([both, say("done")], tmp_path, wire="anthropic", config=CLAUDE) as (model, client):
        assert text_of(await client.call_tool("codex", prompt="go")) == "done"
    said, answered = model.requests[1]["messages"][-2:]
    assert [part["id"] for part in said["content"]] == ["one", "two"]
    assert [part["tool_use_id"] for part in answered["content"]] == ["one", "two"]


@pytest.mark.slow
async def test_a_stream_that_breaks_off_is_asked_for_again(tmp_path: Path) -> None:
    overloaded = status(
        529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, {"retry-after": "0"}
    )
    script = [overloaded, cut_after(say("half")), say("whole")]
    retries = {"model_providers.mock.request_max_retries": 1, "model_providers.mock.stream_max_retries": 1}
    async with scene(script, tmp_path, wire="anthropic", config=CLAUDE | retries) as (model, client):
        assert text_of(await client.call_tool("codex", prompt="go")) == "whole"
    assert len(model.requests) == 3


async def test_a_full_context_is_told_in_the_providers_words(tmp_path: Path) -> None:
    words = "prompt is too long: 210000 tokens > 200000 maximum"
    full = status(400, {"type": "error", "error": {"type": "invalid_request_error", "message": words}})
    async with scene([full], tmp_path, wire="anthropic", config=CLAUDE) as (_, client):
        result = await client.call_tool("codex", prompt="go")
    assert result["isError"] is True
    assert words in text_of(result)


@pytest.mark.slow
async def test_a_conversation_goes_on_on_another_wire(tmp_path: Path) -> None:
    """From Anthropic's wire to OpenAI's and back: each is sent what it understands."""
    script = [reasoning("hm") + call("shell", command=["true"]), say("one"), say("two"), say("three")]
    home, thread = tmp_path / "user" / ".codex", ""
    wires: tuple[Wire, ...] = ("anthropic", "responses", "anthropic")
    async with ScriptedModel(script) as model:
        for wire, text in zip(wires, ("one", "two", "three"), strict=True):
            async with McpProcess(model.url, cwd=tmp_path, home=home, wire=wire, config=CLAUDE) as client:
                if thread:
                    result = await client.call_tool("codex-reply", prompt=text, sessionId=thread)
                else:
                    result = await client.call_tool("codex", prompt=text)
                thread = thread_of(result)
                assert text_of(result) == text
    foreign = model.requests[2]["input"]
    assert [item["type"] for item in foreign if item["type"] != "message"] == ["function_call", "function_call_output"]
    assert [item["id"] for item in foreign if item["type"] == "function_call"] == [None]
    assert [turn["role"] for turn in model.requests[3]["messages"]][-1] == "user"
