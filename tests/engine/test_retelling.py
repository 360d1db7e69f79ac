"""A retried answer is shown only beyond what was shown before; what it leaves out or changes is taken back, with a word."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from understudy.engine.retelling import Retelling


def tell(retelling: Retelling, pieces: list[str]) -> str:
    return "".join(retelling.hear(piece) for piece in pieces)


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    borders = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(borders)]


_cuts = st.lists(st.integers(0, 30), max_size=5)


@given(st.text(max_size=30), _cuts, _cuts, st.integers(0, 30))
def test_the_same_text_again_is_shown_once(text: str, first: list[int], second: list[int], broke_at: int) -> None:
    retelling = Retelling()
    shown = tell(retelling, pieces_of(text[:broke_at], first))
    retelling.begin_again()
    shown += tell(retelling, pieces_of(text, second))
    assert shown == text
    assert retelling.told == text
    assert not retelling.falls_short


@given(st.text(max_size=20), st.text(max_size=20), _cuts)
def test_another_text_is_never_mixed_with_the_first(before: str, after: str, cuts: list[int]) -> None:
    retelling = Retelling()
    shown = tell(retelling, [before])
    retelling.begin_again()
    strayed = False
    for piece in pieces_of(after, cuts):
        shown += retelling.hear(piece)
        strayed = strayed or retelling.strayed_now
    if after.startswith(before):
        assert (shown, strayed, retelling.falls_short) == (after, False, False)
    else:
        assert shown == before
        assert strayed or retelling.falls_short
    retelling.finish()
    assert (retelling.told, retelling.falls_short) == ("", False)
    assert retelling.hear("next") == "next"


def test_it_may_break_again_and_again() -> None:
    retelling = Retelling()
    assert tell(retelling, ["Hel"]) == "Hel"
    retelling.begin_again()
    assert tell(retelling, ["H"]) == ""
    retelling.begin_again()
    assert tell(retelling, ["Hello"]) == "lo"
    retelling.begin_again()
    assert tell(retelling, ["Hello", "!"]) == "!"


def test_it_says_once_that_it_went_another_way() -> None:
    retelling = Retelling()
    tell(retelling, ["Hel"])
    retelling.begin_again()
    assert retelling.hear("Good") == ""
    assert retelling.strayed_now
    assert retelling.hear(" day") == ""
    assert not retelling.strayed_now
    assert retelling.told == "", "nothing of it counts any more"
