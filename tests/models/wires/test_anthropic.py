"""The Anthropic wire against a real server: what is sent, and what is made of what comes."""

import asyncio
import json
from collections import deque
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.models.loopback import BOUND, LAST_CHUNK, STREAM_HEAD, Action, chunk, loopback, opened, prompt, said, status, user
from understudy.errors import ContextFull, ModelError, ModelRefused, ModelUnavailable, StreamLost
from understudy.models.model import Completed, Counted, ItemDone, ModelEvent, ModelSettings, ToolSpec
from understudy.models.wires.anthropic_stream import AnthropicDecoder
from understudy.models.wires.encoding import NO_EYES
from understudy.models.wires.sse import SseSplitter
from understudy.protocol.items import (
    ANSWER,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    Item,
    Message,
    Reasoning,
    SummaryText,
    Usage,
)
from understudy.protocol.records import ReasoningDelta, TextDelta

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SHELL = ToolSpec("shell", "Runs a command.", {"type": "object", "properties": {}})


@cache
def request_type() -> "TypeAdapter[Any]":
    """What Anthropic's own package takes for a request. It takes seconds to load: only the process that runs these tests pays."""
    from anthropic.types.message_create_params import MessageCreateParamsStreaming
    from pydantic import TypeAdapter

    return TypeAdapter(MessageCreateParamsStreaming)


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


START = event(
    "message_start",
    message={
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 5, "output_tokens": 1},
    },
)
STOP = event("message_stop")
COUNTED = Completed(Usage(115, 7, 122, 100, 3, 5))


def ending(reason: str = "end_turn") -> dict[str, Any]:
    usage = {"output_tokens": 7, "output_tokens_details": {"thinking_tokens": 3}}
    return event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=usage)


def block(index: int, begun: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        event("content_block_start", index=index, content_block=begun),
        *(event("content_block_delta", index=index, delta=delta) for delta in deltas),
        event("content_block_stop", index=index),
    ]


def text_block(index: int, *pieces: str) -> list[dict[str, Any]]:
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in pieces))


def call_block(index: int, call_id: str, *pieces: str) -> list[dict[str, Any]]:
    begun: dict[str, Any] = {"type": "tool_use", "id": call_id, "name": "shell", "input": {}}
    return block(index, begun, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces))


def thought_block(index: int, thought: str, signature: str) -> list[dict[str, Any]]:
    deltas = [{"type": "thinking_delta", "thinking": thought}, {"type": "signature_delta", "signature": signature}]
    return block(index, {"type": "thinking", "thinking": "", "signature": ""}, *deltas)


def stream(*events: dict[str, Any] | str | float) -> list[Action]:
    """Each with its name before it, as the provider sends them."""
    actions: list[Action] = [STREAM_HEAD]
    for value in events:
        if isinstance(value, float):
            actions.append(value)
        else:
            named = f"event: {value['type']}\ndata: {json.dumps(value)}" if isinstance(value, dict) else f"data: {value}"
            actions.append(chunk(f"{named}\n\n".encode()))
    return [*actions, LAST_CHUNK]


def without_ids(events: list[ModelEvent]) -> list[ModelEvent]:
    """Ids that name the answer are new each time."""
    plain: list[ModelEvent] = []
    for found in events:
        if isinstance(found, ItemDone) and (found.item.id or "").startswith(ANSWER):
            found = ItemDone(_without_id(found.item))
        plain.append(found)
    return plain


def _without_id(item: Any) -> Any:
    return type(item)(**{name: getattr(item, name) for name in item.__struct_fields__ if name != "id"})


async def answer_to(*events: dict[str, Any] | str | float, model: str = "m") -> list[ModelEvent]:
    async with loopback(stream(*events)) as server, opened(server.url, wire="anthropic", settings=ModelSettings(model)) as opened_:
        return without_ids(await opened_.answer())


async def failure_of(*events: dict[str, Any] | str | float) -> tuple[list[ModelEvent], ModelError]:
    async with loopback(stream(*events)) as server, opened(server.url, wire="anthropic") as model:
        seen, failure = await model.failing_answer()
        return without_ids(seen), failure


