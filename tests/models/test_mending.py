"""Text that a provider cut in pieces or broke: nothing of it is dropped, and all of it can be written down."""

import json
import math
from collections import deque
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.models.mending import whole
from understudy.models.model import Completed, ItemDone, ModelEvent
from understudy.models.wires.chat_stream import ChatDecoder
from understudy.models.wires.responses_stream import ResponsesDecoder
from understudy.models.wires.wire import Decoder, read_usage
from understudy.protocol.items import FunctionCall, Message, OutputText, Reasoning, ReasoningText, SummaryText, Usage
from understudy.protocol.records import ReasoningDelta, TextDelta

SMILE = "\U0001f600"
FIRST, SECOND = "\ud83d", "\ude00"  # its two halves


def events_of(decoder: Decoder, *payloads: bytes | dict[str, Any]) -> list[ModelEvent]:
    queue: deque[ModelEvent] = deque()
    for payload in payloads:
        decoder.feed([payload if isinstance(payload, bytes) else json.dumps(payload).encode()], queue)
    decoder.close(queue)
    return list(queue)


def chat(*payloads: bytes | dict[str, Any]) -> list[ModelEvent]:
    return events_of(ChatDecoder(expects_usage=False, show_raw=True), *payloads)


def responses(*payloads: bytes | dict[str, Any]) -> list[ModelEvent]:
    return events_of(ResponsesDecoder(show_raw=True), *payloads, {"type": "response.completed", "response": {"id": "r"}})


def delta(finish_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish_reason}]}


def shown(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def thought(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, ReasoningDelta))


def items(events: list[ModelEvent]) -> list[Any]:
    return [event.item for event in events if isinstance(event, ItemDone)]


def said(text: str) -> Message:
    return Message("assistant", (OutputText(text),))


