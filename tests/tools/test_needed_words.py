"""Words that a pattern needs: a line that it fits always holds one of them."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.tools.acts.needed_words import needed_words


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("needle", ("needle",)),
        (r"def \w+_handler", ("_handler",)),
        (r"foo\.bar\(", ("foo.bar(",)),
        ("colou?rs", ("colo",)),
        ("abcd+ef", ("abcd",)),
        ("abc{2}def", ("def",)),
        ("a{0,1}{x{10", ()),
        ("^import (one|two) as$", ("import ",)),
        ("one1|two2", ("one1", "two2")),
        ("one1|t[wx]o", ()),
        ("(one|two)three", ("three",)),
        ("[]x]abc[^]]", ("abc",)),
        ("(?=abc)abcd(?!x)", ("abcd",)),
        (r"\bword\b", ("word",)),
        ("ab", ()),
        (".*", ()),
        ("(?i)needle", ()),
        ("(a(?i:b))cde", ()),
        (r"\x41bcd", ()),
        (r"(abc)\1def", ()),
        ("a\nbcd", ()),
        ("bad\ufffdchar", ()),
    ],
)
def test_the_longest_run_of_each_alternative_is_needed(pattern: str, words: tuple[str, ...]) -> None:
    assert needed_words(pattern) == words


ATOMS = r"abc a b é . | ( ) [ab] [^a] []a] (?: (?= (?i) (?#x) (?P<n> (?P=n) \w \b \. \( \\ \x61 \n \1 ^ $ ] - c"
PIECES = st.sampled_from([*ATOMS.split(), *["*", "+", "?", "{2}", "{", "}", "{0,1}", "{,}", "{100", "??", "*+"]])


@settings(max_examples=500)
@given(
    pattern=st.lists(PIECES, max_size=9).map("".join),
    line=st.lists(st.sampled_from(["abc", "a", "b", "c", "é", ".", "(", "{2}", "]", "-", "\\", " "]), max_size=9).map("".join),
)
def test_no_line_that_fits_is_without_one_of_them(pattern: str, line: str) -> None:
    try:
        found = re.search(pattern, line)
    except (re.error, OverflowError, RecursionError, FutureWarning, DeprecationWarning):
        return
    words = needed_words(pattern)
    if found is not None and words:
        assert any(word in line for word in words)