async def sent(*items: Item, model: str = "claude-sonnet-5-5", **settings: Any) -> dict[str, Any]:
    async with (
        loopback(stream(START, *text_block(0, "ok"), ending(), STOP)) as server,
        opened(server.url, wire="anthropic", settings=ModelSettings(model, **settings)) as opened_,
    ):
        await opened_.answer(prompt(*items, tools=[SHELL]))
    body = server.requests[0].json
    checked = json.loads(json.dumps(body))
    request_type().validate_python(checked)
    return body


# -- answers


async def test_thinking_text_calls_and_usage_arrive_in_order() -> None:
    events = await answer_to(
        START,
        event("ping"),
        *thought_block(0, "hm", "sig"),
        *text_block(1, "Hel", "lo"),
        *call_block(2, "toolu_1", '{"comm', 'and":["ls"]}'),
        *call_block(3, "toolu_2"),
        ending("tool_use"),
        STOP,
    )
    assert events == [
        ReasoningDelta("hm"),
        ItemDone(Reasoning(summary=(SummaryText("hm"),), signature="sig")),
        TextDelta("Hel"),
        TextDelta("lo"),
        ItemDone(said("Hello")),
        ItemDone(FunctionCall("shell", '{"command":["ls"]}', "toolu_1")),
        ItemDone(FunctionCall("shell", "{}", "toolu_2")),
        COUNTED,
    ]


async def test_withheld_and_silent_thoughts_are_kept_for_the_next_request() -> None:
    silent = block(1, {"type": "thinking", "thinking": "", "signature": ""}, {"type": "signature_delta", "signature": "s2"})
    withheld = block(0, {"type": "redacted_thinking", "data": "EnC"})
    events = await answer_to(START, *withheld, *silent, *text_block(2, "ok"), ending(), STOP)
    assert events[:2] == [ItemDone(Reasoning(encrypted_content="EnC", signature="")), ItemDone(Reasoning(signature="s2"))]


async def test_an_answer_in_one_piece_counts() -> None:
    content = [{"type": "text", "text": "ok"}, {"type": "tool_use", "id": "t", "name": "shell", "input": {"command": ["ls"]}}]
    whole = {"type": "message", "role": "assistant", "content": content, "stop_reason": "tool_use", "usage": {"input_tokens": 1}}
    async with loopback(status(200, "OK", json.dumps(whole))) as server, opened(server.url, wire="anthropic") as model:
        events = without_ids(await model.answer())
    call = ItemDone(FunctionCall("shell", '{"command":["ls"]}', "t"))
    assert events == [TextDelta("ok"), ItemDone(said("ok")), call, Completed(Usage(1, 0, 1))]


async def test_unknown_events_blocks_and_deltas_are_passed_over() -> None:
    odd: list[Any] = [
        "no json",
        event("new_thing", index=0),
        event("content_block_delta", index=0, delta={"type": "citations_delta", "citation": {}}),
        *block(7, {"type": "server_tool_use", "id": "x", "name": "web_search", "input": {}}),
        event("content_block_delta", index=0, delta=3),
        {"type": 7},
    ]
    events = await answer_to(START, *odd, *text_block(0, "ok"), *odd, ending("a_new_reason"), STOP)
    assert events == [TextDelta("ok"), ItemDone(said("ok")), COUNTED]


@pytest.mark.parametrize(
    ("reason", "kind", "words"),
    [
        ("max_tokens", ModelRefused, "the model reached its output limit"),
        ("model_context_window_exceeded", ContextFull, "context window is full"),
        ("refusal", ModelRefused, "declined to answer"),
    ],
)
async def test_an_answer_that_is_not_whole_is_final_and_its_half_call_is_not_given(
    reason: str, kind: type[ModelRefused], words: str
) -> None:
    seen, failure = await failure_of(START, *text_block(0, "par"), *call_block(1, "t", '{"comm'), ending(reason), STOP)
    assert seen == [TextDelta("par"), ItemDone(said("par")), Counted(Usage(115, 7, 122, 100, 3, 5))]
    assert type(failure) is kind
    assert words in str(failure)


async def test_a_call_with_broken_arguments_is_given_once_the_model_meant_it() -> None:
    events = await answer_to(START, *call_block(0, "t", '{"comm'), ending("tool_use"), STOP)
    assert events == [ItemDone(FunctionCall("shell", '{"comm', "t")), COUNTED]


