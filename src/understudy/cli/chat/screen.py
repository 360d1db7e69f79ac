"""The chat's terminal. What is finished is printed and stays in the terminal's history. Below it are what is in progress, a
question, the input line and the status; only this part is redrawn.

Also: standard output for prompt_toolkit that joins several steps in one write, so that nothing flickers; the status line; and text
printed by rich that waits until the screen has room for it above the live part.
"""

import asyncio
import io
import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import merge_key_bindings
from prompt_toolkit.layout import BufferControl, ConditionalContainer, Dimension, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from rich.console import Console, ConsoleDimensions
from rich.text import Text

from understudy.cli.chat.chat import Chat
from understudy.cli.chat.line import Line, typing_keys
from understudy.cli.chat.markdown import THEME
from understudy.cli.chat.question_panel import QuestionPanel
from understudy.cli.tell.terminal import TerminalConsole, one_line, seconds_text, shorten, tokens_text


class HeldOutput(Vt100_Output):
    """Asks the terminal nothing: a late answer, over a slow connection, would be taken for typed input."""

    def __init__(self) -> None:
        super().__init__(sys.stdout, _size, term=os.environ.get("TERM"), enable_cpr=False)
        self._holds = False

    @contextmanager
    def held(self) -> Generator[None]:
        self._holds = True
        try:
            yield
        finally:
            self._holds = False
            self.flush()

    def flush(self) -> None:
        if not self._holds:
            super().flush()


def _size() -> Size:
    try:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        columns, rows = 0, 0
    return Size(rows or 24, columns or 80)


def status_text(chat: Chat, width: int) -> str:
    """As much as there is room for, the most important first."""
    facts, showing = chat.handle.facts, chat.showing
    parts: list[str] = []
    if showing.turn is not None:
        seconds = seconds_text(float(int(max(time.time() - showing.turn_began, 0.0)))).replace(".0", "")
        if showing.interrupting:
            parts.append(f"interrupting {seconds}")
        elif showing.questions:
            parts.append(f"waits for you {seconds}")
        else:
            parts.append(f"working {seconds}")
        if showing.turn_tokens:
            parts.append(f"{tokens_text(showing.turn_tokens)} tokens")
        parts += [one_line(chat.model()), "Esc interrupts", "Enter steers", "Tab queues"]
    else:
        chosen = chat.chosen
        parts.append(one_line(chat.model()))
        if showing.usage is not None:
            parts.append(f"{tokens_text(showing.usage.total_tokens)} tokens")
        parts.append((chosen and chosen.sandbox) or facts.sandbox or "")
        parts.append((chosen and chosen.approval_policy) or facts.approval_policy or "")
        parts.append("/help")
    line = ""
    for part in filter(None, parts):
        longer = f"{line} · {part}" if line else part
        if line and len(longer) > width:
            break
        line = longer
    return shorten(line, width)


class Paper(io.StringIO):
    """A file to which a console prints. Calls `written` when there is something to take."""

    def __init__(self, encoding: str, written: Callable[[], None] = lambda: None) -> None:
        super().__init__(newline="")
        self._encoding = encoding
        self._written = written

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """With another encoding, rich would use only plain characters."""
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
    """Replaces characters that the terminal's encoding lacks; widths are computed afterwards."""
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


LIVE_ROWS = 12
MOST_INPUT_ROWS = 10
MOST_OFFERED_ROWS = 7
REDRAW_SECONDS = 0.04
STYLE = Style.from_dict(
    {
        "status": "ansibrightblack",
        "mark": "ansicyan bold",
        "question": "ansiyellow bold",
        "key": "ansiyellow bold",
        "offered": "",
        "chosen": "reverse",
        "meta": "ansibrightblack",
        "queued": "ansibrightblack italic",
    }
)


