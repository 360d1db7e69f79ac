"""When a request counts as the one that was recorded, and how a difference is shown."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.models.replay import Normaliser, difference

ONE = {"cwd": "/home/ann/project", "HOME": "/home/ann"}
TWO = {"cwd": "/tmp/x/project-2", "HOME": "/root"}


def same(left: Any, right: Any) -> bool:
    return Normaliser(ONE).normalise(left) == Normaliser(TWO).normalise(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("in /home/ann/project/src", "in /tmp/x/project-2/src"),
        ("/home/ann/.bashrc", "/root/.bashrc"),
        ("id 67e55044-10b1-426f-9247-bb680e5fe0c8", "id 00000000-10b1-426f-9247-bb680e5fe0c8"),
        ("call_0123456789abcdef01234567", "call_fedcba9876543210fedcba98"),
        ("commit 3f786850e387550fdab836ed7e6dc881de23001b", "commit 89e6c98d92887913cadf06b2adb97f26cde4849b"),
        ("on 2026-11-15T21:05:45.123Z", "on 2027-01-02T03:04:05Z"),
        ("Sun Nov 15 21:05:45 UTC 2026", "Mon Jan  4 01:02:03 UTC 2027"),
        ("-rw-r--r-- 1 ann ann 5 Nov 15 21:05 a.txt", "-rw-r--r-- 1 ann ann 5 Jan  4 2027 a.txt"),
        ("3 passed in 0.12s", "3 passed in 1.5s"),
        ("took 250 ms", "took 1000 ms"),
        (
            '{"output":"/home/ann/project\\nok","metadata":{"duration_seconds":0.1}}',
            '{"output":"/tmp/x/project-2\\nok","metadata":{"duration_seconds":2}}',
        ),
    ],
)
def test_what_differs_from_run_to_run_does_not_count(left: str, right: str) -> None:
    assert same({"messages": [{"content": left}]}, {"messages": [{"content": right}]})


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("fix the bug", "fix the bugs"),
        ("/home/ann/project/a", "/tmp/x/project-2/b"),
        ("/home/ann/projects", "/tmp/x/project-2"),
        ("exit code 0", "exit code 1"),
        ({"a": 1}, {"a": 2}),
        (["x"], ["x", "y"]),
        ({"first": "0123456789abcdef", "second": "0123456789abcdef"}, {"first": "0123456789abcdef", "second": "fedcba9876543210"}),
    ],
)
def test_what_was_asked_counts(left: Any, right: Any) -> None:
    assert not same(left, right)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_any_request_is_the_same_as_itself_and_has_no_difference(value: Any) -> None:
    assert Normaliser(ONE).normalise(value) == Normaliser(ONE).normalise(value)
    assert difference(value, value, 1) == ""


@given(json_values, json_values)
def test_a_difference_names_where_it_is_and_is_short(left: Any, right: Any) -> None:
    told = difference(left, right, 3)
    assert len(told.splitlines()) <= 61 or "\x0b" in told or not told.isascii()


def test_a_difference_shows_the_place_and_both_sides() -> None:
    told = difference({"input": [{"text": "a\nb\nc"}], "model": "m"}, {"input": [{"text": "a\nB\nc"}], "model": "m"}, 7)
    assert told.splitlines() == [
        "--- recorded (line 7)",
        "+++ sent",
        "@@ -1,3 +1,3 @@",
        " input[0].text: a",
        "-input[0].text: b",
        "+input[0].text: B",
        " input[0].text: c",
    ]
