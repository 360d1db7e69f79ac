"""A tool's arguments: every case style, absent and null alike, and a mistake that names the nearest."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.errors import InvalidArguments
from understudy.protocol.records import Overrides
from understudy.servers.arguments import CODEX, CODEX_REPLY, Arguments, count, overrides_from, text, whole_number


@pytest.mark.parametrize("name", ["base-instructions", "baseInstructions", "base_instructions", "BASE_INSTRUCTIONS"])
def test_case_styles_are_one(name: str) -> None:
    assert CODEX.read({"prompt": "x", name: "be good"}) == {"prompt": "x", "base-instructions": "be good"}


def test_null_is_absent_where_it_may_be() -> None:
    assert CODEX.read({"prompt": "x", "model": None, "_meta": {"progressToken": 1}}) == {"prompt": "x"}
    with pytest.raises(InvalidArguments, match="invalid type: null, expected a string"):
        CODEX.read({"prompt": None})
    assert CODEX_REPLY.read({"threadId": None, "prompt": "x"}) == {"prompt": "x"}
    assert CODEX.read({"prompt": "x", "base-instructions": None, "baseInstructions": "b"})["base-instructions"] == "b"


@pytest.mark.parametrize(
    ("given_", "problem"),
    [
        (
            {"prompt": "x", "approval-policy": "untrusted", "approvalPolicy": "never"},
            "duplicate field `approval-policy`\n`approvalPolicy` and `approval-policy` are two spellings of it. Give one.",
        ),
        ({"prompt": "x", "budget": {"cost_usd": 1, "costUsd": 100}}, "duplicate field `cost_usd`\nin `budget`"),
    ],
)
def test_of_two_spellings_of_one_name_none_is_taken(given_: Any, problem: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        CODEX.read(given_)
    assert str(caught.value) == problem


def test_a_wrong_member_is_named_with_its_place() -> None:
    with pytest.raises(InvalidArguments) as caught:
        CODEX.read({"prompt": "x", "include-plan-tool": 1})
    assert str(caught.value) == "invalid type: integer `1`, expected a boolean\nin `include-plan-tool`"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (0, None),
        (5, None),
        (2**32 - 1, None),
        (2**32, "invalid value: integer `4294967296`, expected u32"),
        (-1, "invalid value: integer `-1`, expected u32"),
        (True, "invalid type: boolean `true`, expected u32"),
        (1.0, "invalid type: floating point `1.0`, expected u32"),
        ("1", 'invalid type: string "1", expected u32'),
    ],
)
def test_counts_are_whole_and_not_negative(value: Any, problem: str | None) -> None:
    assert count(value) == problem


def test_sequence_numbers_go_further() -> None:
    assert whole_number(2**63 - 1) is None
    assert whole_number(2**63) == f"invalid value: integer `{2**63}`, expected u64"


def test_what_a_caller_chose_is_taken_from_either_style() -> None:
    chosen = overrides_from({"prompt": "x", "approval-policy": "never", "base_instructions": "b", "config": {"a": 1}})
    assert chosen == Overrides(approval_policy="never", base_instructions="b", config={"a": 1})


_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=5,
)


@given(_anything)
def test_any_arguments_are_read_or_refused_with_words(given_: Any) -> None:
    members = Arguments("struct X", {"prompt": text, "limit": count}, ("prompt",))
    try:
        told: Any = members.read(given_)["prompt"]
    except InvalidArguments as error:
        told = str(error)
    assert isinstance(told, str)
