"""Secrets that are spelt out over several events of a stream."""

import json
import re
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from understudy.models.stream_secrets import hide_in_body

SECRET = "hunter2-hunter2"
PATTERN = re.compile(SECRET)


def chat(piece: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": piece}}]}


def responses(piece: str) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "item_id": "m", "delta": piece}


def anthropic(piece: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}


def body_of(events: list[dict[str, Any]]) -> str:
    return "".join(f"event: x\ndata: {json.dumps(event)}\n\n" for event in events)


def joined(body: str, wire: Any) -> str:
    events = [json.loads(line.removeprefix("data: ")) for line in body.splitlines() if line.startswith("data: ")]
    found = [event["choices"][0]["delta"]["content"] if wire is chat else event["delta"] for event in events]
    return "".join(text if isinstance(text, str) else text["text"] for text in found)


@given(
    st.sampled_from([chat, responses, anthropic]),
    st.lists(st.integers(0, 60), max_size=10),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12),
)
def test_a_secret_is_hidden_however_it_is_cut_and_the_rest_stays(wire: Any, cuts: list[int], before: str, after: str) -> None:
    text = f"{before}{SECRET}{after}{SECRET}"
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [text[start:end] for start, end in pairwise(places)]
    hidden = hide_in_body(body_of([wire(piece) for piece in pieces]), PATTERN)
    assert joined(hidden, wire) == text.replace(SECRET, "[redacted]")


@given(st.text())
def test_a_body_without_secrets_stays_byte_for_byte(body: str) -> None:
    assert hide_in_body(body, re.compile("never-in-it-0123456789")) == body


def test_texts_of_different_blocks_are_not_joined() -> None:
    first = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": SECRET[:7]}}
    second = {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": SECRET[7:]}}
    body = body_of([first, second])
    assert hide_in_body(body, PATTERN) == body


def test_numbers_and_the_form_of_events_stay() -> None:
    pattern = re.compile("20261115")
    body = body_of([{"usage": {"input_tokens": 20261115}, "text": "it is 20261115"}])
    hidden = hide_in_body(body, pattern)
    assert json.loads(hidden.splitlines()[1].removeprefix("data: ")) == {
        "usage": {"input_tokens": 20261115},
        "text": "it is [redacted]",
    }
    whole = json.dumps({"error": {"message": "20261115", "code": 20261115}})
    assert json.loads(hide_in_body(whole, pattern)) == {"error": {"message": "[redacted]", "code": 20261115}}
    assert hide_in_body("plain 20261115", pattern) == "plain [redacted]"


def test_a_secret_is_taken_out_of_a_name_and_a_field_keeps_its_own() -> None:
    body = json.dumps({"content": {SECRET: 1, "x": "content"}})
    assert json.loads(hide_in_body(body, re.compile(f"{SECRET}|content"))) == {"content": {"[redacted]": 1, "x": "[redacted]"}}


def test_the_pieces_of_two_calls_that_come_by_turns_are_joined_each_for_itself() -> None:
    def piece(index: int, text: str) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": index, "function": {"arguments": text}}]}}]}

    body = body_of([piece(0, SECRET[:7]), piece(1, "of another"), piece(0, SECRET[7:])])
    hidden = hide_in_body(body, PATTERN)
    assert SECRET[:7] not in hidden
    assert "of another" in hidden


def test_what_is_nested_without_end_is_searched_as_text() -> None:
    for deep in (f"{'[' * 700}{json.dumps(SECRET)}{']' * 700}", f"{'[' * 100_000}{json.dumps(SECRET)}"):
        assert hide_in_body(deep, PATTERN) == deep.replace(SECRET, "[redacted]")
        event = f'data: {{"deep": {deep}}}\n\n'
        assert hide_in_body(event, PATTERN) == event.replace(SECRET, "[redacted]")
