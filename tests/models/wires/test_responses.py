"""The Responses wire against a real server: what is sent, and what is made of what comes."""

import asyncio
import json
from typing import Any

import pytest

from tests.models.loopback import BOUND, HANG, STREAM_HEAD, chunk, event, loopback, opened, prompt, said, status, stream, user
from understudy.errors import ContextFull, ModelRefused, StreamLost
from understudy.models.model import Completed, Counted, ItemDone, ModelEvent, ModelSettings, ToolSpec
from understudy.models.wires.encoding import NO_EYES
from understudy.protocol.items import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    Message,
    OutputText,
    Reasoning,
    ReasoningText,
    SummaryText,
    Usage,
)
from understudy.protocol.records import ReasoningDelta, TextDelta

CREATED = {"type": "response.created", "response": {"id": "resp_1"}}
USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 15,
}
COMPLETED = {"type": "response.completed", "response": {"id": "resp_1", "usage": USAGE}}
COUNTED = Completed(Usage(10, 5, 15, 4, 2))


def text(piece: str) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": piece}


def done(**item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": 0, "item": item}


def message(whole: str) -> dict[str, Any]:
    return done(type="message", role="assistant", content=[{"type": "output_text", "text": whole, "annotations": []}])


async def answer_to(*values: Any, settings: ModelSettings | None = None) -> list[ModelEvent]:
    async with loopback(stream(*values, done=False)) as server, opened(server.url, wire="responses", settings=settings) as model:
        return await model.answer()


async def test_reasoning_text_and_usage_arrive_in_order() -> None:
    reasoning = done(
        type="reasoning",
        id="rs_1",
        summary=[{"type": "summary_text", "text": "thinking"}, {"type": "summary_text", "text": "more"}],
        encrypted_content="ENC",
    )
    events = await answer_to(
        CREATED,
        {"type": "response.reasoning_summary_text.delta", "delta": "think"},
        {"type": "response.reasoning_summary_text.delta", "delta": "ing"},
        reasoning,
        text("Hel"),
        text("lo"),
        message("Hello"),
        COMPLETED,
    )
    assert events == [
        ReasoningDelta("think"),
        ReasoningDelta("ing"),
        ItemDone(Reasoning(summary=(SummaryText("thinking"), SummaryText("more")), encrypted_content="ENC", id="rs_1")),
        TextDelta("Hel"),
        TextDelta("lo"),
        ItemDone(said("Hello")),
        COUNTED,
    ]


async def test_raw_reasoning_is_shown_when_wanted() -> None:
    events = await answer_to(
        {"type": "response.reasoning_text.delta", "delta": "hm"},
        done(type="reasoning", id="rs_1", summary=[], content=[{"type": "reasoning_text", "text": "hm"}]),
        COMPLETED,
        settings=ModelSettings("m", show_raw=True),
    )
    whole = Reasoning(content=(ReasoningText("hm"),), id="rs_1")
    assert events == [ReasoningDelta("hm", raw=True), ItemDone(whole), COUNTED]


async def test_a_call_keeps_the_id_that_the_model_gave_it() -> None:
    events = await answer_to(
        done(type="function_call", id="fc_1", call_id="call1", name="shell", arguments='{"command":["ls"]}', status="completed"),
        done(type="function_call", id="fc_2", name="shell", arguments=""),
        {"type": "response.completed", "response": {"id": "resp_1"}},
    )
    assert events == [
        ItemDone(FunctionCall("shell", '{"command":["ls"]}', "call1", id="fc_1")),
        ItemDone(FunctionCall("shell", "{}", "fc_2", id="fc_2")),
        Completed(None),
    ]


async def test_the_request_has_the_shape_that_the_provider_expects() -> None:
    tool = ToolSpec("shell", "Runs a command.", {"type": "object"})
    items = (
        Message("user", (InputText("see"), InputImage("data:image/png;base64,AA=="))),
        Reasoning(summary=(SummaryText("hm"),), encrypted_content="ENC", id="rs_1"),
        Reasoning(content=(ReasoningText("from elsewhere"),)),
        Message("assistant", (OutputText("I will"),), id="msg_1"),
        FunctionCall("shell", "{}", "call1", id="fc_1"),
        FunctionCallOutput("call1", "done"),
    )
    async with loopback(stream(COMPLETED, done=False)) as server, opened(server.url, wire="responses") as model:
        await model.answer(prompt(*items, tools=[tool]))
    request = server.requests[0]
    assert request.target == "/v1/responses"
    assert (
        request.headers.items()
        >= {
            "openai-beta": "responses=experimental",
            "originator": "understudy",
            "session_id": "conversation",
            "accept": "text/event-stream",
        }.items()
    )
    assert request.json == {
        "model": "mock-model",
        "instructions": "be brief",
        "input": [
            {
                "type": "message",
                "id": None,
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "see"},
                    {"type": "input_image", "image_url": "data:image/png;base64,AA=="},
                ],
            },
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "hm"}],
                "encrypted_content": "ENC",
            },
            {"type": "message", "id": None, "role": "assistant", "content": [{"type": "output_text", "text": "I will"}]},
            {"type": "function_call", "id": "fc_1", "name": "shell", "arguments": "{}", "call_id": "call1"},
            {"type": "function_call_output", "call_id": "call1", "output": "done"},
        ],
        "tools": [
            {
                "type": "function",
                "name": "shell",
                "description": "Runs a command.",
                "strict": False,
                "parameters": {"type": "object"},
            }
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": None,
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "conversation",
    }


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (ModelSettings("o3", store=True), {"reasoning": {"effort": "medium", "summary": "auto"}, "include": [], "store": True}),
        (ModelSettings("gpt-6-sol", reasoning_effort="none"), {"reasoning": {"effort": "none"}}),
        (ModelSettings("gpt-5.1", reasoning_effort="minimal"), {"reasoning": {"effort": "low", "summary": "auto"}}),
        (
            ModelSettings("gpt-5", reasoning_effort="low", reasoning_summary="none", verbosity="high", store=False),
            {
                "reasoning": {"effort": "low"},
                "include": ["reasoning.encrypted_content"],
                "store": False,
                "text": {"verbosity": "high"},
            },
        ),
        (ModelSettings("o3", reasoning_effort="none"), {"reasoning": None}),
        (ModelSettings("other", supports_reasoning_summaries=True), {"reasoning": {"effort": "medium", "summary": "auto"}}),
        (ModelSettings("gpt-5", supports_reasoning_summaries=False), {"reasoning": None}),
    ],
)
async def test_reasoning_is_asked_for_as_the_model_and_the_user_allow(settings: ModelSettings, expected: dict[str, Any]) -> None:
    async with (
        loopback(stream(COMPLETED, done=False)) as server,
        opened(server.url, wire="responses", settings=settings) as model,
    ):
        await model.answer()
    assert server.requests[0].json.items() >= expected.items()


