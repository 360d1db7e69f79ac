"""What is kept of a session's output between two calls: bounded, in order, and no character cut in two."""

import math

from hypothesis import given
from hypothesis import strategies as st

from understudy.tools.session import KEPT_BYTES, Unread


@given(st.lists(st.text(min_size=1), max_size=20), st.data())
def test_however_it_comes_and_is_asked_for_nothing_is_lost_doubled_or_broken(texts: list[str], data: st.DataObject) -> None:
    raw = "".join(texts).encode()
    unread = Unread()
    told: list[str] = []
    while raw:
        size = data.draw(st.integers(1, len(raw)))
        unread.feed(raw[:size])
        raw = raw[size:]
        if data.draw(st.booleans()):
            told.append(unread.take(10_000, more_may_come=True)[0])
    told.append(unread.take(10_000, more_may_come=False)[0])
    assert "".join(told) == "".join(texts)


@given(st.binary(max_size=2_000), st.integers(0, 600), st.booleans())
def test_any_bytes_are_told_within_the_bound(raw: bytes, tokens: int, more: bool) -> None:
    unread = Unread()
    unread.feed(raw)
    text, counted = unread.take(tokens, more_may_come=more)
    assert counted <= math.ceil(len(raw) / 4)
    assert len(text) <= tokens * 4 + 80


def test_what_is_kept_is_bounded_and_its_middle_goes() -> None:
    unread = Unread()
    unread.feed(b"first ")
    for _ in range(100):
        unread.feed(b"x" * 100_000)
    unread.feed(b" last")
    text, tokens = unread.take(10**9, more_may_come=False)
    assert (text[:6], text[-5:], tokens) == ("first ", " last", math.ceil(10_000_011 / 4))
    assert len(text) < KEPT_BYTES + 100
    assert unread.take(100, more_may_come=False) == ("", 0)
