"""The Chat Completions wire against a real server: what is sent, and what is made of what comes."""

import asyncio
import json
from typing import Any

import pytest

from tests.models.loopback import (
    BOUND,
    COUNTED,
    HANG,
    LAST_CHUNK,
    STREAM_HEAD,
    USAGE,
    call_delta,
    chunk,
    delta,
    event,
    loopback,
    opened,
    prompt,
    said,
    status,
    stream,
    user,
)
from understudy.errors import ModelRefused, StreamLost
from understudy.models.model import Completed, Counted, ItemDone, ModelEvent, ModelSettings, Prompt, ToolSpec
from understudy.models.wires.chat import UNSIGNED
from understudy.models.wires.encoding import NO_EYES
from understudy.protocol.items import FunctionCall, FunctionCallOutput, InputImage, InputText, Message, Reasoning, ReasoningText
from understudy.protocol.records import ReasoningDelta, TextDelta

CLOSED = "stream disconnected before completion: stream closed before response.completed"


async def answer_to(*values: Any, done: bool = True, settings: ModelSettings | None = None) -> list[ModelEvent]:
    async with loopback(stream(*values, done=done)) as server, opened(server.url, settings=settings) as model:
        return await model.answer()


async def test_text_arrives_in_deltas_then_whole_then_with_its_usage() -> None:
    events = await answer_to(delta(content="Hel"), delta(content="lo"), delta("stop"), {"choices": [], "usage": USAGE})
    assert events == [TextDelta("Hel"), TextDelta("lo"), ItemDone(said("Hello")), Completed(COUNTED)]


async def test_the_request_has_the_shape_that_providers_expect() -> None:
    tool = ToolSpec("shell", "Runs a command.", {"type": "object", "properties": {}})
    items = (
        user("look"),
        said("I will"),
        Reasoning(content=(ReasoningText("hm"),)),
        FunctionCall("shell", '{"command": ["ls"]}', "call1", id="fc_1"),
        FunctionCallOutput("call1", "files"),
        Message("developer", (InputText("be kind"),)),
        Message("user", (InputText("see"), InputImage("data:image/png;base64,AA=="))),
    )
    async with loopback(stream(delta("stop", content="ok"))) as server, opened(server.url) as model:
        await model.answer(prompt(*items, tools=[tool]))
    request = server.requests[0]
    assert (request.method, request.target) == ("POST", "/v1/chat/completions")
    assert request.headers["accept"] == "text/event-stream"
    assert request.headers["content-type"] == "application/json"
    assert request.json == {
        "model": "mock-model",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": "I will"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "call1", "type": "function", "function": {"name": "shell", "arguments": '{"command": ["ls"]}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "call1", "content": "files"},
            {"role": "system", "content": "be kind"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "see"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
                ],
            },
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "shell",
                    "description": "Runs a command.",
                    "strict": False,
                    "parameters": {"type": "object", "properties": {}},
                },
            }
        ],
    }


async def test_each_output_is_sent_right_behind_its_call() -> None:
    calls = (FunctionCall("shell", "{}", "a"), FunctionCall("shell", "{}", "b"))
    outputs = (FunctionCallOutput("a", "1"), FunctionCallOutput("b", "2"))
    async with loopback(stream(delta("stop", content="ok"))) as server, opened(server.url) as model:
        await model.answer(prompt(user("go"), *calls, *outputs))
    shapes = [
        (message["role"], message.get("tool_call_id") or message.get("tool_calls", [{}])[0].get("id"))
        for message in server.requests[0].json["messages"][2:]
    ]
    assert shapes == [("assistant", "a"), ("tool", "a"), ("assistant", "b"), ("tool", "b")]


async def test_several_calls_split_over_many_chunks_each_become_whole() -> None:
    events = await answer_to(
        delta(content="I will look"),
        delta(tool_calls=[call_delta(0, "call1", "shell", "")]),
        delta(tool_calls=[call_delta(0, None, None, '{"command": ')]),
        delta(tool_calls=[call_delta(0, None, None, '["ls"]}')]),
        delta(tool_calls=[call_delta(1, "call2", "shell", '{"command"')]),
        delta(tool_calls=[call_delta(1, None, None, ': ["pwd"]}')]),
        delta("tool_calls"),
        {"choices": [], "usage": USAGE},
    )
    assert events == [
        TextDelta("I will look"),
        ItemDone(said("I will look")),
        ItemDone(FunctionCall("shell", '{"command": ["ls"]}', "call1")),
        ItemDone(FunctionCall("shell", '{"command": ["pwd"]}', "call2")),
        Completed(COUNTED),
    ]


