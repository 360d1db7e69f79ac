"""A retried answer is shown only beyond what was shown before; what it leaves out or changes is taken back, with a word."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from understudy.engine.log.unfinished_text import ShownText


def tell(heard: ShownText, pieces: list[str]) -> str:
    return "".join(heard.hear(piece) for piece in pieces)


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    borders = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(borders)]


_cuts = st.lists(st.integers(0, 30), max_size=5)


@given(st.text(max_size=30), _cuts, _cuts, st.integers(0, 30))
def test_the_same_text_again_is_shown_once(text: str, first: list[int], second: list[int], broke_at: int) -> None:
    heard = ShownText()
    shown = tell(heard, pieces_of(text[:broke_at], first))
    heard.begin_again()
    shown += tell(heard, pieces_of(text, second))
    assert shown == text
    assert heard.shown == text
    assert not heard.falls_short


@given(st.text(max_size=20), st.text(max_size=20), _cuts)
def test_another_text_is_never_mixed_with_the_first(before: str, after: str, cuts: list[int]) -> None:
    heard = ShownText()
    shown = tell(heard, [before])
    heard.begin_again()
    strayed = False
    for piece in pieces_of(after, cuts):
        shown += heard.hear(piece)
        strayed = strayed or heard.strayed_now
    if after.startswith(before):
        assert (shown, strayed, heard.falls_short) == (after, False, False)
    else:
        assert shown == before
        assert strayed or heard.falls_short
    heard.finish()
    assert (heard.shown, heard.falls_short) == ("", False)
    assert heard.hear("next") == "next"


def test_it_may_break_again_and_again() -> None:
    heard = ShownText()
    assert tell(heard, ["Hel"]) == "Hel"
    heard.begin_again()
    assert tell(heard, ["H"]) == ""
    heard.begin_again()
    assert tell(heard, ["Hello"]) == "lo"
    heard.begin_again()
    assert tell(heard, ["Hello", "!"]) == "!"


def test_it_says_once_that_it_went_another_way() -> None:
    heard = ShownText()
    tell(heard, ["Hel"])
    heard.begin_again()
    assert heard.hear("Good") == ""
    assert heard.strayed_now
    assert heard.hear(" day") == ""
    assert not heard.strayed_now
    assert heard.shown == "", "nothing of it counts any more"
