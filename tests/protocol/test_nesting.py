"""How deeply JSON is nested, told by its brackets."""

import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.protocol.jsonrpc import MOST_NESTED, Malformed, Request, is_deeper_than, read_line

JSON = st.recursive(
    st.none() | st.integers() | st.text('[]{}"\\ aé', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('[]{}"\\ aé', max_size=4), inner, max_size=3),
    max_leaves=20,
)


def depth_of(value: Any) -> int:
    match value:
        case dict():
            return 1 + max(map(depth_of, cast(dict[str, Any], value).values()), default=0)
        case list():
            return 1 + max(map(depth_of, cast(list[Any], value)), default=0)
        case _:
            return 0


@given(JSON, st.integers(0, 8), st.booleans())
def test_it_is_what_a_parser_finds(value: Any, levels: int, ascii_only: bool) -> None:
    assert is_deeper_than(json.dumps(value, ensure_ascii=ascii_only).encode(), levels) == (depth_of(value) > levels)


@pytest.mark.parametrize("text", [b'"[[[[', b'"\\"[[[["', b"]]]]", b"", b'{"a":"[[[[', b"]][["])
def test_what_is_no_json_may_be_asked_about_too(text: bytes) -> None:
    assert not is_deeper_than(text, 5)


def test_a_message_is_read_down_to_the_same_level_with_every_interpreter() -> None:
    lines = [b'{"id":1,"method":"m","params":' + b"[" * depth + b"]" * depth + b"}" for depth in (MOST_NESTED - 1, MOST_NESTED)]
    read, refused = map(read_line, lines)
    assert isinstance(read, Request)
    assert isinstance(refused, Malformed)
    assert (refused.id, refused.reason) == (1, "Parse error: it is nested too deeply")


def test_many_brackets_beside_each_other_are_not_deep() -> None:
    assert isinstance(read_line(b'{"id":1,"method":"m","params":[' + b"[]," * 5000 + b"[]]}"), Request)