class Screen:
    """Implements `showing.Face`."""

    has_live_part = True

    def __init__(self, history: History) -> None:
        self._history = history
        self._spell = spelling()
        encoding = sys.stdout.encoding or "utf-8"
        self._paper = Paper(encoding, self._print_soon)
        self._live_paper = Paper(encoding)
        self._console = open_paper_console(self._paper)
        self._live_console = open_paper_console(self._live_paper)
        self._printing: asyncio.Handle | None = None
        self._height = 0
        self._ready = False

    @property
    def console(self) -> TerminalConsole:
        return self._console

    def changed(self) -> None:
        if self._ready:
            self._app.invalidate()

    # -- running

    def open(self, chat: Chat) -> None:
        self._chat = chat
        self._panel = QuestionPanel(chat, lambda: self._console.width, self._spell, self.changed)
        self._line = Line(chat, self._panel, self._history, lambda: not self._app.layout.has_focus(self._panel.control))
        self._typed = BufferControl(self._line.buffer, focus_on_click=False)
        output = self._output = HeldOutput()
        panel_keys = self._panel.keys(lambda: not self._line.types, self._line.refuse)
        self._app: Application[None] = Application(
            layout=Layout(self._container(), focused_element=self._typed),
            key_bindings=merge_key_bindings([typing_keys(self._line), panel_keys]),
            style=STYLE,
            color_depth=ColorDepth.DEPTH_1_BIT if self._console.no_color else None,
            min_redraw_interval=REDRAW_SECONDS,
            erase_when_done=True,
            input=create_input(sys.stdin),
            output=output,
            before_render=self._before_render,
        )
        self._app.ttimeoutlen = 0.1  # how long to wait after Esc for the rest of a key's sequence
        self._app.timeoutlen = 0.25
        self._app.key_processor.before_key_press += lambda _: self._panel.note_key()  # pyright: ignore[reportUnknownLambdaType]
        self._fit_console()

    async def run(self) -> None:
        """Run until the chat is left."""
        self._ready = True
        self._print()
        clock = asyncio.get_running_loop().create_task(self._tick())
        drawn = asyncio.get_running_loop().create_task(self._app.run_async(handle_sigint=False))
        try:
            await asyncio.wait([drawn, self._chat.left], return_when=asyncio.FIRST_COMPLETED)
        finally:
            clock.cancel()
            if not drawn.done():
                self._print()
                self._app.exit()
            await asyncio.wait([drawn])
            self._ready = False
        error = None if drawn.cancelled() else drawn.exception()
        if error is not None and not isinstance(error, EOFError | OSError):
            raise error
        self._chat.leave(error)

    async def _tick(self) -> None:
        """Updates the clock in the status line, and notices when keys may answer a question."""
        while True:
            await asyncio.sleep(0.2)
            if self._chat.works or self._chat.showing.teller.under_way:
                self._app.invalidate()

    def interrupt(self) -> None:
        """For SIGINT from another process: in a raw terminal, Ctrl-C is a key."""
        self._line.ctrl_c()
        self.changed()

    def close(self) -> None:
        """Write what was printed last, however the chat has ended."""
        text = self._spell(self._paper.take())
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()

    # -- printing above the live part

    def _print_soon(self) -> None:
        if self._printing is None and self._ready:
            self._printing = asyncio.get_running_loop().call_soon(self._print)

    def _print(self) -> None:
        """Do it in one step: remove the live part, write the text in its place, and draw the live part again below."""
        self._printing = None
        text = self._paper.take()
        if not text:
            return
        if not self._app.is_running:
            self._output.write_raw(self._spell(text))
            self._output.flush()
            return
        with self._output.held():
            self._app.renderer.erase()
            self._output.write_raw(self._spell(text))
            if self._app.context is not None:
                self._app.context.copy().run(self._draw)

    def _draw(self) -> None:
        self._before_render(self._app)
        self._app.renderer.render(self._app, self._app.layout)

    def _fit_console(self) -> None:
        size = self._output.get_size()
        for console in (self._console, self._live_console):
            console.size = ConsoleDimensions(max(size.columns, 20), max(size.rows, 5))

    def _before_render(self, app: Application[None]) -> None:
        self._fit_console()
        if self._panel.refusing is not None and self._panel.open() is None:
            self._line.stop_refusing()  # somebody else has answered
        wanted = self._panel.control if self._panel.look() else self._typed
        if not self._app.layout.has_focus(wanted):
            self._app.layout.focus(wanted)
        height = self._app.layout.container.preferred_height(self._console.width, 1000).preferred
        if height < self._height:
            self._app.renderer.erase()  # otherwise it would keep its height
        self._height = height

    # -- what is drawn

    def _container(self) -> HSplit:
        def fixed(control: Callable[[], StyleAndTextTuples | ANSI]) -> Window:
            return Window(FormattedTextControl(control), dont_extend_height=True, always_hide_cursor=True)

        typed = Window(
            self._typed,
            height=Dimension(min=1, max=MOST_INPUT_ROWS),
            dont_extend_height=True,
            wrap_lines=True,
            get_line_prefix=self._line_prefix,
        )
        return HSplit(
            [
                Window(height=1),
                ConditionalContainer(fixed(self._live_text), Condition(lambda: bool(self._live_rows()))),
                ConditionalContainer(
                    Window(self._panel.control, dont_extend_height=True, wrap_lines=True),
                    Condition(lambda: self._panel.open() is not None),
                ),
                ConditionalContainer(fixed(self._queued_text), Condition(lambda: bool(self._chat.queued or self._chat.images))),
                typed,
                ConditionalContainer(
                    fixed(self._offered_text),
                    Condition(lambda: self._line.buffer.complete_state is not None) & has_focus(self._typed),
                ),
                Window(FormattedTextControl(self._status), height=1, style="class:status"),
            ]
        )

    def _live_rows(self) -> list[Text]:
        return self._chat.showing.teller.live(self._live_console, min(LIVE_ROWS, max(self._output.get_size().rows // 3, 3)))

    def _live_text(self) -> ANSI:
        return ANSI(self._spell(render(self._live_console, self._live_paper, list(self._live_rows()))) + "\n")

    def _queued_text(self) -> StyleAndTextTuples:
        width = self._console.width - 10
        rows = [f"queued: {shorten(one_line(each.text), width)}" for each in self._chat.queued]
        if rows and not self._chat.works:
            rows.append("Enter on an empty line sends it")
        if self._chat.images:
            count = len(self._chat.images)
            rows.append(f"{count} image{'' if count == 1 else 's'} for the next message")
        return [("class:queued", self._spell("\n".join(rows)))]

    def _line_prefix(self, number: int, wrapped: int) -> StyleAndTextTuples:
        if self._panel.refusing is not None and number == 0 and wrapped == 0:
            return [("class:question", "no, because: ")]
        return [("class:mark", self._spell("❯ ")[:2].ljust(2) if number == 0 and wrapped == 0 else "  ")]

    def _offered_text(self) -> StyleAndTextTuples:
        state = self._line.buffer.complete_state
        if state is None:
            return []
        chosen = state.complete_index
        first = max(0, (chosen or 0) - MOST_OFFERED_ROWS + 1)
        parts: StyleAndTextTuples = []
        width = self._console.width - 3
        for place, offered in enumerate(state.completions[first : first + MOST_OFFERED_ROWS], first):
            name = shorten(offered.display_text, width)
            meta = f"  {offered.display_meta_text}" if offered.display_meta_text else ""
            parts.append(("class:chosen" if place == chosen else "class:offered", self._spell(f"  {name}")))
            parts.append(("class:meta", self._spell(shorten(meta, max(width - len(name), 0)) if meta else "")))
            parts.append(("", "\n"))
        return parts[:-1]

    def _status(self) -> StyleAndTextTuples:
        text = self._line.hint() or status_text(self._chat, self._console.width - 3)
        return [("class:status", self._spell(f"  {text}"))]