async def test_a_call_is_given_as_soon_as_the_next_begins() -> None:
    actions = [
        STREAM_HEAD,
        chunk(event(delta(tool_calls=[call_delta(0, "call1", "shell", "{}")]))),
        chunk(event(delta(tool_calls=[call_delta(1, "call2", "shell", "{")]))),
        HANG,
    ]
    async with loopback(actions) as server, opened(server.url) as model, asyncio.timeout(BOUND):
        async with model.model.stream(prompt()) as answer:
            assert await anext(answer) == ItemDone(FunctionCall("shell", "{}", "call1"))
        await server.hung_up.wait()


@pytest.mark.parametrize(
    "parts",
    [
        [call_delta(None, "a", "shell", '{"n":1}'), call_delta(None, "b", "shell", '{"n":2}')],
        [call_delta(0, "a", "shell", '{"n":1}'), call_delta(0, "b", "shell", '{"n":2}')],
        [call_delta(0, "a", "shell", '{"n":1'), call_delta(1, "b", "shell", '{"n":2}'), call_delta(0, None, None, "}")],
        [call_delta(0, "a", "shell", '{"n":1'), call_delta(0, "", "", "}"), call_delta(1, "b", "shell", '{"n":2}')],
    ],
    ids=["by id", "all numbered 0", "written side by side", "empty id in fragments"],
)
async def test_calls_are_told_apart_however_a_provider_numbers_them(parts: list[dict[str, Any]]) -> None:
    events = await answer_to(*(delta(tool_calls=[part]) for part in parts), delta("tool_calls"))
    assert events == [
        ItemDone(FunctionCall("shell", '{"n":1}', "a")),
        ItemDone(FunctionCall("shell", '{"n":2}', "b")),
        Completed(None),
    ]


async def test_calls_without_ids_get_their_own() -> None:
    parts = [call_delta(0, None, "shell", '{"n":1}'), call_delta(1, None, "plan", ""), call_delta(2, "same", "x", "{}")]
    events = await answer_to(delta(tool_calls=parts), delta("stop", tool_calls=[call_delta(3, "same", "y", "{}")]))
    calls = [event.item for event in events if isinstance(event, ItemDone) and isinstance(event.item, FunctionCall)]
    assert [(call.name, call.arguments) for call in calls] == [("shell", '{"n":1}'), ("plan", "{}"), ("x", "{}"), ("y", "{}")]
    assert len({call.call_id for call in calls if call.call_id}) == 4


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"reasoning": "think"}, {"reasoning": {"text": "ing"}}),
        ({"reasoning_content": "think", "content": ""}, {"reasoning_content": "ing", "content": None}),
        ({"reasoning": {"content": "think"}}, {"reasoning": {"content": "ing"}}),
        ({"reasoning_details": [{"type": "reasoning.text", "text": "think"}]}, {"reasoning_details": [{"summary": "ing"}]}),
        ({"reasoning": "think", "reasoning_content": "think"}, {"reasoning": "ing", "reasoning_details": [{"text": "ing"}]}),
    ],
)
async def test_reasoning_is_understood_in_every_spelling(first: dict[str, Any], second: dict[str, Any]) -> None:
    settings = ModelSettings("m", show_raw=True)
    events = await answer_to(delta(**first), delta(**second), delta("stop", content="Hi"), settings=settings)
    assert events == [
        ReasoningDelta("think", raw=True),
        ReasoningDelta("ing", raw=True),
        ItemDone(Reasoning(content=(ReasoningText("thinking"),))),
        TextDelta("Hi"),
        ItemDone(said("Hi")),
        Completed(None),
    ]