async def test_a_stream_that_closes_early_is_lost() -> None:
    seen, failure = await failure_of(START, event("content_block_start", index=0, content_block={"type": "text", "text": "par"}))
    assert seen == [TextDelta("par")]
    assert isinstance(failure, StreamLost)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, StreamLost),
        ({"type": "api_error", "message": "Internal server error"}, StreamLost),
        ({"type": "authentication_error", "message": "no"}, ModelRefused),
        ({"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}, ContextFull),
    ],
)
async def test_an_error_in_the_stream_is_what_it_says(error: dict[str, str], kind: type[ModelError]) -> None:
    _, failure = await failure_of(START, event("error", error=error))
    assert type(failure) is kind
    assert error["message"] in str(failure)


# -- refusals


def refused(code: int, kind: str, message: str, **headers: str) -> list[Action]:
    return status(code, "No", json.dumps({"type": "error", "error": {"type": kind, "message": message}}), **headers)


async def test_overload_and_rate_limits_are_tried_again_when_the_provider_says() -> None:
    script = [
        refused(529, "overloaded_error", "Overloaded", retry_after="0.01"),
        refused(429, "rate_limit_error", "slow down", retry_after="0.02"),
        stream(START, *text_block(0, "ok"), ending(), STOP),
    ]
    async with loopback(*script) as server, opened(server.url, wire="anthropic", request_max_retries=2) as model:
        assert without_ids(await model.answer())[1] == ItemDone(said("ok"))
    async with loopback(refused(529, "overloaded_error", "Overloaded")) as server, opened(server.url, wire="anthropic") as model:
        _, failure = await model.failing_answer()
    assert isinstance(failure, ModelUnavailable)
    assert "529" in str(failure)


@pytest.mark.parametrize(
    "message",
    [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 199900 + 64000 > 200000, decrease input length or `max_tokens`",
    ],
)
async def test_a_prompt_that_does_not_fit_is_a_full_context(message: str) -> None:
    script = refused(400, "invalid_request_error", message)
    async with (
        loopback(script) as server,
        opened(server.url, wire="anthropic", settings=ModelSettings("claude-haiku-4-5")) as model,
    ):
        _, failure = await model.failing_answer()
    assert type(failure) is ContextFull


async def bodies(name: str, *refusals: list[Action], items: tuple[Item, ...] = ()) -> list[dict[str, Any]]:
    """What is sent until the server is content, and then once more."""
    answer = stream(START, *text_block(0, "ok"), ending(), STOP)
    async with (
        loopback(*refusals, answer, answer) as server,
        opened(server.url, wire="anthropic", settings=ModelSettings(name)) as model,
    ):
        for _ in range(2):
            await model.answer(prompt(*items))
    return [request.json for request in server.requests]


async def test_less_is_asked_for_where_the_model_may_write_less() -> None:
    too_many = refused(
        400, "invalid_request_error", "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens"
    )
    assert [body["max_tokens"] for body in await bodies("m", too_many)] == [32000, 8192, 8192]
    no_room = refused(400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 150000 + 64000 > 200000")
    assert [body["max_tokens"] for body in await bodies("claude-haiku-4-5", no_room)] == [64000, 50000, 50000]


async def test_what_a_server_does_not_know_is_left_out() -> None:
    name = "claude-sonnet-5-5"
    no_effort = refused(400, "invalid_request_error", "output_config: Extra inputs are not permitted")
    assert ["output_config" in body for body in await bodies(name, no_effort)] == [True, False, False]
    no_thinking = refused(400, "invalid_request_error", "thinking.type: adaptive thinking is not supported on this model")
    assert ["thinking" in body for body in await bodies(name, no_thinking)] == [True, False, False]
    no_cache = refused(400, "invalid_request_error", "cache_control: Extra inputs are not permitted")
    found = await bodies(name, no_cache)
    assert ["cache_control" in json.dumps(body) for body in found] == [True, False, False]


THOUGHT = Reasoning(summary=(SummaryText("hm"),), signature="sig", id="answer:1")
CALL = FunctionCall("shell", '{"command":["ls"]}', "toolu_1", id="answer:1")
OUTPUT = FunctionCallOutput("toolu_1", "a file")


async def test_thoughts_that_another_model_will_not_take_back_are_left_out() -> None:
    bound = refused(400, "invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` block")
    found = await bodies("claude-sonnet-5-5", bound, items=(user("go"), THOUGHT, CALL, OUTPUT))
    kinds = [[part["type"] for part in body["messages"][1]["content"]] for body in found]
    assert kinds == [["thinking", "tool_use"], ["tool_use"], ["tool_use"]]


# -- requests


async def test_the_request_has_the_shape_that_the_provider_expects() -> None:
    body = await sent(
        Message("developer", (InputText("be kind"),)),
        user("context"),
        Message("user", (InputText("see"), InputImage("data:image/png;base64,AA=="), InputImage("https://h/x.png"))),
        THOUGHT,
        CALL,
        OUTPUT,
    )
    marked = {"type": "text", "text": "be kind", "cache_control": {"type": "ephemeral"}}
    assert body == {
        "model": "claude-sonnet-5-5",
        "max_tokens": 128_000,
        "stream": True,
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "medium"},
        "cache_control": {"type": "ephemeral"},
        "system": [{"type": "text", "text": "be brief"}, marked],
        "tools": [{"name": "shell", "description": "Runs a command.", "input_schema": {"type": "object", "properties": {}}}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "context"},
                    {"type": "text", "text": "see"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
                    {"type": "image", "source": {"type": "url", "url": "https://h/x.png"}},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "sig"},
                    {"type": "tool_use", "id": "toolu_1", "name": "shell", "input": {"command": ["ls"]}},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "a file"}]},
        ],
    }


