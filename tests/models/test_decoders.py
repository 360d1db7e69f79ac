"""Whatever a provider sends, a decoder gives events or a model error, and nothing after the end."""

import json
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.errors import ModelError
from understudy.models.model import Completed, ModelEvent
from understudy.models.wires.chat_stream import ChatDecoder
from understudy.models.wires.responses_stream import ResponsesDecoder
from understudy.models.wires.wire import Decoder

KEYS = [
    "choices",
    "delta",
    "message",
    "content",
    "tool_calls",
    "index",
    "id",
    "function",
    "name",
    "arguments",
    "finish_reason",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "usage",
    "error",
    "code",
    "text",
    "type",
    "item",
    "response",
    "output",
    "summary",
    "status",
    "incomplete_details",
    "prompt_tokens",
    "completion_tokens",
    "object",
    "call_id",
    "encrypted_content",
    "role",
    "refusal",
]
WORDS = [
    "stop",
    "tool_calls",
    "length",
    "error",
    "a",
    "{}",
    "[DONE]",
    "message",
    "reasoning",
    "function_call",
    "incomplete",
    "response",
    "response.output_item.done",
    "response.output_text.delta",
    "response.completed",
    "response.failed",
    "response.incomplete",
    "response.reasoning_text.delta",
]


def values() -> st.SearchStrategy[Any]:
    plain = (
        st.none() | st.booleans() | st.integers(-2, 700) | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(WORDS)
    )
    return st.recursive(
        plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5), max_leaves=6
    )


def chat_chunks() -> st.SearchStrategy[Any]:
    delta = st.dictionaries(st.sampled_from(KEYS), values(), max_size=4)
    choice = st.fixed_dictionaries({"delta": delta}, optional={"finish_reason": st.none() | st.sampled_from(WORDS)})
    return st.fixed_dictionaries({"choices": st.lists(choice, max_size=2)}, optional={"usage": values()})


def response_events() -> st.SearchStrategy[Any]:
    fields = {key: values() for key in ("delta", "item", "response", "error", "message", "code")}
    return st.fixed_dictionaries(
        {"type": st.sampled_from([word for word in WORDS if "." in word] + ["error", ""])}, optional=fields
    )


def read(decoder: Decoder, chunks: list[Any]) -> list[ModelEvent]:
    queue: deque[ModelEvent] = deque()
    try:
        for value in chunks:
            decoder.feed([json.dumps(value).encode()], queue)
        decoder.close(queue)
    except ModelError:
        pass
    return list(queue)


@pytest.mark.slow
@pytest.mark.parametrize("wire", ["chat", "responses"])
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_no_answer_is_too_odd(wire: str, data: st.DataObject) -> None:
    chat = wire == "chat"
    chunks = data.draw(st.lists(values() | (chat_chunks() if chat else response_events()), max_size=6))
    decoder = ChatDecoder(expects_usage=data.draw(st.booleans()), show_raw=True) if chat else ResponsesDecoder(show_raw=True)
    events = read(decoder, chunks)
    ends = [number for number, event in enumerate(events) if isinstance(event, Completed)]
    assert ends in ([], [len(events) - 1])
    assert decoder.ended == bool(ends)