async def test_the_answer_ends_with_its_last_event_not_with_the_connection() -> None:
    actions = [STREAM_HEAD, chunk(event(message("ok"))), chunk(event(COMPLETED)), HANG]
    async with loopback(actions) as server, opened(server.url, wire="responses") as model:
        assert await model.answer() == [ItemDone(said("ok")), COUNTED]


async def test_items_that_are_told_only_at_the_end_count() -> None:
    output = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]}]
    whole = {"object": "response", "status": "completed", "output": output, "usage": USAGE}
    assert await answer_to({"type": "response.completed", "response": whole}) == [ItemDone(said("ok")), COUNTED]
    body = status(200, "OK", json.dumps(whole), Content_Type="application/json; charset=utf-8")
    async with loopback(body) as server, opened(server.url, wire="responses") as model:
        assert await model.answer() == [ItemDone(said("ok")), COUNTED]


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param((), id="no message repeats it"),
        pytest.param((done(type="message", id="msg_1", role="assistant", content=[]),), id="a message without it"),
        pytest.param((done(type="message", id="msg_1", content=[{"type": "output_text"}]),), id="a part without it"),
    ],
)
async def test_what_was_said_in_deltas_is_said_whoever_does_not_repeat_it(ending: tuple[Any, ...]) -> None:
    events = await answer_to(CREATED, message("One."), text("Hel"), text("lo"), *ending, COMPLETED)
    assert [each.item for each in events if isinstance(each, ItemDone)] == [
        said("One."),
        Message("assistant", (OutputText("Hello"),), id="msg_1" if ending else None),
    ]