async def test_the_key_goes_into_its_own_header() -> None:
    env = {"MOCK_KEY": "sk-ant-0123456789"}
    answer = stream(START, *text_block(0, "ok"), ending(), STOP)
    async with loopback(answer) as server, opened(server.url, wire="anthropic", env_key="MOCK_KEY", env=env) as model:
        await model.answer()
    request = server.requests[0]
    assert request.target == "/v1/messages"
    assert (request.headers["x-api-key"], request.headers["anthropic-version"]) == (env["MOCK_KEY"], "2023-06-01")
    assert "authorization" not in request.headers


def roles(body: dict[str, Any]) -> list[tuple[str, list[str]]]:
    return [(turn["role"], [part["type"] for part in turn["content"]]) for turn in body["messages"]]


async def test_calls_of_one_answer_stand_together_and_their_results_after_them() -> None:
    second = FunctionCall("shell", "{}", "toolu_2", id="answer:1")
    third = FunctionCall("shell", "{}", "toolu_3", id="answer:2")
    together = await sent(
        user("go"),
        CALL,
        OUTPUT,
        second,
        FunctionCallOutput("toolu_2", "x"),
        third,
        FunctionCallOutput("toolu_3", "y"),
        user("more"),
    )
    assert roles(together) == [
        ("user", ["text"]),
        ("assistant", ["tool_use", "tool_use"]),
        ("user", ["tool_result", "tool_result"]),
        ("assistant", ["tool_use"]),
        ("user", ["tool_result", "text"]),
    ]


async def test_a_history_of_another_wire_is_understood() -> None:
    items = [
        user("go"),
        Reasoning(summary=(SummaryText("of another model"),), encrypted_content="ENC", id="rs_1"),
        said("I will"),
        FunctionCall("container.exec", "not json", "call:1", id="fc_1"),
        FunctionCallOutput("call:1", ""),
        FunctionCall("shell", "[1]", "call:1"),
        FunctionCall("shell", "{}", "lost"),
        FunctionCallOutput("call:1", "b"),
        FunctionCallOutput("nowhere", "stray"),
        said(" "),
        said("done"),
    ]
    body = await sent(*items)
    assert roles(body) == [
        ("user", ["text"]),
        ("assistant", ["text", "tool_use"]),
        ("user", ["tool_result"]),
        ("assistant", ["tool_use", "tool_use"]),
        ("user", ["tool_result", "tool_result", "text"]),
        ("assistant", ["text"]),
        ("user", ["text"]),
    ]
    calls = [part for turn in body["messages"] for part in turn["content"] if part["type"] == "tool_use"]
    assert [(call["id"], call["name"], call["input"]) for call in calls] == [
        ("call_1", "container_exec", {"input": "not json"}),
        ("call_1_2", "shell", {"input": "[1]"}),
        ("lost", "shell", {}),
    ]
    results = [part for turn in body["messages"] for part in turn["content"] if part["type"] == "tool_result"]
    assert [result["tool_use_id"] for result in results] == ["call_1", "call_1_2", "lost"]