async def test_raw_reasoning_is_not_shown_unless_wanted_but_kept() -> None:
    events = await answer_to(delta(reasoning="hm"), delta("stop", content="Hi"))
    assert events == [
        ItemDone(Reasoning(content=(ReasoningText("hm"),))),
        TextDelta("Hi"),
        ItemDone(said("Hi")),
        Completed(None),
    ]


async def test_content_may_come_in_parts() -> None:
    events = await answer_to(delta("stop", content=[{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]))
    assert events == [TextDelta("Hello"), ItemDone(said("Hello")), Completed(None)]


async def test_an_answer_in_one_piece_is_an_answer_too() -> None:
    body = {"choices": [{"message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}], "usage": USAGE}
    async with (
        loopback(status(200, "OK", json.dumps(body), Content_Type="application/json")) as server,
        opened(server.url) as model,
    ):
        assert await model.answer() == [TextDelta("Hello"), ItemDone(said("Hello")), Completed(COUNTED)]


async def test_odd_chunks_are_passed_over() -> None:
    oddities: list[Any] = ["not json", {"choices": []}, {"choices": None}, {"choices": [{"delta": None}]}, {"id": 1}, "[1]"]
    assert await answer_to(*oddities, delta("stop", content="ok")) == [TextDelta("ok"), ItemDone(said("ok")), Completed(None)]


@pytest.mark.parametrize(
    "broken", ['{"choices":[{"delta":{"content":"lo', '{"choices":[{"delta":{"content":"lo\\"}}]}', "{", ' {"a" 1}']
)
async def test_a_chunk_that_breaks_off_loses_the_stream_and_not_its_text(broken: str) -> None:
    values = [delta(content="Hel"), 0.01, broken, delta("stop", content="!")]
    async with loopback(stream(*values, done=True)) as server, opened(server.url) as model:
        seen, lost = await model.failing_answer()
    assert seen == [TextDelta("Hel")]
    assert isinstance(lost, StreamLost)
    assert "breaks off in the middle" in str(lost)


async def test_a_bill_that_breaks_off_loses_nothing() -> None:
    assert await answer_to(delta("stop", content="ok"), '{"choices":[],"usage":{"pro') == [
        TextDelta("ok"),
        ItemDone(said("ok")),
        Completed(None),
    ]


async def test_done_ends_an_answer_that_gave_no_reason() -> None:
    assert await answer_to(delta(content="ok")) == [TextDelta("ok"), ItemDone(said("ok")), Completed(None)]


@pytest.mark.parametrize("reason", ["tool_calls", "function_call"])
async def test_a_call_that_was_announced_and_never_given_is_no_empty_answer(reason: str) -> None:
    with pytest.raises(StreamLost, match="without the call that it had begun"):
        await answer_to(delta(reason, function_call={"name": "shell", "arguments": "{}"}))  # as it was before there were tools
    assert ItemDone(said("ok")) in await answer_to(delta(reason, content="ok"))
    assert ItemDone(FunctionCall("f", "{}", "a")) in await answer_to(
        delta(tool_calls=[call_delta(0, "a", "f", "{}")]), delta(reason)
    )


@pytest.mark.parametrize("strange", [{"choices": 7}, "words", {"type": "response.created", "response": {"id": "r"}}, [], None])
async def test_a_stream_without_any_part_of_an_answer_is_no_empty_answer(strange: Any) -> None:
    with pytest.raises(StreamLost, match="nothing in it was of Chat Completions; check `base_url` and `wire_api`"):
        await answer_to(strange)
    assert await answer_to(strange, delta(content="ok")) == [TextDelta("ok"), ItemDone(said("ok")), Completed(None)]


async def test_an_answer_may_be_empty() -> None:
    assert await answer_to({"choices": [], "usage": USAGE}) == [Completed(COUNTED)]
    assert await answer_to() == [Completed(None)]


async def test_the_end_of_the_stream_after_a_reason_ends_the_answer() -> None:
    assert await answer_to(delta("stop", content="ok"), done=False) == [TextDelta("ok"), ItemDone(said("ok")), Completed(None)]


async def test_a_server_may_leave_out_every_ending_but_done() -> None:
    actions = [STREAM_HEAD, chunk(event(delta(content="ok"))), chunk(b"data: [DONE]"), "close"]
    async with loopback(actions) as server, opened(server.url) as model:
        assert await model.answer() == [TextDelta("ok"), ItemDone(said("ok")), Completed(None)]


async def test_a_finished_answer_does_not_wait_for_a_usage_that_never_comes() -> None:
    actions = [STREAM_HEAD, chunk(event(delta("stop", content="ok"))), HANG]
    async with loopback(actions) as server, opened(server.url) as model:
        assert await model.answer() == [TextDelta("ok"), ItemDone(said("ok")), Completed(None)]


async def test_a_finished_answer_does_not_wait_for_done_once_it_has_its_usage() -> None:
    actions = [STREAM_HEAD, chunk(event({**delta("stop", content="ok"), "usage": USAGE})), HANG]
    async with loopback(actions) as server, opened(server.url) as model:
        assert await model.answer() == [TextDelta("ok"), ItemDone(said("ok")), Completed(COUNTED)]


@pytest.mark.parametrize(
    "end",
    [[LAST_CHUNK], ["close"], [b"5\r\nda", "close"]],
    ids=["in good order", "without the last chunk", "inside a chunk"],
)
async def test_a_stream_that_closes_early_is_lost_and_its_half_call_is_not_given(end: list[Any]) -> None:
    calls = [call_delta(0, "a", "shell", "{}"), call_delta(1, "b", "shell", "{}")]
    start = [chunk(event(delta(content="par"))), chunk(event(delta(tool_calls=calls)))]
    async with loopback([STREAM_HEAD, *start, *end]) as server, opened(server.url) as model:
        seen, lost = await model.failing_answer()
    assert isinstance(lost, StreamLost)
    assert str(lost) == CLOSED
    assert seen == [TextDelta("par"), ItemDone(said("par")), ItemDone(FunctionCall("shell", "{}", "a"))]


@pytest.mark.parametrize(("reason", "word"), [("length", "output limit"), ("content_filter", "content filter")])
async def test_an_answer_that_was_cut_off_keeps_its_text_and_fails(reason: str, word: str) -> None:
    half = call_delta(0, "a", "shell", '{"comm')
    async with loopback(stream(delta(content="par"), delta(reason, tool_calls=[half]))) as server, opened(server.url) as model:
        seen, refused = await model.failing_answer()
    assert seen == [TextDelta("par"), ItemDone(said("par"))]
    assert isinstance(refused, ModelRefused)
    assert word in str(refused)


async def test_the_tokens_of_an_answer_that_was_cut_off_are_counted() -> None:
    usage: dict[str, Any] = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}
    async with loopback(stream(delta(content="par"), delta("length"), usage)) as server, opened(server.url) as model:
        seen, refused = await model.failing_answer()
    assert seen == [TextDelta("par"), ItemDone(said("par")), Counted(COUNTED)]
    assert isinstance(refused, ModelRefused)


async def test_an_error_in_the_stream_is_told_in_the_providers_words() -> None:
    with pytest.raises(StreamLost, match=r"^stream disconnected before completion: overloaded$"):
        await answer_to(delta(content="par"), {"error": {"message": "overloaded", "code": 502}})
    with pytest.raises(StreamLost) as lost:
        await answer_to({"error": {"message": "Rate limit reached. Please try again in 1.3s.", "code": "rate_limit_exceeded"}})
    assert lost.value.retry_after == pytest.approx(1.3)


@pytest.mark.parametrize("code", ["context_length_exceeded", 400])
async def test_an_error_in_the_stream_that_time_does_not_mend_is_final(code: str | int) -> None:
    with pytest.raises(ModelRefused, match=r"^too long$"):
        await answer_to({"error": {"message": "too long", "code": code}})


async def test_a_provider_that_refuses_stream_options_is_asked_without_and_remembered() -> None:
    refusal = status(400, "Bad Request", '{"error":{"message":"Unknown parameter: stream_options"}}')
    answers = [stream(delta("stop", content="ok")), stream(delta("stop", content="ok"))]
    async with loopback(refusal, *answers) as server, opened(server.url) as model:
        await model.answer()
        await model.answer()
    assert ["stream_options" in request.json for request in server.requests] == [True, False, False]


async def test_a_long_history_is_sent_whole_however_it_changes() -> None:
    history = [user(f"message {number}") for number in range(5)]
    histories = [history[:2], history[:4], [history[0], user("other way")], history]
    async with loopback(*(stream(delta("stop", content="ok")) for _ in histories)) as server, opened(server.url) as model:
        for items in histories:
            await model.answer(prompt(*items))
    sent = [[message["content"] for message in request.json["messages"][1:]] for request in server.requests]
    assert sent == [[item.text() for item in items] for items in histories]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
async def test_a_stream_may_be_cut_anywhere_and_be_full_of_signs_of_life(end: bytes) -> None:
    lines = [
        b"\xef\xbb\xbf: keep-alive",
        b"event: message",
        b"data: " + json.dumps(delta(content="é€😀"), ensure_ascii=False).encode(),
        b"",
        b": ping",
        b"",
        b'data: {"choices": [{"delta":',
        b'data:  {"content": "!"}, "finish_reason": "stop"}]}',
        b"",
        b"data: [DONE]",
        b"",
    ]
    pieces = [chunk(bytes([byte])) for byte in end.join(lines) + end]
    async with loopback([STREAM_HEAD, *pieces, LAST_CHUNK]) as server, opened(server.url) as model:
        assert await model.answer() == [TextDelta("é€😀"), TextDelta("!"), ItemDone(said("é€😀!")), Completed(None)]


async def test_signs_of_life_after_the_answer_do_not_hold_it_open() -> None:
    pings: list[Any] = [chunk(b": ping\n\n"), 0.1] * 30
    async with loopback([STREAM_HEAD, chunk(event(delta("stop", content="ok"))), *pings]) as server, opened(server.url) as model:
        assert await model.answer() == [TextDelta("ok"), ItemDone(said("ok")), Completed(None)]


async def test_leaving_an_answer_hangs_up_at_once() -> None:
    async with loopback([STREAM_HEAD, chunk(event(delta(content="a"))), HANG]) as server, opened(server.url) as model:
        async with asyncio.timeout(BOUND):
            async with model.model.stream(prompt()) as answer:
                assert await answer.batch() == [TextDelta("a")]
            await server.hung_up.wait()


async def test_cancelling_an_answer_hangs_up_at_once() -> None:
    async with loopback([STREAM_HEAD, chunk(event(delta(content="a"))), HANG]) as server, opened(server.url) as model:
        asking = asyncio.create_task(model.answer())
        async with asyncio.timeout(BOUND):
            await server.asked.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await server.hung_up.wait()


async def test_one_connection_serves_a_whole_conversation() -> None:
    answers = [stream(delta("stop", content="ok"), {"choices": [], "usage": USAGE}) for _ in range(5)]
    async with loopback(*answers) as server, opened(server.url) as model:
        for _ in answers:
            await model.answer()
    assert server.connections == 1


async def test_what_is_added_to_the_history_meanwhile_is_not_sent() -> None:
    items: list[Any] = [user("first")]
    script = (status(503, "Busy"), stream(delta("stop", content="ok")))
    async with loopback(*script) as server, opened(server.url, request_max_retries=1) as model:
        answer = model.model.stream(Prompt("be brief", items, (), "growing"))
        items.append(user("later"))
        async with asyncio.timeout(BOUND), answer:
            assert await anext(answer) == TextDelta("ok")
    assert [message["content"] for message in server.requests[1].json["messages"]] == ["be brief", "first"]


SIGNED = {"google": {"thought_signature": "EoYC"}}
GEMINI = ModelSettings("gemini-3.5-flash")


async def test_a_signature_beside_a_call_goes_back_with_it() -> None:
    signed = {**call_delta(0, "a", "shell", "{}"), "extra_content": SIGNED}
    async with (
        loopback(stream(delta("tool_calls", tool_calls=[signed])), stream(delta("stop", content="ok"))) as server,
        opened(server.url, settings=GEMINI) as model,
    ):
        [given, _] = await model.answer()
        assert isinstance(given, ItemDone)
        assert given.item == FunctionCall("shell", "{}", "a", extra=json.dumps(SIGNED, separators=(",", ":")))
        other = FunctionCall("shell", "{}", "b")
        await model.answer(prompt(user("a"), given.item, FunctionCallOutput("a", "x"), other, FunctionCallOutput("b", "y")))
    calls = [message["tool_calls"][0] for message in server.requests[1].json["messages"] if "tool_calls" in message]
    assert [call["extra_content"] for call in calls] == [SIGNED, UNSIGNED]


async def test_signatures_that_the_provider_does_not_take_back_are_left_out() -> None:
    refusal = status(400, "Bad Request", json.dumps([{"error": {"message": "Corrupted thought signature."}}]))
    call = FunctionCall("shell", "{}", "a", extra=json.dumps(SIGNED))
    async with loopback(refusal, stream(delta("stop", content="ok"))) as server, opened(server.url, settings=GEMINI) as model:
        await model.answer(prompt(user("a"), call, FunctionCallOutput("a", "x")))
    sent = [request.json["messages"][2]["tool_calls"][0]["extra_content"] for request in server.requests]
    assert sent == [SIGNED, UNSIGNED]


async def test_other_models_are_sent_no_signature() -> None:
    call = FunctionCall("shell", "{}", "a", extra=json.dumps(SIGNED))
    async with loopback(stream(delta("stop", content="ok"))) as server, opened(server.url) as model:
        await model.answer(prompt(user("a"), call, FunctionCallOutput("a", "x")))
    assert "extra_content" not in server.requests[0].body.decode()


async def test_a_model_without_eyes_is_told_that_there_was_an_image() -> None:
    seen = Message("user", (InputText("see"), InputImage("data:image/png;base64,AA==")))
    async with (
        loopback(stream(delta("stop", content="ok"))) as server,
        opened(server.url, settings=ModelSettings("gpt-oss:20b")) as model,
    ):
        await model.answer(prompt(seen))
    assert server.requests[0].json["messages"][1]["content"] == f"see\n{NO_EYES}"


PIXEL = "data:image/png;base64,AA=="
LOOK = (user("a"), FunctionCall("view_image", "{}", "a"), FunctionCallOutput("a", "here", (PIXEL, PIXEL)), user("b"))


async def test_images_of_an_output_follow_it_in_a_message_of_their_own() -> None:
    async with loopback(stream(delta("stop", content="ok"))) as server, opened(server.url) as model:
        await model.answer(prompt(*LOOK))
    image = {"type": "image_url", "image_url": {"url": PIXEL}}
    assert server.requests[0].json["messages"][3:] == [
        {"role": "tool", "tool_call_id": "a", "content": "here"},
        {"role": "user", "content": [{"type": "text", "text": "Images in the output of the call a:"}, image, image]},
        {"role": "user", "content": "b"},
    ]


async def test_a_model_without_eyes_is_told_of_the_images_in_an_output() -> None:
    async with (
        loopback(stream(delta("stop", content="ok"))) as server,
        opened(server.url, settings=ModelSettings("gpt-oss:20b")) as model,
    ):
        await model.answer(prompt(*LOOK))
    assert server.requests[0].json["messages"][3:] == [
        {"role": "tool", "tool_call_id": "a", "content": f"here\n{NO_EYES}\n{NO_EYES}"},
        {"role": "user", "content": "b"},
    ]


async def test_an_effort_is_sent_to_models_that_take_one_until_it_is_refused() -> None:
    refusal = status(400, "Bad Request", '{"error": {"message": "Unsupported parameter: reasoning_effort"}}')
    answers = [stream(delta("stop", content="a")), refusal, stream(delta("stop", content="b")), stream(delta("stop", content="c"))]
    settings = ModelSettings("gpt-oss:20b", reasoning_effort="xhigh")
    async with loopback(*answers) as server, opened(server.url, settings=settings) as model:
        for _ in range(3):
            await model.answer()
    efforts = [json.loads(request.body).get("reasoning_effort") for request in server.requests]
    assert efforts == ["high", "high", None, None]


async def test_no_effort_is_sent_to_models_that_are_not_known_to_take_one() -> None:
    async with loopback(stream(delta("stop", content="a"))) as server, opened(server.url) as model:
        await model.answer()
    assert "reasoning_effort" not in json.loads(server.requests[0].body)
