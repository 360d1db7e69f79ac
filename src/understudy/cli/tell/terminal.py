"""A person's terminal: colours if it has them, whole lines if it is none; and the form of tokens, cost and time."""

import re
from collections.abc import Callable
from typing import Any

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console
from rich.text import Text

from understudy.store.log import Summary
from understudy.text import TerminalText, make_visible, strip_terminal_escapes


def spent_line(summary: Summary) -> str:
    """`12.3k tokens, $0.042`; empty if neither is known."""
    tokens = f"{tokens_text(summary.tokens)} tokens" if summary.tokens else ""
    return ", ".join(text for text in (tokens, cost_text(summary.cost_usd)) if text)


def tokens_text(tokens: int | None) -> str:
    if tokens is None:
        return ""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if tokens >= size:
            return f"{tokens / size:.1f}{unit}"
    return str(tokens)


def cost_text(cost: float | None) -> str:
    """Two digits after the point, or as many as it takes to show that it is more than nothing."""
    if cost is None:
        return ""
    return f"${cost:.2f}" if cost == 0 or cost >= 0.1 else f"${cost:.4f}" if cost >= 0.0001 else "<$0.0001"


def seconds_text(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


TAB_WIDTH = 8
_TOKEN = re.compile(r"\n|[^\S\n]+|\S+")


class TerminalConsole(Console):
    """Prints text as it is: brackets in it are never taken for styles."""

    mid_line = False  # what was printed last continues on the same line
    before_print: Callable[[], None] | None = None

    def print(self, *objects: Any, **options: Any) -> None:
        if self.before_print is not None:
            self.before_print()
        super().print(*objects, **options)
        last = objects[-1] if objects else ""
        told = last.plain if isinstance(last, Text) else str(last)
        self.mid_line = options.get("end", "\n") == "" and not told.endswith("\n")

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError from None  # handled in `commands` as for every command; rich would exit with code 1


def open_console(*, stderr: bool = False, color: str = "auto") -> TerminalConsole:
    """`color`: `always`, `never`, or `auto`: if it is a terminal with colours."""
    console = TerminalConsole(
        stderr=stderr, highlight=False, markup=False, emoji=False, force_terminal=True if color == "always" else None
    )
    if color == "never":
        console.no_color = True
    console.soft_wrap = not console.is_terminal  # files and pipes get unwrapped lines
    return console


def one_line(text: str) -> str:
    """Other people's text on one line, with nothing hidden in it."""
    return make_visible(" ".join(text.split()))


def shorten(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)).rstrip() + "…"


class Flow:
    """Prints words that come in pieces: indented, and wrapped to a terminal's width."""

    def __init__(
        self, console: Console, *, first: str, indent: str, style: str = "", first_style: str = "", break_words: bool = False
    ) -> None:
        """`break_words`: also break a word that is longer than a row, so that none of it leaves the indentation."""
        self._console = console
        self._break_words = break_words
        self._lead = (first, first_style)
        self._indent = (indent, "")
        self._style = style
        self._width = console.width if console.is_terminal else None
        self._clean = TerminalText()
        self._word = ""  # may continue with the next piece
        self._blank = ""
        self._column = 0
        self._margin = 0  # the columns of the line before its text begins
        self._ready: list[tuple[str, str]] = []  # text with its style, to be printed at once
        self._begun = False

    def feed(self, text: str) -> None:
        self._place(self._clean.feed(text))
        self._print()

    def whole(self, text: str) -> None:
        """Print all of it at once."""
        self._place(self._clean.feed(text))
        self.end()

    def end(self) -> None:
        self._place(self._clean.finish())
        self._take_word()
        if self._begun:
            self._add("\n", self._style)
        self._print()

    def _place(self, text: str) -> None:
        for token in _TOKEN.finditer(text):
            match token[0]:
                case "\n":
                    self._take_word()
                    self._break_line()
                case blank if blank.isspace():
                    self._take_word()
                    self._blank += blank  # the rest of it may come with the next piece
                case part:
                    self._word += part

    def _take_word(self) -> None:
        word, self._word = self._word, ""
        if not word:
            return
        margin = max(cell_len(lead[0]) for lead in ((self._indent,) if self._begun else (self._indent, self._lead)))
        if self._break_words and self._width and cell_len(word) > (room := max(self._width - margin, 8)):
            for piece in chop_cells(word, room):
                self._put_word(piece)
        else:
            self._put_word(word)

    def _put_word(self, word: str) -> None:
        length = cell_len(word)
        blank = self._expanded_blank()
        if self._column and self._width and self._column + cell_len(blank) + length > self._width:
            self._break_line()
            blank = ""
        if self._column == 0:
            lead = self._indent if self._begun else self._lead
            self._add(*lead)
            self._column = self._margin = cell_len(lead[0])
            self._begun = True
        self._add(blank + word, self._style)
        self._column += cell_len(blank) + length
        self._blank = ""

    def _expanded_blank(self) -> str:
        """With tabs as spaces: rich would count tab stops from the beginning of the piece instead of the line."""
        if "\t" not in self._blank:
            return self._blank
        before = " " * (self._column - self._margin) if self._column else ""
        return (before + self._blank).expandtabs(TAB_WIDTH)[len(before) :]

    def _break_line(self) -> None:
        if self._begun:
            self._add("\n", self._style)
        self._column, self._blank = 0, ""

    def _add(self, text: str, style: str) -> None:
        if self._ready and self._ready[-1][1] == style:
            text = self._ready.pop()[0] + text
        self._ready.append((text, style))

    def _print(self) -> None:
        if self._ready:
            self._console.print(Text.assemble(*self._ready), end="", soft_wrap=True)
            self._ready.clear()


def clean_lines(text: str) -> list[str]:
    """Output of a command, line by line, without control sequences."""
    return strip_terminal_escapes(text).expandtabs(TAB_WIDTH).splitlines()
