"""Markdown that comes in pieces: returns each block once it cannot change any more; the unfinished rest can be viewed."""

import re

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown
from rich.padding import Padding
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from understudy.cli.tell.telling import diff_style
from understudy.text import TerminalText

MOST_CODE_LINES = 24  # of an unfinished code block that are held back
MOST_LOOKED_AT = 4_000  # characters of an unfinished block, which is redrawn again and again
MOST_MARKDOWN = 50_000  # characters of a block; nobody writes such a paragraph, and parsing it as markdown could take minutes

THEME = Theme(
    {
        "markdown.code": "cyan",
        "markdown.code_block": "cyan",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.h4": "bold italic",
        "markdown.item.bullet": "bold",
        "markdown.item.number": "bold",
        "markdown.link": "blue",
        "markdown.link_url": "blue underline",
        "markdown.block_quote": "italic",
    }
)

_FENCE = re.compile(r"(\s*)(`{3,}|~{3,})([^`]*)$")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")

Block = Markdown | Text | Padding


class _Heading(Heading):
    """Left-aligned, like the text; rich would centre it in a box."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _Markdown(Markdown):
    elements = {**Markdown.elements, "heading_open": _Heading}  # noqa: RUF012 (as rich declares it)


def as_markdown(text: str) -> Block:
    if len(text) > MOST_MARKDOWN:
        return Text(text)
    try:
        return _Markdown(text, hyperlinks=False)
    except RecursionError:  # nested more deeply than anybody reads
        return Text(text)


class MarkdownStream:
    """Pieces in, finished blocks out. Removes terminal control sequences first."""

    def __init__(self) -> None:
        self._clean = TerminalText()
        self._line = ""  # the last line, which may be incomplete
        self._lines: list[str] = []  # of the unfinished block
        self._fence: _Fence | None = None

    def feed(self, text: str) -> list[Block]:
        *lines, self._line = (self._line + self._clean.feed(text)).split("\n")
        blocks: list[Block] = []
        for line in lines:
            self._take(line, blocks)
        return blocks

    def finish(self) -> list[Block]:
        blocks: list[Block] = []
        last = self._line + self._clean.finish()
        self._line = ""
        if last:
            self._take(last, blocks)
        self._end_block(blocks)
        return blocks

    def unfinished(self) -> Block | None:
        """The unfinished block, as far as it can be shown."""
        if self._fence is not None:
            return self._fence.code([*self._lines, self._line[-MOST_LOOKED_AT:]])
        text = "\n".join([*self._lines, self._line])
        return as_markdown(text[-MOST_LOOKED_AT:]) if text.strip() else None

    def _take(self, line: str, blocks: list[Block]) -> None:
        if self._fence is not None:
            self._take_code(line, self._fence, blocks)
        elif (opens := _FENCE.match(line)) is not None:
            self._end_block(blocks)
            self._fence = _Fence(opens[1], opens[2], opens[3].strip())
        elif _HEADING.match(line):
            self._end_block(blocks)
            blocks.append(as_markdown(line))
        elif not line.strip():
            if self._lines and not _ITEM.match(self._lines[0]):
                self._end_block(blocks)
            elif self._lines:
                self._lines.append("")  # a list item may continue after it
        else:
            if self._lines and self._lines[-1] == "" and not (line[:1].isspace() or _ITEM.match(line)):
                self._end_block(blocks)
            self._lines.append(line)

    def _take_code(self, line: str, fence: "_Fence", blocks: list[Block]) -> None:
        if fence.is_closed_by(line):
            self._end_block(blocks)
            return
        self._lines.append(line)
        if len(self._lines) >= MOST_CODE_LINES:
            blocks.append(fence.code(self._lines))
            fence.begun = True
            self._lines = []

    def _end_block(self, blocks: list[Block]) -> None:
        lines, self._lines = self._lines, []
        fence, self._fence = self._fence, None
        if fence is not None:
            if lines:
                blocks.append(fence.code(lines))
        elif any(line.strip() for line in lines):
            blocks.append(as_markdown("\n".join(lines)))


class CodeRest(Padding):
    """The rest of a code block whose beginning was returned already."""


class _Fence:
    def __init__(self, indent: str, mark: str, language: str) -> None:
        self._indent = len(indent)
        self._mark = mark
        self._language = language.split()[0].lower() if language else ""
        self.begun = False  # a part of it was returned

    def is_closed_by(self, line: str) -> bool:
        text = line.strip()
        return len(text) >= len(self._mark) and not text.strip(self._mark[0])

    def code(self, lines: list[str]) -> Padding:
        shown = [line[self._indent :] if not line[: self._indent].strip() else line for line in lines]
        return (CodeRest if self.begun else Padding)(self._coloured(shown), (0, 0, 0, 2))

    def _coloured(self, lines: list[str]) -> Text:
        if self._language in ("diff", "patch"):
            return Text("\n").join(Text(line, diff_style(line)) for line in lines)
        code = "\n".join(lines).expandtabs(4)
        try:
            text = Syntax("", self._language or "text", theme="ansi_dark", background_color="default").highlight(code)
        except Exception:  # lexers of rare languages may fail on it
            text = Text(code)
        text.rstrip()
        text.style = Style()
        text.no_wrap = False
        return text
