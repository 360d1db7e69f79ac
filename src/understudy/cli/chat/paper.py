"""Text on its way to the terminal: printed by rich, kept until the screen has room for it above the live part."""

import io
import sys
from collections.abc import Callable

from rich.console import Console

from understudy.cli.chat.markdown import THEME
from understudy.cli.terminal import TerminalConsole


class Paper(io.StringIO):
    """A file that a console prints to. `written` is called when there is something to take."""

    def __init__(self, encoding: str, written: Callable[[], None] = lambda: None) -> None:
        super().__init__(newline="")
        self._encoding = encoding
        self._written = written

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Rich draws with plain characters where it has no others."""
        return self._encoding

    def isatty(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        self._written()
        return super().write(text)

    def take(self) -> str:
        text = self.getvalue()
        self.seek(0)
        self.truncate()
        return text


def open_paper_console(paper: Paper) -> TerminalConsole:
    return TerminalConsole(file=paper, force_terminal=True, highlight=False, markup=False, emoji=False, theme=THEME)


def spelling(stream: io.TextIOBase | None = None) -> Callable[[str], str]:
    """Makes of a text what the terminal's encoding can say; widths are counted after it."""
    encoding = getattr(stream or sys.stdout, "encoding", None) or "utf-8"
    if encoding.lower().replace("-", "") in ("utf8", "utf16", "utf32"):
        return lambda text: text.encode("utf-8", "replace").decode() if not text.isascii() else text

    def spell(text: str) -> str:
        return text if text.isascii() else text.encode(encoding, "understudy.plain").decode(encoding)

    return spell


def render(console: Console, paper: Paper, rows: "list[object]") -> str:
    """The rows as the console would print them."""
    for row in rows:
        console.print(row, soft_wrap=True)
    return paper.take().removesuffix("\n")
