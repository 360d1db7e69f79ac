"""Nothing hidden reaches a person, and nothing a terminal obeys."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from understudy.text import TerminalText, make_visible, strip_terminal_escapes


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("naïve 日本語 🙂", "naïve 日本語 🙂"),
        ("a\u202egpj.exe", "a\\u{202e}gpj.exe"),
        ("a\u200bb\u200d\ufeff", "a\\u{200b}b\\u{200d}\\u{feff}"),
        ("a\tb\rc\0", "a\\u{9}b\\u{d}c\\u{0}"),
        ("\x1b[8mhidden", "\\u{1b}[8mhidden"),
        ("\x9b8m\x7f", "\\u{9b}8m\\u{7f}"),
        ("a\u00a0b\u2003c\u3000d", "a\\u{a0}b\\u{2003}c\\u{3000}d"),
        ("a\u00adb\u2060\u2066x\u2069", "a\\u{ad}b\\u{2060}\\u{2066}x\\u{2069}"),
        ("\u3164\u115f\u2800\u034f\ufe0f", "\\u{3164}\\u{115f}\\u{2800}\\u{34f}\\u{fe0f}"),
        ("\U000e0041\U000e0100", "\\u{e0041}\\u{e0100}"),
        ("\ud800\ue000\u2028\u2029", "\\u{d800}\\u{e000}\\u{2028}\\u{2029}"),
        ("a" + " " * 23 + "b", "a" + " " * 23 + "b"),
        ("a" + " " * 500 + "; rm x", "a\\u{20}*500; rm x"),
    ],
)
def test_hidden_characters_are_shown(text: str, shown: str) -> None:
    assert make_visible(text) == shown


def test_line_breaks_are_shown_unless_they_are_meant() -> None:
    assert make_visible("a\nb") == "a\\u{a}b"
    assert make_visible("a\nb\r\x1b", keep_newlines=True) == "a\nb\\u{d}\\u{1b}"


@example("0\u0334\u0300")  # a mark that would stand on the escape of the one before it
@example("\u115f\u0300")
@example("a\u034f\u0301")
@given(st.text())
def test_what_is_shown_is_printable_and_of_one_line(text: str) -> None:
    shown = make_visible(text)
    assert shown.isprintable()
    assert make_visible(shown) == shown


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("plain\n\ttext é", "plain\n\ttext é"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[?1049h\x1b[2J\x1b[10;20Hx", "x"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]52;c;c2VjcmV0\x1b\\after", "after"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPdcs\x1b\\a\x1b_apc\x1b\\b\x1b^pm\x1b\\c\x1bXsos\x1b\\d", "abcd"),
        ("\x9b31mred\x9d0;t\x9cx", "redx"),
        ("\x1b(0\x1b)B\x1b=\x1bc\x1b7x", "x"),
        ("a\x08\x08b\x07\x0e\x0f\x7f", "ab"),
        ("shown\roverwritten", "shown\noverwritten"),
        ("a\r\nb", "a\nb"),
        ("\x1b]0;never closed\nnext line", "\nnext line"),
        ("\x1b\x1b[31m\x1b", ""),
        ("a\x1b", "a"),
        ("x\u202ey\u2066z", "x\\u{202e}y\\u{2066}z"),
    ],
)
def test_a_terminal_is_given_nothing_to_obey(text: str, left: str) -> None:
    assert strip_terminal_escapes(text) == left


_noise = st.text(st.sampled_from("\x1b\x1b\x1b[]PX^_\\0;31mhlJH?()\x07\x9b\x9d\x9c\x90\r\n\tab é\u202e"), max_size=40)


@given(_noise)
def test_no_control_is_left_in_any_text(text: str) -> None:
    left = strip_terminal_escapes(text)
    assert not [c for c in left if (ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 or c == "\u202e"]


@given(st.lists(_noise, max_size=6))
def test_text_in_pieces_is_stripped_as_the_whole_is(pieces: list[str]) -> None:
    terminal = TerminalText()
    printed = "".join(terminal.feed(piece) for piece in pieces) + terminal.finish()
    assert printed == strip_terminal_escapes("".join(pieces))


def test_a_sequence_without_end_does_not_swallow_the_rest_for_ever() -> None:
    terminal = TerminalText()
    terminal.feed("\x1b]0;" + "a" * 10_000)
    assert "visible" in terminal.feed("b" * 10_000 + " visible")
