"""Text that comes in pieces is shown as it was said, wherever the pieces happen to end."""

import io
import itertools
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from understudy.cli.tell.terminal import Flow, TerminalConsole

MARK, INDENT = "* ", "  "
CODE = st.text(alphabet="ab(: \t\n", max_size=60)
ANY = st.text(alphabet="ab: \t\n\r\x1b[1m;\u2003\u00e9\u4f60\u202e", max_size=60)


def pieces_of(text: str, cuts: Sequence[int]) -> list[str]:
    ends = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    return [text[begin:end] for begin, end in itertools.pairwise(ends)]


def shown(pieces: Sequence[str], width: int | None = None) -> str:
    """What a file gets, or a terminal with that many columns."""
    out = io.StringIO()
    console = TerminalConsole(file=out, width=width, force_terminal=width is not None, no_color=True, highlight=False, markup=False)
    console.soft_wrap = width is None
    flow = Flow(console, first=MARK, indent=INDENT)
    for piece in pieces:
        flow.feed(piece)
    flow.end()
    return out.getvalue()


def said(text: str) -> str:
    """Line by line: indented, tabs as spaces, without blanks that nobody sees at the ends of lines and before the first one."""
    lines = [line.expandtabs(8).rstrip() for line in text.split("\n")]
    while lines and not lines[0]:
        lines.pop(0)
    leads = [MARK] + [INDENT] * len(lines)
    return "".join((lead + line if line else "") + "\n" for lead, line in zip(leads, lines, strict=False))


@given(CODE, st.lists(st.integers(0, 60)))
def test_in_a_file_streamed_text_is_what_was_said(text: str, cuts: list[int]) -> None:
    assert shown(pieces_of(text, cuts)) == said(text)


@given(ANY, st.lists(st.integers(0, 60)), st.sampled_from([None, 12, 20, 80]))
def test_pieces_look_like_the_whole_whatever_is_in_them(text: str, cuts: list[int], width: int | None) -> None:
    assert shown(pieces_of(text, cuts), width) == shown([text], width)


@given(CODE, st.integers(8, 30))
def test_on_a_terminal_only_blanks_between_words_give_way_to_the_end_of_a_row(text: str, width: int) -> None:
    rows = shown(list(text), width).split("\n")
    assert " ".join(" ".join(row.removeprefix(MARK) for row in rows).split()) == " ".join(text.split())
    for line in text.split("\n"):
        if line.strip():
            indentation = line.expandtabs(8)[: len(line.expandtabs(8)) - len(line.expandtabs(8).lstrip())]
            first = line.split()[0]
            assert any(row[len(INDENT) :].startswith(indentation + first) for row in rows)