async def test_a_refusal_and_a_message_that_is_plain_text_are_said() -> None:
    refusal = {"type": "response.refusal.delta", "item_id": "msg_1", "delta": "No."}
    assert ItemDone(said("No.")) in await answer_to(CREATED, refusal, COMPLETED)
    assert ItemDone(said("Hello")) in await answer_to(CREATED, done(type="message", content="Hello"), COMPLETED)


async def test_what_a_message_was_said_for_is_kept_and_given_back() -> None:
    """Commentary or the answer: models that say so answer worse where it is left out of their history."""
    part = {"type": "output_text", "text": "Let me look."}
    said = {"type": "message", "role": "assistant", "phase": "commentary"}
    plain, odd, _ = await answer_to(CREATED, done(**said, content=[part]), done(**said, content="Let me look."), COMPLETED)
    commentary = Message("assistant", (OutputText("Let me look."),), phase="commentary")
    assert plain == odd == ItemDone(commentary)
    async with loopback(stream(COMPLETED, done=False)) as server, opened(server.url, wire="responses") as model:
        await model.answer(prompt(commentary, Message("assistant", (OutputText("done"),))))
    assert [entry.get("phase", "none") for entry in server.requests[0].json["input"]] == ["commentary", "none"]


async def test_a_message_that_says_nothing_is_given_as_it_is() -> None:
    events = await answer_to(CREATED, done(type="message", content=[]), COMPLETED)
    assert events == [ItemDone(Message("assistant", ())), COUNTED]


async def test_a_call_that_began_and_never_came_loses_the_stream() -> None:
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "shell", "arguments": ""}
    added = {"type": "response.output_item.added", "output_index": 0, "item": item}
    arguments = {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": "{}"}
    with pytest.raises(StreamLost, match="without the call that it had begun"):
        await answer_to(CREATED, added, arguments, COMPLETED)


async def test_unknown_and_broken_events_are_passed_over() -> None:
    odd: list[Any] = [
        "no json",
        {"type": "response.new_thing", "delta": {}},
        [1],
        done(type="web_search_call", id="ws"),
        {"type": 7},
    ]
    assert await answer_to(*odd, message("ok"), COMPLETED) == [ItemDone(said("ok")), COUNTED]


async def test_an_item_that_breaks_off_loses_the_stream() -> None:
    broken = json.dumps(message("all of it"))[:-9]
    async with (
        loopback(stream(text("all"), 0.01, broken, COMPLETED, done=False)) as server,
        opened(server.url, wire="responses") as model,
    ):
        seen, lost = await model.failing_answer()
    assert seen == [TextDelta("all")]
    assert isinstance(lost, StreamLost)
    assert "breaks off in the middle" in str(lost)


async def test_a_stream_that_closes_early_is_lost() -> None:
    async with loopback(stream(text("par"), done=False)) as server, opened(server.url, wire="responses") as model:
        seen, lost = await model.failing_answer()
    assert seen == [TextDelta("par")]
    assert isinstance(lost, StreamLost)
    assert str(lost) == "stream disconnected before completion: stream closed before response.completed"


@pytest.mark.slow
async def test_silence_for_too_long_loses_the_stream() -> None:
    actions = [STREAM_HEAD, chunk(event(text("par"))), HANG]
    async with loopback(actions) as server, opened(server.url, wire="responses", stream_idle_timeout_ms=2000) as model:
        seen, lost = await model.failing_answer()
        async with asyncio.timeout(BOUND):
            await server.hung_up.wait()
    assert seen == [TextDelta("par")]
    assert isinstance(lost, StreamLost)
    assert str(lost) == "stream disconnected before completion: idle timeout waiting for SSE"


async def test_signs_of_life_keep_a_silent_stream_alive() -> None:
    alive: list[bytes | float | str] = [0.03, chunk(b": still here\n\n")] * 4
    actions = [STREAM_HEAD, *alive, chunk(event(message("ok"))), chunk(event(COMPLETED)), b"0\r\n\r\n"]
    async with loopback(actions) as server, opened(server.url, wire="responses", stream_idle_timeout_ms=10_000) as model:
        assert await model.answer() == [ItemDone(said("ok")), COUNTED]


@pytest.mark.parametrize(
    "failure",
    [
        {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "it broke"}}},
        {"type": "error", "error": {"code": "server_error", "message": "it broke"}},
        {"type": "error", "code": "server_error", "message": "it broke"},
        {"error": {"message": "it broke"}},
    ],
)
async def test_a_failure_in_the_stream_is_lost_in_the_providers_words(failure: dict[str, Any]) -> None:
    with pytest.raises(StreamLost, match=r"^stream disconnected before completion: it broke$"):
        await answer_to(CREATED, failure)


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("Rate limit reached. Please try again in 1.3s.", 1.3),
        ("Please try again in 250ms.", 0.25),
        ("Try again in 20 seconds", 20),
        ("try again in 1m0.5s", 60.5),
        ("try again later", None),
    ],
)
async def test_a_rate_limit_says_how_long_to_wait(words: str, seconds: float | None) -> None:
    failure = {"type": "response.failed", "response": {"error": {"code": "rate_limit_exceeded", "message": words}}}
    with pytest.raises(StreamLost) as lost:
        await answer_to(failure)
    assert lost.value.retry_after == pytest.approx(seconds)