@st.composite
def cut_texts(draw: st.DrawFn) -> tuple[str, list[bytes]]:
    """A text, and the same as JSON strings: cut anywhere, also inside a character, and escaped in either way."""
    text = draw(
        st.text(st.sampled_from(f'aé"\\\n{SMILE}\U0001f468\u200d€') | st.characters(exclude_categories=("Cs",)), max_size=12)
    )
    units = text.encode("utf-16-le")
    cuts = draw(st.lists(st.integers(0, len(units) // 2), max_size=6))
    borders = sorted({0, len(units) // 2, *cuts})
    pieces: list[bytes] = []
    for start, end in pairwise(borders):
        piece = units[2 * start : 2 * end].decode("utf-16-le", "surrogatepass")
        plain = json.dumps(piece, ensure_ascii=draw(st.booleans()))
        try:
            pieces.append(plain.encode())
        except UnicodeEncodeError:  # half a character can only be escaped
            pieces.append(json.dumps(piece).encode())
    return text, pieces


@settings(max_examples=200, deadline=None)
@given(cut_texts())
def test_text_of_any_cut_and_spelling_arrives_whole_over_chat(cut: tuple[str, list[bytes]]) -> None:
    text, pieces = cut
    events = chat(*(b'{"choices":[{"delta":{"content":%b}}]}' % piece for piece in pieces), delta("stop"))
    assert shown(events) == text
    assert items(events) == ([said(text)] if text else [])


@settings(max_examples=100, deadline=None)
@given(cut_texts())
def test_reasoning_of_any_cut_and_spelling_arrives_whole_over_chat(cut: tuple[str, list[bytes]]) -> None:
    text, pieces = cut
    events = chat(*(b'{"choices":[{"delta":{"reasoning_content":%b}}]}' % piece for piece in pieces), delta("stop"))
    assert thought(events) == text
    assert items(events) == ([Reasoning(content=(ReasoningText(text),))] if text else [])


@settings(max_examples=100, deadline=None)
@given(cut_texts())
def test_arguments_of_any_cut_and_spelling_arrive_whole_over_chat(cut: tuple[str, list[bytes]]) -> None:
    text, pieces = cut
    head = b'{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":'
    events = chat(*(head + piece + b"}}]}}]}" for piece in (b'"<"', *pieces)), delta("tool_calls"))
    assert items(events) == [FunctionCall("f", "<" + text, "c")]


@settings(max_examples=100, deadline=None)
@given(cut_texts(), st.sampled_from(["output_text", "refusal", "reasoning_summary_text", "reasoning_text"]))
def test_deltas_of_any_cut_and_spelling_arrive_whole_over_responses(cut: tuple[str, list[bytes]], kind: str) -> None:
    text, pieces = cut
    events = responses(*(b'{"type":"response.%b.delta","delta":%b}' % (kind.encode(), piece) for piece in pieces))
    assert (thought(events) if kind.startswith("reasoning") else shown(events)) == text


@pytest.mark.parametrize("half", [FIRST, SECOND, SECOND + FIRST])
def test_half_a_character_that_stays_alone_is_shown_as_lost(half: str) -> None:
    lost = "\ufffd" * len(half)
    events = chat(delta(content=f"a{half}"), delta(content="b"), delta("stop"))
    assert (shown(events), items(events)) == (f"a{lost}b", [said(f"a{lost}b")])
    events = chat(delta(content=f"a{half}"), delta("stop"))
    assert (shown(events), items(events)) == (f"a{lost}", [said(f"a{lost}")])


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"type": "message", "content": [{"text": f"a{FIRST}"}]}, said("a\ufffd")),
        ({"type": "message", "id": SECOND, "content": []}, Message("assistant", (), "\ufffd")),
        ({"type": "message", "content": [{"text": FIRST + SECOND}]}, said(SMILE)),
        ({"type": "reasoning", "summary": [{"text": SECOND}]}, Reasoning(summary=(SummaryText("\ufffd"),))),
        ({"type": "function_call", "name": "f", "call_id": "c", "arguments": f'"{FIRST}"'}, FunctionCall("f", '"\ufffd"', "c")),
    ],
)
def test_a_responses_item_with_half_a_character_is_mended(item: dict[str, Any], expected: Any) -> None:
    assert items(responses({"type": "response.output_item.done", "item": item})) == [expected]


def test_bytes_that_are_not_utf_8_are_replaced_in_both_wires() -> None:
    assert items(chat(b'{"choices":[{"delta":{"content":"a\xffb"}}]}', delta("stop"))) == [said("a\ufffdb")]
    assert shown(responses(b'{"type":"response.output_text.delta","delta":"a\xff\xfeb"}')) == "a\ufffd\ufffdb"
    item = b'{"type":"response.output_item.done","item":{"type":"message","content":[{"text":"\xc3("}]}}'
    assert items(responses(item)) == [said("\ufffd(")]


def test_names_and_ids_of_calls_can_be_written_down() -> None:
    call = {"index": 0, "id": f"c{FIRST}", "function": {"name": f"f{SECOND}", "arguments": "{}"}}
    assert items(chat(delta(tool_calls=[call]), delta("tool_calls"))) == [FunctionCall("f\ufffd", "{}", "c\ufffd")]


def test_a_field_of_another_type_does_not_take_the_text_beside_it_along() -> None:
    events = chat(delta(content="kept", refusal=5, reasoning=7), delta("stop"))
    assert items(events) == [said("kept")]


def test_text_nested_without_end_is_left_out() -> None:
    deep: Any = "x"
    for _ in range(400):
        deep = [deep]
    assert items(chat(delta(content=deep), delta(content="y"), delta("stop"))) == [said("y")]


@pytest.mark.parametrize(
    "odd", ["9" * 4400, "9" * 300, "-5", "1e400", "NaN", '"7"', "true", "null", "[1]", "{}"], ids=lambda value: value[:5]
)
@pytest.mark.parametrize("wire", ["chat", "responses"])
def test_odd_token_counts_are_ignored_and_the_answer_counts(wire: str, odd: str) -> None:
    usage = f'{{"prompt_tokens":{odd},"completion_tokens":2,"total_tokens":{odd}}}'.encode()
    if wire == "chat":
        events = chat(delta(content="hi"), b'{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":%b}' % usage)
    else:
        decoder = ResponsesDecoder(show_raw=False)
        events = events_of(decoder, b'{"type":"response.completed","response":{"usage":%b}}' % usage)
    assert events[-1] == Completed(Usage(0, 2, 2))


@pytest.mark.parametrize(
    ("count", "read"), [(7, 7), (7.9, 7), (-1, 0), (10**13, 0), (math.inf, 0), (math.nan, 0), ("7", 0), (True, 0), (None, 0)]
)
def test_a_token_count_is_a_number_that_can_be(count: Any, read: int) -> None:
    assert read_usage({"prompt_tokens": count, "completion_tokens": 1}) == Usage(read, 1, read + 1)


@given(st.text(st.characters(codec="utf-8")))
def test_whole_text_stays_as_it_is(text: str) -> None:
    assert whole(text) == text
