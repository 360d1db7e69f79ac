"""How much one answer may hold, and that the work to read it grows with its size and no faster."""

import json
import sys
from collections import deque
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from understudy.errors import ModelRefused
from understudy.models.model import ItemDone, ModelEvent
from understudy.models.wires import wire
from understudy.models.wires.chat_stream import ChatDecoder
from understudy.models.wires.responses_stream import ResponsesDecoder
from understudy.models.wires.sse import EventTooLarge, SseSplitter
from understudy.models.wires.wire import Decoder
from understudy.net.connection import HEAD_LIMIT

MIB = 1024 * 1024


def chat_decoder() -> ChatDecoder:
    return ChatDecoder(expects_usage=False, show_raw=True)


def encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def delta(**fields: Any) -> bytes:
    return encoded({"choices": [{"index": 0, "delta": fields}]})


def call(index: int, arguments: str) -> bytes:
    function = {"name": "f", "arguments": arguments}
    return delta(tool_calls=[{"index": index, "id": f"c{index}", "function": function}])


def fed(decoder: Decoder, payload: bytes, times: int) -> str:
    """The reason why the last of so many is refused."""
    for _ in range(times - 1):
        queue: deque[ModelEvent] = deque()
        decoder.feed([payload], queue)
    with pytest.raises(ModelRefused) as refusal:
        decoder.feed([payload], deque[ModelEvent]())
    return str(refusal.value)


TEXT = "x" * MIB


@pytest.mark.parametrize(
    ("decoder", "payload", "times", "reason"),
    [
        (chat_decoder(), delta(content=TEXT), 5, "more than 4 MiB of text"),
        (chat_decoder(), delta(content=[{"type": "text", "text": TEXT}]), 5, "more than 4 MiB of text"),
        (chat_decoder(), delta(content="é" * (MIB // 2)), 5, "more than 4 MiB of text"),
        (chat_decoder(), delta(refusal=TEXT), 5, "more than 4 MiB of text"),
        (chat_decoder(), delta(reasoning=TEXT), 5, "more than 4 MiB of reasoning"),
        (chat_decoder(), call(0, TEXT), 8, "more than 8 MiB of arguments for tools"),
        (chat_decoder(), delta(tool_calls=[{"function": {"name": TEXT}}]), 9, "more than 8 MiB of arguments for tools"),
        (ResponsesDecoder(show_raw=True), encoded({"type": "response.output_text.delta", "delta": TEXT}), 5, "4 MiB of text"),
        (ResponsesDecoder(show_raw=True), encoded({"type": "response.reasoning_text.delta", "delta": TEXT}), 5, "of reasoning"),
        (
            ResponsesDecoder(show_raw=True),
            encoded({"type": "response.output_item.done", "item": {"type": "message", "content": [{"text": TEXT}]}}),
            5,
            "more than 4 MiB of text",
        ),
        (
            ResponsesDecoder(show_raw=True),
            encoded({"type": "response.output_item.done", "item": {"type": "function_call", "name": "f", "arguments": TEXT}}),
            8,
            "more than 8 MiB of arguments for tools",
        ),
        (
            ResponsesDecoder(show_raw=True),
            encoded({"type": "response.output_item.done", "item": {"type": "function_call", "name": "f", "arguments": ""}}),
            wire.ANSWER_ITEMS + 1,
            "more than 16384 messages and tool calls",
        ),
    ],
)
def test_an_answer_beyond_a_limit_is_refused_with_the_limit(decoder: Decoder, payload: bytes, times: int, reason: str) -> None:
    assert reason in fed(decoder, payload, times)


def test_calls_beyond_the_limit_are_refused_whether_they_are_whole_or_not() -> None:
    decoder = chat_decoder()
    with pytest.raises(ModelRefused, match="more than 16384 messages and tool calls"):
        decoder.feed([call(number, "{") for number in range(wire.ANSWER_ITEMS + 1)], deque[ModelEvent]())


def test_an_answer_up_to_the_limit_is_taken() -> None:
    queue: deque[ModelEvent] = deque()
    decoder = chat_decoder()
    decoder.feed([delta(content=TEXT)] * 4, queue)
    decoder.feed([encoded({"choices": [{"delta": {}, "finish_reason": "stop"}]})], queue)
    assert decoder.ended


@pytest.mark.parametrize("shape", ["numbered", "by id", "bare", "side by side", "all number 0", "one event"])
def test_the_work_for_a_call_does_not_grow_with_their_number(shape: str) -> None:
    def payloads(count: int) -> list[bytes]:
        function = {"name": "f", "arguments": "{}"}
        match shape:
            case "numbered":
                return [call(number, "{}") for number in range(count)]
            case "by id":
                return [delta(tool_calls=[{"id": f"c{number}", "function": function}]) for number in range(count)]
            case "bare":
                return [delta(tool_calls=[{"function": function}]) for _ in range(count)]
            case "side by side":  # the first is complete only at the end, so none can be given before
                return [call(0, '{"a": "'), *(call(number, "{}") for number in range(1, count)), call(0, '"}')]
            case "all number 0":
                return [delta(tool_calls=[{"index": 0, "id": f"c{number}", "function": function}]) for number in range(count)]
            case _:
                calls = [{"index": number, "id": f"c{number}", "function": function} for number in range(count)]
                return [delta(tool_calls=calls)]

    def lines(count: int) -> int:
        """Lines of Python that were run to read so many calls."""
        events = [*payloads(count), encoded({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})]
        queue: deque[ModelEvent] = deque()
        ran = 0

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal ran
            ran += event == "line"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            chat_decoder().feed(events, queue)
        finally:
            sys.settrace(before)
        assert sum(isinstance(event, ItemDone) for event in queue) == count
        return ran

    assert lines(400) < 2.1 * lines(200)


def test_a_call_that_grows_is_not_read_again_with_each_piece() -> None:
    """The first call is written side by side with thousands of others, and is long."""
    queue: deque[ModelEvent] = deque()
    decoder = chat_decoder()
    decoder.feed([call(0, '{"a": "' + "x" * MIB)], queue)
    decoder.feed([payload for number in range(1, 5_000) for payload in (call(number, "{}"), call(0, "y"))], queue)
    assert not queue
    decoder.feed([call(0, '"}'), encoded({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})], queue)
    assert sum(isinstance(event, ItemDone) for event in queue) == 5_000


def test_a_line_that_comes_byte_by_byte_is_counted() -> None:
    splitter = SseSplitter(limit=1000)
    for _ in range(1000):
        splitter.feed(b"x")
    with pytest.raises(EventTooLarge, match="more than 1000 bytes"):
        splitter.feed(b"x")


def test_an_event_of_endless_lines_is_refused() -> None:
    splitter = SseSplitter()
    splitter.feed(b"data\n" * MIB)
    with pytest.raises(EventTooLarge):
        splitter.feed(b"data\n")


def test_the_page_names_the_figures() -> None:
    page = " ".join((Path(__file__).parents[2] / "docs" / "configuration.md").read_text().split())
    assert f"at most {wire.ANSWER_TEXT // MIB} MiB of text, as much reasoning, {wire.ANSWER_ARGUMENTS // MIB} MiB of arg" in page
    assert f"{wire.ANSWER_ITEMS} messages and tool calls; one event of its stream may have {wire.EVENT_LIMIT // MIB} MiB" in page
    assert f"its HTTP headers {HEAD_LIMIT // 1024} KiB" in page