@pytest.mark.parametrize("code", ["context_length_exceeded", "invalid_prompt", "insufficient_quota"])
async def test_a_failure_that_time_does_not_mend_is_final(code: str) -> None:
    with pytest.raises(ModelRefused, match=r"^too much(\n|$)"):
        await answer_to({"type": "response.failed", "response": {"error": {"code": code, "message": "too much"}}})


async def test_an_incomplete_answer_is_final_and_its_half_call_is_not_given() -> None:
    half = done(type="function_call", id="fc", call_id="c", name="shell", arguments='{"comm', status="incomplete")
    details = {"reason": "max_output_tokens"}
    ending = {"type": "response.incomplete", "response": {"incomplete_details": details, "usage": USAGE}}
    async with loopback(stream(message("par"), half, ending)) as server, opened(server.url, wire="responses") as model:
        seen, refused = await model.failing_answer(prompt(user("go")))
    assert seen == [ItemDone(said("par")), Counted(Usage(10, 5, 15, 4, 2))]
    assert isinstance(refused, ModelRefused)
    assert str(refused) == "incomplete answer: the model reached its output limit (reason: max_output_tokens)"


@pytest.mark.parametrize("code", ["context_length_exceeded", None])
async def test_a_context_that_is_full_is_told_apart(code: str | None) -> None:
    words = "Your input exceeds the context window of this model."
    with pytest.raises(ContextFull, match=r"^Your input"):
        await answer_to({"type": "response.failed", "response": {"error": {"code": code, "message": words}}})
    refusal = status(400, "Bad Request", json.dumps({"error": {"code": code, "message": words}}))
    async with loopback(refusal) as server, opened(server.url, wire="responses") as model:
        _, refused = await model.failing_answer()
    assert isinstance(refused, ContextFull)


ENCRYPTED = Reasoning(summary=(SummaryText("hm"),), encrypted_content="ENC", id="rs_1")
ONLY_AN_ID = Reasoning(summary=(SummaryText("hm"),), id="rs_2")
RAW = Reasoning(content=(ReasoningText("raw"),), id="rs_3")


async def reasoning_sent(store: bool) -> list[Any]:
    async with (
        loopback(stream(COMPLETED, done=False)) as server,
        opened(server.url, wire="responses", settings=ModelSettings("gpt-5", store=store)) as model,
    ):
        await model.answer(prompt(user("a"), ENCRYPTED, ONLY_AN_ID, RAW))
    return [item for item in server.requests[0].json["input"] if item["type"] == "reasoning"]


async def test_reasoning_is_sent_back_as_far_as_the_provider_can_use_it() -> None:
    whole = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "ENC"}
    raw = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "raw"}]}
    assert await reasoning_sent(store=False) == [whole, raw]
    assert [item["id"] for item in await reasoning_sent(store=True)] == ["rs_1", "rs_2", "rs_3"]