async def test_thoughts_that_nothing_came_of_are_not_sent() -> None:
    broken_off = Reasoning(summary=(SummaryText("hm"),), signature="s", id="answer:0")
    assert roles(await sent(user("go"), broken_off, THOUGHT, CALL, OUTPUT))[1] == ("assistant", ["thinking", "tool_use"])


@pytest.mark.parametrize(
    ("model", "effort", "asked"),
    [
        (
            "claude-sonnet-5-5",
            "xhigh",
            {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "xhigh"}},
        ),
        (
            "claude-opus-4-6",
            "minimal",
            {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}},
        ),
        ("claude-sonnet-5", "none", {"thinking": {"type": "disabled"}}),
        ("claude-haiku-4-5", "medium", {"thinking": {"type": "enabled", "budget_tokens": 8192}}),
        ("claude-haiku-4-5", "max", {"thinking": {"type": "enabled", "budget_tokens": 32768}}),
        ("claude-haiku-4-5", "none", {}),
        ("claude-3-5-haiku", "high", {}),
        ("unheard-of", "high", {}),
    ],
)
async def test_thinking_is_asked_for_as_the_model_takes_it(model: str, effort: str, asked: dict[str, Any]) -> None:
    body = await sent(user("go"), model=model, reasoning_effort=effort)
    assert {key: body[key] for key in ("thinking", "output_config") if key in body} == asked


async def test_each_request_begins_with_the_bytes_of_the_one_before() -> None:
    answer = stream(START, *text_block(0, "ok"), ending(), STOP)
    history: list[Item] = [user("context"), user("go")]
    more = [[THOUGHT, CALL, OUTPUT], [said("done"), user("next")]]
    async with loopback(answer, answer, answer) as server, opened(server.url, wire="anthropic") as model:
        for items in ([], *more):
            history += items
            await model.answer(prompt(*history, tools=[SHELL]))
    first, second, third = (request.body for request in server.requests)
    assert second.startswith(first.removesuffix(b"]}"))
    assert third.startswith(second.removesuffix(b"]}"))


# -- any bytes


def typed(kind: str, key: str, value: Any) -> dict[str, Any]:
    return {"type": kind, key: value}


def begins(index: Any, block_: Any) -> dict[str, Any]:
    return event("content_block_start", index=index, content_block=block_)


def adds(index: Any, delta: Any) -> dict[str, Any]:
    return event("content_block_delta", index=index, delta=delta)


def stops(index: Any) -> dict[str, Any]:
    return event("content_block_stop", index=index)


def fails(error: Any) -> dict[str, Any]:
    return event("error", error=error)


pieces = st.text(max_size=8)
deltas: st.SearchStrategy[Any] = st.one_of(
    st.builds(typed, st.just("text_delta"), st.just("text"), pieces),
    st.builds(typed, st.just("thinking_delta"), st.just("thinking"), pieces),
    st.builds(typed, st.just("signature_delta"), st.just("signature"), pieces),
    st.builds(typed, st.just("input_json_delta"), st.just("partial_json"), pieces),
    st.none() | st.integers() | pieces,
)
indexes: st.SearchStrategy[Any] = st.integers(0, 2) | st.none() | st.just("1")
begun: st.SearchStrategy[Any] = st.sampled_from([
    {"type": "text", "text": "t"},
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "redacted_thinking", "data": "d"},
    {"type": "tool_use", "id": "c", "name": "n", "input": {}},
    {"type": "tool_use", "id": 3, "name": None, "input": [1]},
    {"type": "later_kind"},
    None,
])  # fmt: skip
events: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.sampled_from([START, STOP, event("ping")]),
    st.builds(begins, indexes, begun),
    st.builds(adds, indexes, deltas),
    st.builds(stops, indexes),
    st.builds(ending, st.sampled_from(["end_turn", "tool_use", "max_tokens", "refusal", "x"])),
    st.builds(fails, st.none() | st.dictionaries(pieces, pieces)),
    st.dictionaries(st.sampled_from(["type", "index", "delta", "usage", "message", "content"]), st.none() | st.integers() | pieces),
)


