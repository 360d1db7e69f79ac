"""The last line of a terminal while a turn works: how long it has taken and what it has used. It leaves no trace."""

import asyncio
from collections.abc import Callable

from understudy.cli.terminal import TerminalConsole, shorten

PAUSE = 1.0  # seconds between two looks at the clock
_CLEAR = "\r\x1b[2K"


class StatusLine:
    """Drawn below what was printed, and taken away before more is. Never in the middle of a line, such as a question's."""

    def __init__(self, console: TerminalConsole, text: Callable[[], str]) -> None:
        self._console = console
        self._text = text
        self._shown = False
        self._timer: asyncio.TimerHandle | None = None
        self._usable = console.file.isatty() and not console.is_dumb_terminal

    def start(self) -> None:
        if self._usable:
            self._console.before_print = self.hide
            self._timer = asyncio.get_running_loop().call_later(PAUSE, self._tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.hide()

    def hide(self) -> None:
        if self._shown:
            self._shown = False
            self._console.file.write(_CLEAR)
            self._console.file.flush()

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(PAUSE, self._tick)
        if self._console.mid_line:
            return
        dim, plain = ("\x1b[2m", "\x1b[0m") if not self._console.no_color else ("", "")
        text = shorten(self._text(), self._console.width - 1)
        try:
            self._console.file.write(f"{_CLEAR}{dim}{text}{plain}")
            self._console.file.flush()
            self._shown = True
        except OSError:
            self._timer.cancel()  # the terminal has gone