async def test_encrypted_reasoning_that_the_provider_cannot_read_is_left_out_from_then_on() -> None:
    refusal = status(400, "Bad Request", json.dumps({"error": {"code": "invalid_encrypted_content", "message": "no"}}))
    answer = stream(COMPLETED, done=False)
    async with loopback(refusal, answer, answer, answer) as server, opened(server.url, wire="responses") as model:
        await model.answer(prompt(user("a"), ENCRYPTED))
        await model.answer(prompt(user("a"), ENCRYPTED, user("b")))
        await model.answer(prompt(user("a"), ENCRYPTED, conversation="another"))
    kinds = [[item["type"] for item in request.json["input"]] for request in server.requests]
    assert kinds == [["message", "reasoning"], ["message"], ["message", "message"], ["message", "reasoning"]]


async def test_a_server_that_does_not_know_encrypted_reasoning_is_asked_without() -> None:
    refusal = status(400, "Bad Request", json.dumps({"error": {"message": "Unknown value: 'reasoning.encrypted_content'"}}))
    answer = stream(COMPLETED, done=False)
    async with loopback(refusal, answer, answer) as server, opened(server.url, wire="responses") as model:
        await model.answer()
        await model.answer()
    assert [request.json["include"] for request in server.requests] == [["reasoning.encrypted_content"], [], []]


SHELL_ACTION: dict[str, Any] = {
    "type": "exec",
    "command": ["ls", "-l"],
    "timeout_ms": 900,
    "working_directory": "sub",
    "env": {},
    "user": None,
}


@pytest.mark.parametrize(
    ("action", "arguments"),
    [
        (SHELL_ACTION, '{"command":["ls","-l"],"workdir":"sub","timeout_ms":900}'),
        ({"type": "exec", "command": ["ls"], "timeout_ms": None, "working_directory": None}, '{"command":["ls"]}'),
        (None, "{}"),
    ],
)
async def test_a_local_shell_call_is_a_call_of_the_shell_and_one_that_breaks_off_is_none(action: object, arguments: str) -> None:
    whole = done(type="local_shell_call", id="lsh_1", call_id="call1", status="completed", action=action)
    half = done(type="local_shell_call", id="lsh_2", call_id="call2", status="incomplete", action=action)
    events = await answer_to(whole, half, COMPLETED)
    assert [event.item for event in events if isinstance(event, ItemDone)] == [FunctionCall("shell", arguments, "call1")]


PATCH_TOOL = ToolSpec("apply_patch", "Changes files.", {"type": "object"}, grammar="start: /.+/")
PATCH_CALL = done(type="custom_tool_call", id="ctc_1", call_id="call1", name="apply_patch", input="*** Begin\n")


async def test_a_model_that_writes_patches_by_a_grammar_is_offered_one_and_its_calls_go_back_alike() -> None:
    settings = ModelSettings("gpt-5")
    answer = stream(COMPLETED, done=False)
    async with (
        loopback(stream(PATCH_CALL, COMPLETED, done=False), answer) as server,
        opened(server.url, wire="responses", settings=settings) as model,
    ):
        [call, _] = await model.answer(prompt(user("a"), tools=[PATCH_TOOL]))
        assert call == ItemDone(FunctionCall("apply_patch", '{"input":"*** Begin\\n"}', "call1", id="ctc_1", custom=True))
        assert isinstance(call, ItemDone)
        await model.answer(prompt(user("a"), call.item, FunctionCallOutput("call1", "done"), tools=[PATCH_TOOL]))
    offered = {"type": "custom", "name": "apply_patch", "description": "Changes files."}
    form = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
    assert server.requests[0].json["tools"] == [{**offered, "format": form}]
    assert server.requests[1].json["input"][1:] == [
        {"type": "custom_tool_call", "id": "ctc_1", "name": "apply_patch", "input": "*** Begin\n", "call_id": "call1"},
        {"type": "custom_tool_call_output", "call_id": "call1", "output": "done"},
    ]