def decoded(data: bytes, cuts: list[int]) -> tuple[list[ModelEvent], str]:
    """What a decoder gives for the bytes, cut at these places, and how it ended."""
    splitter, decoder = SseSplitter(), AnthropicDecoder()
    ready: deque[ModelEvent] = deque()
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    try:
        for start, end in pairwise(places):
            decoder.feed(splitter.feed(data[start:end]), ready)
            if decoder.cut or decoder.ended:
                break
        if not (decoder.cut or decoder.ended):
            decoder.feed(splitter.close(), ready)
            decoder.close(ready)
    except ModelError as failure:
        return without_ids(list(ready)), type(failure).__name__
    return without_ids(list(ready)), "cut" if decoder.cut else "ended"


def without_new_call_ids(events_: list[ModelEvent]) -> list[ModelEvent]:
    return [
        ItemDone(FunctionCall(found.item.name, found.item.arguments, ""))
        if isinstance(found, ItemDone) and isinstance(found.item, FunctionCall)
        else found
        for found in events_
    ]


@given(st.lists(events, max_size=12), st.lists(st.integers(0, 2000), max_size=8), st.integers(0, 3000))
@example([START, *text_block(0, "ok"), ending(), STOP], [3, 50], 3000)
def test_the_same_is_read_however_the_bytes_are_cut_and_nothing_breaks_the_decoder(
    told: list[dict[str, Any]], cuts: list[int], length: int
) -> None:
    data = b"".join(f"event: x\ndata: {json.dumps(value)}\n\n".encode() for value in told)[:length]
    whole, how = decoded(data, [])
    assert how in ("ended", "cut", "StreamLost", "ModelRefused", "ContextFull")
    again, how_again = decoded(data, cuts)
    assert (without_new_call_ids(again), how_again) == (without_new_call_ids(whole), how)


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_no_bytes_at_all_break_the_decoder(payloads: list[bytes]) -> None:
    ready: deque[ModelEvent] = deque()
    decoder = AnthropicDecoder()
    try:
        decoder.feed(payloads, ready)
    except ModelError:
        return
    assert not decoder.ended or isinstance(ready[-1], Completed)


async def test_half_characters_are_joined_across_deltas() -> None:
    halves = [r'{"type":"text_delta","text":"a\ud83d"}', r'{"type":"text_delta","text":"\ude00b"}']
    told = [f'{{"type":"content_block_delta","index":0,"delta":{half}}}' for half in halves]
    start = event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    seen = await answer_to(START, start, *told, event("content_block_stop", index=0), ending(), STOP)
    assert seen == [TextDelta("a"), TextDelta("😀b"), ItemDone(said("a😀b")), COUNTED]


async def test_leaving_in_the_middle_closes_the_connection() -> None:
    actions: list[Action] = [STREAM_HEAD, chunk(f"data: {json.dumps(text_block(0, 'par')[0])}\n\n".encode())]
    told = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "par"})
    actions += [chunk(f"data: {json.dumps(told)}\n\n".encode()), "hang"]
    async with loopback(actions) as server, opened(server.url, wire="anthropic") as model:
        async with model.model.stream(prompt()) as answer:
            assert await anext(answer) == TextDelta("par")
        async with asyncio.timeout(BOUND):
            await server.hung_up.wait()


@pytest.mark.parametrize("text", ["here", ""])
async def test_images_of_an_output_are_blocks_of_its_result(text: str) -> None:
    body = await sent(user("go"), CALL, FunctionCallOutput("toolu_1", text, ("data:image/png;base64,AA==",)))
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    words = [{"type": "text", "text": text}] if text else []
    [result] = body["messages"][-1]["content"]
    assert result == {"type": "tool_result", "tool_use_id": "toolu_1", "content": [*words, image]}


async def test_a_model_without_eyes_is_told_of_the_images_in_an_output() -> None:
    items = (user("go"), CALL, FunctionCallOutput("toolu_1", "here", ("data:image/png;base64,AA==",)))
    body = (await bodies("glm-5", items=items))[0]
    [result] = body["messages"][-1]["content"]
    assert result["content"] == [{"type": "text", "text": f"here\n{NO_EYES}"}]
