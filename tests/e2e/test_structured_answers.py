"""Answers in a form that the caller chose: asked of the provider in its own way, checked by us, mended once."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import ANY_REPORT, scene, session_of, text_of, thread_of
from tests.e2e.talking import Stream, create, structured
from understudy.testing import HOLD, McpProcess, ScriptedModel, call, deltas, say, status

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}
STRICT = {"name": "codex_output_schema", "strict": True, "schema": SCHEMA}
GOOD = '{"ok": true}'


@pytest.mark.parametrize("spelled", ["output-schema", "outputSchema", "output_schema"])
@pytest.mark.quick(1)
async def test_the_value_is_in_the_result_and_no_line_about_the_session(tmp_path: Path, spelled: str) -> None:
    async with scene([say(GOOD)], tmp_path) as (model, client):
        result = await client.call_tool("codex", {"prompt": "go", spelled: SCHEMA})
        thread = thread_of(result)
        assert result == {
            "content": [{"text": GOOD, "type": "text"}],
            "structuredContent": {"threadId": thread, "content": GOOD, "output": {"ok": True}, "report": ANY_REPORT},
        }
        assert model.requests[0]["response_format"] == {"type": "json_schema", "json_schema": STRICT}


@pytest.mark.slow
async def test_the_responses_wire_has_its_own_way(tmp_path: Path) -> None:
    async with (
        ScriptedModel([say(GOOD)]) as model,
        McpProcess(model.url, cwd=tmp_path, wire="responses") as client,
    ):
        result = await client.call_tool("codex", {"prompt": "go", "output-schema": SCHEMA})
        assert result["structuredContent"]["output"] == {"ok": True}
        assert model.requests[0]["text"]["format"] == {"type": "json_schema", **STRICT}


@pytest.mark.slow
async def test_the_anthropic_wire_has_its_own_way_and_is_told_in_words_where_it_refuses(tmp_path: Path) -> None:
    refusal = status(400, {"type": "error", "error": {"type": "invalid_request_error", "message": "output_config.format: no"}})
    async with (
        ScriptedModel([say(GOOD), refusal, say(GOOD)]) as model,
        McpProcess(model.url, cwd=tmp_path, wire="anthropic") as client,
    ):
        for schema in (SCHEMA, {**SCHEMA, "title": "refused"}):
            result = await client.call_tool("codex", {"prompt": "go", "output-schema": schema})
            assert result["structuredContent"]["output"] == {"ok": True}
        first, second, third = model.requests
        assert first["output_config"]["format"] == {"type": "json_schema", "schema": SCHEMA}
        assert second["output_config"]["format"]["schema"]["title"] == "refused"
        assert "format" not in third.get("output_config", {})
        assert '"title":"refused"' in third["system"][-1]["text"]


@pytest.mark.slow
async def test_a_schema_holds_for_its_own_call_alone(tmp_path: Path) -> None:
    async with scene([say("plain"), say(GOOD), say("plain again")], tmp_path) as (model, client):
        first = await client.call_tool("codex", prompt="go")
        thread = thread_of(first)
        second = await client.call_tool("codex-reply", {"threadId": thread, "prompt": "as JSON", "output-schema": SCHEMA})
        assert second["structuredContent"]["output"] == {"ok": True}
        third = await client.call_tool("codex-reply", threadId=thread, prompt="in words")
        assert text_of(third) == "plain again"
        assert "output" not in third["structuredContent"]
        assert ["response_format" in request for request in model.requests] == [False, True, False]


@pytest.mark.slow
async def test_the_model_is_told_once_what_is_wrong(tmp_path: Path) -> None:
    script = [say('{"ok": "yes"}'), say('```json\n{"ok": false}\n```')]
    async with scene(script, tmp_path) as (model, client):
        asked = client.call_tool("codex", {"prompt": "go", "output-schema": SCHEMA})
        result = await asked
        assert result["structuredContent"]["output"] == {"ok": False}
        assert text_of(result) == '{"ok": false}'
        told = model.requests[1]["messages"][-1]
        assert told["role"] == "user"
        assert "'yes' is not of type 'boolean'" in told["content"]
        assert any("'yes' is not of type 'boolean'" in str(event) for event in client.events(asked))


@pytest.mark.slow
async def test_a_second_misfit_is_an_honest_failure(tmp_path: Path) -> None:
    async with scene([say("no JSON"), say("still none"), say("well")], tmp_path) as (_, client):
        result = await client.call_tool("codex", {"prompt": "go", "output-schema": SCHEMA})
        assert result["isError"] is True
        assert len(result["content"]) == 1
        assert text_of(result).startswith("the model's answer does not fit the output schema, also after it was told why: ")
        assert "output" not in result["structuredContent"]
        assert result["structuredContent"]["report"] == ANY_REPORT
        after = await client.call_tool("codex-reply", threadId=thread_of(result), prompt="go on")
        assert text_of(after) == "well"


@pytest.mark.slow
async def test_tools_are_used_before_the_answer_has_its_form(tmp_path: Path) -> None:
    script = [call("shell", command=["true"]), say(GOOD)]
    async with scene(script, tmp_path, config={"sandbox_mode": "danger-full-access", "approval_policy": "never"}) as (_, client):
        result = await client.call_tool("codex", {"prompt": "go", "output-schema": SCHEMA, "report": "full"})
        assert result["structuredContent"]["output"] == {"ok": True}
        assert len(result["structuredContent"]["report"]["commands"]) == 1


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ("text", 'invalid type: string "text", expected a map'),
        ({"type": "objekt"}, "'objekt' is not valid"),
        ({"$ref": "https://example.com/schema.json"}, "only references within the schema"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "leads nowhere"),
        ({"$ref": "#"}, "refers to itself without end"),
        ({"pattern": "("}, "is not a 'regex'"),
        ({"enum": ["x" * 300_000]}, "at most 256 KB"),
    ],
)
async def test_a_schema_that_cannot_be_used_is_refused_before_anything_begins(tmp_path: Path, schema: Any, complaint: str) -> None:
    async with scene([], tmp_path) as (_, client):
        result = await client.call_tool("codex", {"prompt": "go", "output-schema": schema})
        assert result["isError"] is True
        assert complaint in text_of(result)
        assert text_of(result).endswith("in `output-schema`")
        assert structured(await client.call_tool("conversationsList")) == {"conversations": []}


@pytest.mark.slow
async def test_a_schema_that_takes_for_ever_stops_the_turn_and_not_the_server(tmp_path: Path) -> None:
    hostile = {"type": "string", "pattern": "^(a+)+$"}
    async with scene([say(json.dumps("a" * 40 + "b"))], tmp_path) as (_, client):
        asked = client.call_tool("codex", {"prompt": "go", "output-schema": hostile})
        await client.event("agent_message", asked)
        assert await client.request("ping") == {}
        result = await asked
        assert result["isError"] is True
        assert "takes too long" in text_of(result)


@pytest.mark.slow
@pytest.mark.parametrize("wire", ["chat", "responses"])
async def test_a_provider_that_refuses_the_form_is_asked_in_another(tmp_path: Path, wire: Any) -> None:
    refusal = status(400, {"error": {"message": "Invalid schema for response_format: strict is not possible"}})
    async with (
        ScriptedModel([refusal, refusal, say(GOOD), say(GOOD)]) as model,
        McpProcess(model.url, cwd=tmp_path, wire=wire) as client,
    ):
        result = await client.call_tool("codex", {"prompt": "go", "output-schema": SCHEMA})
        assert result["structuredContent"]["output"] == {"ok": True}
        strict, lenient, words = model.requests
        if wire == "chat":
            assert [body["response_format"]["json_schema"]["strict"] for body in (strict, lenient)] == [True, False]
            assert "response_format" not in words
        else:
            assert [body["text"]["format"]["strict"] for body in (strict, lenient)] == [True, False]
            assert "text" not in words
        assert json.dumps(SCHEMA, separators=(",", ":")) in json.dumps(words).replace('\\"', '"')
        again = await client.call_tool("codex", {"prompt": "go", "output-schema": SCHEMA})
        assert again["structuredContent"]["output"] == {"ok": True}
        assert len(model.requests) == 4, "what the provider refused is remembered"


@pytest.mark.slow
async def test_of_two_calls_in_one_turn_the_later_schema_holds(tmp_path: Path) -> None:
    other = {"type": "array"}
    async with ScriptedModel([deltas(["{}", HOLD]), say("[1]")]) as model, McpProcess(model.url, cwd=tmp_path) as client:
        first = client.call_tool("codex", {"prompt": "go", "output-schema": SCHEMA})
        thread = await session_of(client, first)
        await client.event("agent_message_delta", first)
        second = client.call_tool("codex-reply", {"threadId": thread, "prompt": "a list", "output-schema": other})
        plain = client.call_tool("codex-reply", threadId=thread, prompt="and this")
        stream = Stream(client, thread, after=0)
        await stream.until("user_message", 3)
        model.release()
        assert (await second)["structuredContent"]["output"] == [1]
        assert text_of(await plain) == "[1]"
        assert (await first)["isError"] is True
        assert "another output schema" in text_of(await first)


@pytest.mark.slow
async def test_it_outlives_the_process_that_took_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    asking = {"approval_policy": "untrusted", "sandbox_mode": "danger-full-access"}
    script = [call("shell", command=["touch", "x"]), say("no JSON"), say(GOOD)]
    async with ScriptedModel(script) as model:
        async with McpProcess(model.url, cwd=tmp_path, home=home, config=asking) as first:
            begun = first.call_tool("codex", {"prompt": "go", "output-schema": SCHEMA})
            thread = await session_of(first, begun)
            await first.next_request("elicitation/create")
            await first.kill()
        async with McpProcess(model.url, cwd=tmp_path, home=home, config=asking) as second:
            resumed = second.call_tool("codex-reply", threadId=thread, prompt="well?")
            await second.respond(await second.next_request("elicitation/create"), {"action": "accept"})
            assert text_of(await resumed) == GOOD
        assert "does not have the form" in model.requests[2]["messages"][-1]["content"]


@pytest.mark.slow
async def test_messages_to_a_conversation_have_it_too(tmp_path: Path) -> None:
    async with scene([say("no"), say(GOOD), say(GOOD)], tmp_path) as (model, client):
        conversation = await create(client, prompt="go", output_schema=SCHEMA)
        stream = Stream(client, conversation)
        await stream.until("task_complete")
        assert [event["message"] for event in stream.messages() if event["type"] == "agent_message"] == ["no", GOOD]
        content = [{"type": "text", "text": "again"}]
        arguments = {"conversation_id": conversation, "content": content, "outputSchema": SCHEMA}
        assert structured(await client.call_tool("conversationSendMessage", arguments)) == {"status": "ok"}
        await stream.until("task_complete", 2)
        assert all("response_format" in request for request in model.requests)
        refused = await client.call_tool("conversationCreate", output_schema=SCHEMA)
        assert "give them with a `prompt`" in text_of(refused)
