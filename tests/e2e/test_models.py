"""What the real program sends to models of each kind, over whole turns."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import scene, text_of, thread_of
from understudy.testing import McpProcess, ScriptedModel, say

PATCH = "*** Begin Patch\n*** Add File: made.txt\n+by the grammar\n*** End Patch\n"


def streamed(*items: dict[str, Any]) -> dict[str, Any]:
    """An answer on the Responses wire with these items."""
    done = [{"type": "response.output_item.done", "item": item} for item in items]
    return {"events": [*done, {"type": "response.completed", "response": {"id": "resp_1"}}]}


async def test_without_any_configuration_openai_is_asked_where_the_environment_says(tmp_path: Path) -> None:
    async with ScriptedModel([say("x")]) as model:
        env = {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "sk-of-the-environment"}
        async with McpProcess(cwd=tmp_path, env=env) as client:
            assert text_of(await client.call_tool("codex", prompt="go")) == "x"
    [request] = model.received
    assert (request.path, request.body["model"]) == ("/v1/responses", "gpt-6.1-sol")
    assert request.headers["authorization"] == "Bearer sk-of-the-environment"


async def test_anthropic_is_asked_by_name(tmp_path: Path) -> None:
    async with ScriptedModel([say("x")]) as model:
        env = {"ANTHROPIC_BASE_URL": model.url.removesuffix("/v1"), "ANTHROPIC_API_KEY": "sk-ant-of-the-environment"}
        async with McpProcess(cwd=tmp_path, env=env, config={"model_provider": "anthropic"}) as client:
            assert text_of(await client.call_tool("codex", prompt="go")) == "x"
    [request] = model.received
    assert (request.path, request.body["model"]) == ("/v1/messages", "claude-sonnet-5-5")
    assert (request.headers["x-api-key"], request.headers["anthropic-version"]) == (env["ANTHROPIC_API_KEY"], "2023-06-01")


async def test_encrypted_reasoning_is_carried_through_the_turn_and_the_next_one(tmp_path: Path) -> None:
    thought: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ENC-1"}
    command = {"type": "function_call", "id": "fc_1", "call_id": "call1", "name": "shell", "arguments": '{"command":["true"]}'}
    script = [streamed(thought, command), say("done"), say("again")]
    async with scene(script, tmp_path, wire="responses") as (model, client):
        first = await client.call_tool("codex", prompt="go")
        await client.call_tool("codex-reply", prompt="more", sessionId=thread_of(first))
    for body in model.requests:
        assert (body["store"], body["include"]) == (False, ["reasoning.encrypted_content"])
    sent = [[item.get("encrypted_content") for item in body["input"] if item["type"] == "reasoning"] for body in model.requests]
    assert sent == [[], ["ENC-1"], ["ENC-1"]]
    kinds = [item["type"] for item in model.requests[1]["input"][-3:]]
    assert kinds == ["reasoning", "function_call", "function_call_output"]


@pytest.mark.slow
async def test_with_storage_allowed_nothing_encrypted_is_asked_for(tmp_path: Path) -> None:
    async with scene([say("x")], tmp_path, wire="responses", config={"disable_response_storage": False}) as (model, client):
        await client.call_tool("codex", prompt="go")
    assert (model.requests[0]["store"], model.requests[0]["include"]) == (True, [])


@pytest.mark.slow
async def test_the_tokens_of_a_turn_that_failed_are_counted(tmp_path: Path) -> None:
    details = {"incomplete_details": {"reason": "max_output_tokens"}, "usage": {"input_tokens": 40, "output_tokens": 2}}
    script = [{"events": [{"type": "response.incomplete", "response": details}]}]
    async with scene(script, tmp_path, wire="responses") as (_, client):
        asked = client.call_tool("codex", prompt="go")
        assert (await asked)["isError"] is True
        [counted] = [event for event in client.events(asked) if event["type"] == "token_count"]
    assert (counted["input_tokens"], counted["output_tokens"]) == (40, 2)


@pytest.mark.quick(1)
@pytest.mark.parametrize("model_name", ["gpt-5.5", "gpt-6.1-sol"])
async def test_a_patch_written_as_free_text_is_applied_and_answered_in_kind(tmp_path: Path, model_name: str) -> None:
    custom = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call1", "name": "apply_patch", "input": PATCH}
    async with scene([streamed(custom), say("done")], tmp_path, wire="responses") as (model, client):
        result = await client.call_tool("codex", prompt="go", model=model_name, cwd=str(tmp_path))
    assert text_of(result) == "done"
    assert (tmp_path / "made.txt").read_text() == "by the grammar\n"
    [offered] = [tool for tool in model.requests[0]["tools"] if tool["name"] == "apply_patch"]
    assert (offered["type"], offered["format"]["type"], offered["format"]["syntax"]) == ("custom", "grammar", "lark")
    call, output = model.requests[1]["input"][-2:]
    assert (call["type"], call["input"]) == ("custom_tool_call", PATCH)
    assert (output["type"], "Success" in output["output"]) == ("custom_tool_call_output", True)
