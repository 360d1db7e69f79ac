"""Text that a person can trust to be what it looks like: hidden characters are shown, what a terminal would obey is taken out,
and argv is quoted as a shell would read it.
"""

import re
from collections.abc import Sequence

# Taken from left to right, the longest piece that one style of quoting can hold, plain before single before double.
# A `^` stands only first in single quotes: old shells give it a meaning elsewhere.
_PLAIN = re.compile(r"[A-Za-z0-9+\-./:@\]_]+")
_SINGLE = re.compile(r"\^?[^'\\^]*")
_DOUBLE = re.compile(r"[^`$!^]+")
_ESCAPED_IN_DOUBLE = re.compile(r'["\\]')


def quote_command(argv: Sequence[str]) -> str:
    """The words with what quotes they need, one blank between them; plainly joined if a word holds a NUL, which no shell can."""
    if any("\0" in word for word in argv):
        return " ".join(argv)
    return " ".join(map(quote_word, argv))


def quote_word(word: str) -> str:
    if not word:
        return "''"
    if _PLAIN.fullmatch(word):
        return word
    pieces: list[str] = []
    position = 0
    while position < len(word):
        piece, position = _next_piece(word, position)
        pieces.append(piece)
    return "".join(pieces)


def _next_piece(word: str, start: int) -> tuple[str, int]:
    plain = _end(_PLAIN, word, start)
    single = _end(_SINGLE, word, start)
    double = _end(_DOUBLE, word, start)
    longest = max(plain, single, double)
    if plain == longest:
        return word[start:plain], plain
    if single == longest:
        return f"'{word[start:single]}'", single
    return '"' + _ESCAPED_IN_DOUBLE.sub(r"\\\g<0>", word[start:double]) + '"', double


def _end(style: re.Pattern[str], word: str, start: int) -> int:
    found = style.match(word, start)
    return found.end() if found else start


# Printable by Unicode's classes, and yet nothing to see: joiners, fillers, blank letters, variation selectors.
_BLANK_LETTERS = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
_BLANK = re.compile(f"[{_BLANK_LETTERS}]")
_NOT_PLAIN = re.compile(r"[^ -~]")
# Marks that stand on nothing, on a sign of ours, or in a heap; and those that strike a letter through or draw around it.
_MARKS = "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\ufe20-\ufe2f"
_STRUCK = "\u0334-\u0338"
_LETTER = rf"[^\W{_BLANK_LETTERS}]"  # what is shown as an escape carries no mark, or the escape would
_SHOWN_MARK = rf"(?![{_STRUCK}{_BLANK_LETTERS}])[{_MARKS}]"
_STRAY_MARK = re.compile(rf"[{_STRUCK}\u0488\u0489\u20d0-\u20ff]|(?<!{_LETTER})(?<!{_LETTER}{_SHOWN_MARK})[{_MARKS}]")
# More blanks than a reader expects push the rest out of sight. One stays before a digit, which would be read as part of the length.
_LONG_BLANK = re.compile(r" {24,}(?=[^ 0-9]|\Z)| {24,}(?= [0-9])")
# A backtick, and what looks like one.
_TICK = re.compile(
    "[`\u00b4\u02bb\u02bd\u02ca\u02cb\u02f4\u0384\u055d\u07f4\u07f5\u144a\u16cc\u1fcd\u1fdd\u1fef\u1ffd\u2018\u201b\u2032\u2035\u2036\ua78b\ua78c\uff40]"
)
_ESCAPE = "\\u{"


def make_visible(text: str, *, keep_newlines: bool = False) -> str:
    r"""Show every character that is not plainly printed as `\u{hex}`: control, bidirectional, zero-width and odd blanks.

    A tab and a line break are shown so too, unless `keep_newlines`, where a line break is meant as one. A long run of blanks is
    written as its length, so that it hides nothing.
    """
    if not text.isascii() or not text.isprintable():
        text = _NOT_PLAIN.sub(_show_kept if keep_newlines else _show, _STRAY_MARK.sub(_escaped, text))
    return _LONG_BLANK.sub(lambda run: rf"\u{{20}}*{len(run[0])}", text)


def _show(found: re.Match[str]) -> str:
    character = found[0]
    return character if character.isprintable() and not _BLANK.match(character) else _escaped(found)


def _escaped(found: re.Match[str]) -> str:
    return rf"\u{{{ord(found[0]):x}}}"


def _show_kept(found: re.Match[str]) -> str:
    return "\n" if found[0] == "\n" else _show(found)


def in_ticks(text: str) -> str:
    r"""The text of others between backticks, on one line. Nothing in it closes or imitates them, nor an escape of ours.

    No two texts look the same: a `\u{` that the text brings along has its backslash escaped.
    """
    return f"`{_TICK.sub(_escaped, make_visible(text.replace(_ESCAPE, _ESCAPE + '5c}u{')))}`"


# What follows ESC, or stands in one C1 character: a control sequence; a string up to its end; or a short sequence.
_SEQUENCE = re.compile(
    r"""(?: \x1b\[ | \x9b ) [0-?]* [ -/]* [@-~]?
      | (?: \x1b [\]PX^_] | [\x9d\x90\x98\x9e\x9f] ) [^\x07\x1b\x9c\n]* (?: \x07 | \x1b\\ | \x9c )?
      | \x1b [ -/]* [0-~]?
    """,
    re.VERBOSE,
)
_UNFINISHED = re.compile(
    r"""(?: (?: \x1b\[ | \x9b ) [0-?]* [ -/]*
      | (?: \x1b [\]PX^_] | [\x9d\x90\x98\x9e\x9f] ) [^\x07\x1b\x9c\n]* \x1b?
      | \x1b [ -/]*
      | \r
    ) \Z""",
    re.VERBOSE,
)
_MAX_UNFINISHED = 4096
_OTHER_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_DIRECTION = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def strip_terminal_escapes(text: str) -> str:
    """The text without anything a terminal would obey: no colours, titles, links, clipboard, cursor moves or overwriting.

    Line breaks and tabs stay; a lone carriage return, with which a line could be painted over, becomes a line break; marks that
    turn the direction of text are shown.
    """
    text = _SEQUENCE.sub("", text.replace("\r\n", "\n")).replace("\r", "\n")
    return _DIRECTION.sub(_show, _OTHER_CONTROL.sub("", text))


class TerminalText:
    """`strip_terminal_escapes` for output that comes in pieces, which may end in the middle of a sequence."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """What may be printed now."""
        text = self._held + text
        cut = _UNFINISHED.search(text, max(0, len(text) - _MAX_UNFINISHED))
        self._held = text[cut.start() :] if cut else ""
        return strip_terminal_escapes(text[: cut.start()] if cut else text)

    def finish(self) -> str:
        held, self._held = self._held, ""
        return strip_terminal_escapes(held)