async def test_a_server_or_model_without_grammars_is_offered_a_function() -> None:
    refusal = status(400, "Bad Request", json.dumps({"error": {"message": "Unsupported tool type: custom"}}))
    answer = stream(COMPLETED, done=False)
    call = FunctionCall("apply_patch", '{"input":"x"}', "call1", custom=True)
    async with loopback(refusal, answer, answer) as server:
        for name in ("gpt-5", "unheard-of"):
            async with opened(server.url, wire="responses", settings=ModelSettings(name)) as model:
                await model.answer(prompt(user("a"), call, FunctionCallOutput("call1", "done"), tools=[PATCH_TOOL]))
    assert [request.json["tools"][0]["type"] for request in server.requests] == ["custom", "function", "function"]
    kinds = [[item["type"] for item in request.json["input"][1:]] for request in server.requests]
    plain = ["function_call", "function_call_output"]
    assert kinds == [["custom_tool_call", "custom_tool_call_output"], plain, plain]


PIXEL = "data:image/png;base64,AA=="


@pytest.mark.parametrize(
    ("text", "name", "wanted"),
    [
        ("here", "mock-model", [{"type": "input_text", "text": "here"}, {"type": "input_image", "image_url": PIXEL}]),
        ("", "mock-model", [{"type": "input_image", "image_url": PIXEL}]),
        ("here", "gpt-oss", f"here\n{NO_EYES}"),
        ("", "gpt-oss", NO_EYES),
    ],
)
async def test_images_of_an_output_are_parts_of_it_for_a_model_with_eyes(text: str, name: str, wanted: object) -> None:
    items = (user("a"), FunctionCall("view_image", "{}", "a"), FunctionCallOutput("a", text, (PIXEL,)))
    async with (
        loopback(stream(COMPLETED, done=False)) as server,
        opened(server.url, wire="responses", settings=ModelSettings(name)) as model,
    ):
        await model.answer(prompt(*items))
    assert server.requests[0].json["input"][-1] == {"type": "function_call_output", "call_id": "a", "output": wanted}


async def test_a_model_without_eyes_is_told_that_there_was_an_image() -> None:
    async with (
        loopback(stream(COMPLETED, done=False)) as server,
        opened(server.url, wire="responses", settings=ModelSettings("gpt-oss")) as model,
    ):
        await model.answer(prompt(Message("user", (InputText("see"), InputImage(PIXEL)))))
    assert server.requests[0].json["input"][-1]["content"] == [
        {"type": "input_text", "text": "see"},
        {"type": "input_text", "text": NO_EYES},
    ]


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (USAGE | {"input_tokens_details": None, "output_tokens_details": {}}, Usage(10, 5, 15)),
        (USAGE | {"input_tokens": 10.0}, Usage(10, 5, 15, 4, 2)),
        (USAGE | {"total_tokens": -1}, Usage(10, 5, 15, 4, 2)),
        (USAGE | {"prompt_tokens": 12, "prompt_tokens_details": {"cached_tokens": 7}}, Usage(12, 5, 15, 7, 2)),
        (USAGE | {"input_tokens_details": "many", "prompt_cache_hit_tokens": 3}, Usage(10, 5, 15, 3, 2)),
        ({"input_tokens": 10, "output_tokens": 5}, Usage(10, 5, 15)),
        (None, None),
    ],
)
async def test_counts_are_read_whether_or_not_they_have_the_plain_form(usage: object, counted: Usage | None) -> None:
    ending = {"type": "response.completed", "response": {"usage": usage}}
    assert (await answer_to(message("Hi"), ending))[-1] == Completed(counted)


@pytest.mark.parametrize(
    ("item", "read"),
    [
        ({"content": "Hi"}, Message("assistant", (OutputText("Hi"),))),
        ({"content": [{"type": "refusal", "refusal": "No"}], "id": "m"}, Message("assistant", (OutputText("No"),), "m")),
        ({"content": [{"type": "output_text", "text": "Hi"}, 7], "id": 7}, Message("assistant", (OutputText("Hi"),))),
    ],
)
async def test_a_message_of_another_form_is_read_all_the_same(item: dict[str, Any], read: Message) -> None:
    assert await answer_to(done(type="message", **item), COMPLETED) == [ItemDone(read), COUNTED]
