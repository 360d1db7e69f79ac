"""Finding a run of lines: four passes, from strict to lenient, each over the whole range."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.tools.patch.content import LineIndex

CASES = [
    pytest.param(["foo", "bar", "baz"], ["bar", "baz"], 0, 1, id="exact"),
    pytest.param(["foo   ", "bar\t\t"], ["foo", "bar"], 0, 0, id="trailing blanks differ"),
    pytest.param(["    foo   ", "   bar\t"], ["foo", "bar"], 0, 0, id="blanks on both sides differ"),
    pytest.param(["just one line"], ["too", "many", "lines"], 0, None, id="longer than the file"),
    pytest.param(["a"], [], 0, 0, id="nothing to find is found at once"),
    pytest.param(["a", "b", "a"], ["a"], 1, 2, id="not before the start"),
    pytest.param(["a ", "a"], ["a"], 0, 1, id="an exact match further down wins over a loose one"),
    pytest.param(["  a", "a "], ["a"], 0, 1, id="trailing blanks before leading ones"),
    pytest.param(["x = a \u2013 b"], ["x = a - b"], 0, 0, id="a dash"),
    pytest.param(["x = a - b"], ["x = a \u2212 b"], 0, 0, id="a minus sign in the patch"),
    pytest.param(["\u2018q\u2019 \u201cr\u201d"], ["'q' \"r\""], 0, 0, id="quotes"),
    pytest.param(["a\u00a0b\u3000c\u2009d"], ["a b c d"], 0, 0, id="blanks of other widths"),
    pytest.param(["a\u2060b"], ["a b"], 0, None, id="a word joiner is no blank"),
    pytest.param(["\x1ca"], ["a"], 0, None, id="a file separator is no blank"),
    pytest.param([], ["a"], 0, None, id="an empty file"),
]


@pytest.mark.parametrize(("lines", "pattern", "start", "found"), CASES)
def test_lines_are_found(lines: list[str], pattern: list[str], start: int, found: int | None) -> None:
    assert LineIndex(lines).seek(pattern, start) == found


@pytest.mark.parametrize(
    ("pattern", "start", "found"),
    [(["b"], 0, 3), (["a", "b"], 0, 2), (["a"], 0, None), (["b"], 4, None), (["a", "b"], 3, None)],
)
def test_at_the_end_of_the_file_there_is_one_place_only(pattern: list[str], start: int, found: int | None) -> None:
    assert LineIndex(["a", "b", "a", "b"]).seek(pattern, start, at_end=True) == found


def _plain_search(lines: list[str], pattern: list[str], start: int) -> int | None:
    """The definition, as slow as it is short."""
    normals: list[Callable[[str], str]] = [
        lambda line: line,
        str.rstrip,
        str.strip,
        lambda line: line.strip().replace("\u2013", "-"),
    ]
    for normal in normals:
        for place in range(start, len(lines) - len(pattern) + 1):
            if list(map(normal, lines[place : place + len(pattern)])) == list(map(normal, pattern)):
                return place
    return None


_lines = st.lists(st.sampled_from(["a", "a ", " a", "b", "", " ", "-", "\u2013", " \u2013"]), max_size=12)


@given(_lines, _lines.filter(bool), st.integers(0, 12))
def test_the_search_agrees_with_its_definition(lines: list[str], pattern: list[str], start: int) -> None:
    start = min(start, len(lines))
    assert LineIndex(lines).seek(pattern, start) == _plain_search(lines, pattern, start)
