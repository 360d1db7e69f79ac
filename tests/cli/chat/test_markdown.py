"""Markdown in pieces: however an answer is cut, the same blocks come out of it, and nothing that a terminal would obey."""

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from understudy.cli.chat.markdown import MOST_CODE_LINES, THEME, Block, MarkdownStream

PIECES = st.sampled_from(
    [
        "# T\n",
        "word ",
        "**b**",
        "`c`",
        "\n",
        "\n\n",
        "- i\n",
        "  more\n",
        "1. n\n",
        "```\n",
        "```py\n",
        "~~~\n",
        "> q\n",
        "| a | b |\n",
    ]
)
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=8), st.just("|---|---|\n"), st.just("\x1b[2J"), st.just("\u202e")), max_size=30)


def rendered(blocks: list[Block]) -> str:
    console = Console(file=io.StringIO(), width=60, force_terminal=False, theme=THEME)
    for block in blocks:
        console.print(block)
    return console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


def whole(text: str) -> list[Block]:
    stream = MarkdownStream()
    return [*stream.feed(text), *stream.finish()]


@pytest.mark.slow
@given(TEXTS)
def test_however_it_is_cut_the_same_blocks_come_out(parts: list[str]) -> None:
    stream = MarkdownStream()
    blocks: list[Block] = []
    for part in parts:
        blocks += stream.feed(part)
        stream.unfinished()
    blocks += stream.finish()
    text = rendered(blocks)
    assert text == rendered(whole("".join(parts)))
    assert not [letter for letter in text if unicodedata.category(letter) == "Cc" and letter != "\n"]
    assert "\u202e" not in text


def test_every_word_comes_out_once_and_in_order() -> None:
    text = "# one\ntwo **three**\n\n- four\n\n  five\n- six\n\nseven\n```py\neight = 1\n```\nnine\n\n|ten|eleven|\n|-|-|\n|a|b|\n"
    words = [word.strip("│━ •") for word in rendered(whole(text)).split()]
    kept = [word for word in words if word and not set(word) <= set("─━┃┏┓")]
    assert kept == ["one", "two", "three", "four", "five", "six", "seven", "eight", "=", "1", "nine", "ten", "eleven", "a", "b"]


def test_a_long_code_block_comes_out_as_it_is_written() -> None:
    stream = MarkdownStream()
    lines = [f"line {number}" for number in range(3 * MOST_CODE_LINES)]
    early = stream.feed("```\n" + "\n".join(lines) + "\n")
    assert len(early) == 3, "its reader need not wait for the end of it"
    assert rendered([*early, *stream.feed("```\n"), *stream.finish()]).split("\n")[:-1] == [f"  {line}".ljust(60) for line in lines]


def test_a_paragraph_is_finished_by_the_blank_line_after_it() -> None:
    stream = MarkdownStream()
    assert stream.feed("Some words,\nand more.") == []
    assert rendered([block for block in [stream.unfinished()] if block]).strip() == "Some words, and more."
    assert rendered(stream.feed("\n\n")).strip() == "Some words, and more."
    assert stream.unfinished() is None
