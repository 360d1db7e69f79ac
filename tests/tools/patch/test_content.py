"""The new text of an updated file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.errors import PatchError
from understudy.tools.patch.content import updated_text
from understudy.tools.patch.grammar import UpdateOperation, parse_patch

from .tree import patch_text


def updated(text: str, *lines: str) -> str:
    operation = parse_patch(patch_text("*** Update File: f", *lines)).operations[0]
    assert isinstance(operation, UpdateOperation)
    return updated_text(text, operation.chunks, "/w/f")


@pytest.mark.parametrize(
    ("text", "lines", "expected"),
    [
        pytest.param("a\nb\n", ("-a", "+A"), "A\nb\n", id="a replacement"),
        pytest.param("a\nb\nc\nd\n", ("@@", "-a", "+A", "@@", "-d", "+D"), "A\nb\nc\nD\n", id="two chunks"),
        pytest.param(
            "a\nb\n", ("@@", "+last", "@@", "-a", "+A1", "+A2"), "A1\nA2\nb\nlast\n", id="an addition at the end, then one above"
        ),
        pytest.param("a\nb\n", ("@@", "+last", "@@", "-a", "-b"), "last\n", id="an addition at the end of what is then removed"),
        pytest.param(
            "def f():\n  x\nend\n", ("@@ def f():", "+new"), "def f():\n  x\nend\nnew\n", id="additions only go to the end"
        ),
        pytest.param("a\n\n", ("@@", "+b"), "a\nb\n\n", id="before a blank last line"),
        pytest.param("a\n\n", ("@@", "+b", "@@", " a", "-"), "a\nb\n", id="after lines that a later chunk replaces"),
        pytest.param("", ("@@", "+b"), "b\n", id="into an empty file"),
        pytest.param("x\na\nx\na\n", ("@@ x", "@@ x", "-a", "+A")[1:], "x\nA\nx\na\n", id="beneath a context"),
        pytest.param("x\na\ny\na\n", ("@@ y", "-a", "+A"), "x\na\ny\nA\n", id="not above the context"),
        pytest.param("a\nb\na\nb\n", ("-b", "+B", "*** End of File"), "a\nb\na\nB\n", id="at the end of the file"),
        pytest.param("a  \nb\n", (" a", "-b", "+B"), "a\nB\n", id="context is written as the patch spells it"),
        pytest.param("say \u201chi\u201d\nb\n", (' say "hi"', "-b"), 'say "hi"\n', id="typographic context too"),
        pytest.param("a\nb\n", (" a", "+x", "", "@@", "-b"), "a\nx\n", id="a blank line before the next chunk"),
        pytest.param("a\nb\nc\n", (" a", "-b", " c"), "a\nc\n", id="a removal"),
        pytest.param("a\nb\n", ("-a", "-b"), "", id="of everything"),
        pytest.param("a\n\n\nb\n", (" ", "-", " b"), "a\n\nb\n", id="of one of two blank lines"),
    ],
)
def test_chunks_are_applied(text: str, lines: tuple[str, ...], expected: str) -> None:
    assert updated(text, *lines) == expected


@pytest.mark.parametrize(
    ("text", "lines", "expected"),
    [
        pytest.param("a\r\nb\r\nc\r\n", (" a", "-b", "+B", "+C", " c"), "a\r\nB\r\nC\r\nc\r\n", id="CRLF"),
        pytest.param("a\rb\rc\r", (" a", "-b", "+B"), "a\rB\rc\r", id="CR"),
        pytest.param(
            "a\nb\r\nc\rd\n",
            (" a", " b", "-c", "+C", " d"),
            "a\nb\r\nC\nd\n",
            id="mixed: context keeps its own, new takes the first",
        ),
        pytest.param("a\r\nb\nc\r\n", ("-c", "+C"), "a\r\nb\nC\r\n", id="mixed: what is not named stays"),
        pytest.param("a\r\nb", ("-b", "+B"), "a\r\nB", id="no final newline: a replaced last line has none either"),
        pytest.param("a\nb", ("-a", "+A"), "A\nb", id="no final newline: an untouched last line"),
        pytest.param("a\r\nb", ("@@", "+c"), "a\r\nb\r\nc", id="no final newline: an addition after it"),
        pytest.param("a\nb", (" b", "+c"), "a\nb\nc", id="no final newline: an addition after context"),
        pytest.param("a\nb", ("-b",), "a\n", id="no final newline: its line removed, the one before stays as it was"),
        pytest.param("a", ("-a", "+b", "+c"), "b\nc", id="one line without an ending"),
        pytest.param(
            "a\nb\nc", ("@@", "-a", "+A", "@@", "-c"), "A\nb\n", id="no final newline: its line removed, after a change further up"
        ),
        pytest.param("\ufeffa\r\nb\r\n", ("-a", "+A"), "\ufeffA\r\nb\r\n", id="byte order mark"),
        pytest.param("\ufeffa\nb\n", ("-\ufeffa", "+\ufeffA"), "\ufeffA\nb\n", id="byte order mark, which the patch repeats"),
        pytest.param("a\rb\nc\n", (" a\rb", "-c", "+C"), "a\rb\nC\n", id="a carriage return within a line of the patch"),
        pytest.param(
            "a\x0bb\x0cc\u2028d\x85e\nf\n", ("-f", "+F"), "a\x0bb\x0cc\u2028d\x85e\nF\n", id="other separators are content"
        ),
    ],
)
def test_line_endings_stay(text: str, lines: tuple[str, ...], expected: str) -> None:
    assert updated(text, *lines) == expected


@pytest.mark.parametrize(
    ("text", "lines", "message"),
    [
        ("one\n", ("-a", " b"), 'Failed to find expected lines ["a", "b"] in /w/f'),
        ("one\n", ("@@ def f", "-one"), "Failed to find context 'def f' in /w/f"),
        ("one\n", ('-a "q" \\ é\t\x01\u00a0',), r'Failed to find expected lines ["a \"q\" \\ é\t\u{1}\u{a0}"] in /w/f'),
        ("a\nb\nc\n", ("-c", "+C", "@@", "-a", "+A"), 'Failed to find expected lines ["a"] in /w/f'),
        ("a\nb\nc\n", ("-a", "+A", "*** End of File"), 'Failed to find expected lines ["a"] in /w/f'),
        ("a\nb\n", ("-a", "-b", "*** End of File", "@@", "-b", "*** End of File"), 'Failed to find expected lines ["b"] in /w/f'),
        ("", ("-a",), 'Failed to find expected lines ["a"] in /w/f'),
    ],
)
def test_lines_that_are_not_there_are_named(text: str, lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(PatchError) as caught:
        updated(text, *lines)
    assert str(caught.value) == message


def test_a_very_long_list_of_missing_lines_is_cut() -> None:
    with pytest.raises(PatchError) as caught:
        updated("a\n", *[f"-{'x' * 100}"] * 10_000)
    assert len(str(caught.value)) < 10_000
    assert str(caught.value).endswith(", …] in /w/f")


_text = st.sampled_from(["", "a", "b", "a ", "c = 1", "é"])


@st.composite
def _edits(draw: st.DrawFn) -> tuple[str, list[str], str]:
    """A file with endings of its own, a patch with the whole of it as one chunk, and what must come out."""
    texts = [f"{draw(_text)}{number}" for number in range(draw(st.integers(1, 8)))]
    first = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    others = st.just(first) if first == "\r" else st.sampled_from(["\n", "\r\n", "\r"])
    ends = [first, *(draw(others) for _ in texts[1:])]
    unfinished = draw(st.booleans())
    if unfinished:
        ends[-1] = ""
    new_end = first if ends[0] else "\n"
    patch: list[str] = []
    new: list[tuple[str, str]] = []
    added_last = False
    for text, end in zip(texts, ends, strict=True):
        kept = draw(st.booleans())
        patch.append((" " if kept else "-") + text)
        if kept:
            new.append((text, end))
            added_last = False
        for added in draw(st.lists(_text, max_size=2)):
            patch.append("+" + added)
            new.append((added, new_end))
            added_last = True
    settled = [text + (end or new_end) for text, end in new]
    if unfinished and new and (added_last or not new[-1][1]):
        settled[-1] = new[-1][0]
    return "".join(map("".join, zip(texts, ends, strict=True))), patch, "".join(settled)


@given(_edits())
def test_a_generated_edit_gives_exactly_the_expected_bytes(case: tuple[str, list[str], str]) -> None:
    text, lines, expected = case
    assert updated(text, "@@", *lines) == expected
