"""`exec` for a person: progress and results on standard error, the answer on standard output.

Also the last line of a terminal while a turn works: the time so far and what was used. It is erased afterwards.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from rich.text import Text

from understudy import __version__
from understudy.cli.exec.input import ExecTask
from understudy.cli.exec.patient_errors import PatientErrors
from understudy.cli.exec.viewer import ExecViewer
from understudy.cli.streams import is_unread, silence
from understudy.cli.tell.record_teller import RecordTeller
from understudy.cli.tell.telling import Teller
from understudy.cli.tell.terminal import TerminalConsole, cost_text, one_line, open_console, seconds_text, shorten, tokens_text
from understudy.cli.tell.viewing import Asking
from understudy.config.model import Config
from understudy.engine.handle import Handle
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.protocol.items import Message
from understudy.protocol.ops import Decide
from understudy.protocol.records import (
    ApprovalDecided,
    ItemReceived,
    Question,
    Record,
    TextDelta,
    TokensCounted,
    TurnEnded,
    UserMessage,
)

PAUSE = 1.0  # seconds between two updates of the clock
_CLEAR = "\r\x1b[2K"


class StatusLine:
    """Drawn below what was printed, and erased before more is printed. Never drawn in the middle of a line, such as a
    question's."""

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


RULE = "--------"
MOST_FILES = 20
PATIENCE = 1.0  # seconds that the answer, or the end after a signal, waits for the reader of standard error


class ExecPersonViewer(ExecViewer):
    nobody = "nobody can be asked, because standard input is not a terminal"

    def __init__(
        self, handle: Handle, config: Config, console: TerminalConsole, *, created: bool, about: str | None = None
    ) -> None:
        """`about`: describes the task, if neither its prompt nor the model's words are for people."""
        super().__init__(handle, created=created, hides_reasoning=config.hide_agent_reasoning)
        self.can_answer = os.isatty(0) and os.isatty(2)
        self.console = console
        self._config = config
        self._about = about
        self._teller = Teller(console, cwd=str(config.cwd))
        self._records = RecordTeller(self._teller, str(config.cwd))
        self._status = StatusLine(console, self._working)
        self._began = time.monotonic()
        self._tokens = 0
        self._told_questions: list[Question] = []
        self._asking = Asking(self._answer, self._leave)
        self.left: asyncio.Future[None] = asyncio.get_running_loop().create_future()  # done once we wait for no reader

    # -- around the turn

    def begin(self) -> None:
        self._safely(self._show_header)

    def finish(self) -> None:
        """Show what was changed and used, even if the turn failed."""
        self._to_stderr(self._show_end)

    def _show_header(self) -> None:
        config = self._config
        rows = (
            ("workdir", str(config.cwd)),
            ("model", config.model),
            ("provider", config.model_provider),
            ("approval", config.approval_policy),
            ("sandbox", config.sandbox.mode),
            ("session id", self.handle.id),
        )
        lines = [f"understudy {__version__}", RULE, *(f"{name}: {one_line(value)}" for name, value in rows), RULE]
        for line in lines:
            self.console.print(Text(line, "dim"))
        for warning in config.warnings:
            self._teller.notice(f"warning: {warning}")
        for notice in config.notices:
            self._teller.notice(f"note: {notice}")
        if self._about is not None:
            self._teller.notice(self._about)
        self._status.start()

    def _show_end(self) -> None:
        self._status.stop()
        self._teller.close()
        work = self.handle.work_of(self.following.turn or "")
        if work is None:
            return
        if work.files:
            self._teller.aside(f"{len(work.files)} {'file' if len(work.files) == 1 else 'files'} changed")
            for path, file in list(work.files.items())[:MOST_FILES]:
                self._teller.line("  ", f"{file.change} {self._shown(path)} (+{file.added} -{file.removed})")
            if len(work.files) > MOST_FILES:
                self._teller.line("  ", f"… {len(work.files) - MOST_FILES} more")
        used = [seconds_text(work.spent.seconds)]
        if work.spent.usage is not None:
            used.insert(0, f"{tokens_text(work.spent.tokens)} tokens")
        if cost := cost_text(work.spent.cost_usd):
            used.insert(1, cost)
        self._teller.aside(", ".join(used))

    def _shown(self, path: str) -> str:
        relative = os.path.relpath(path, self._config.cwd) if os.path.isabs(path) else path
        return one_line(path if relative.startswith("..") else relative)

    def _working(self) -> str:
        seconds = seconds_text(time.monotonic() - self._began)
        used = f" · {tokens_text(self._tokens)} tokens" if self._tokens else ""
        return f"working {seconds}{used} · Ctrl-C stops"

    def _safely(self, show: Callable[[], None]) -> None:
        if not self.exit_code.done():
            self._to_stderr(show)

    def _to_stderr(self, show: Callable[[], None]) -> None:
        """If standard error fails, go on: the answer is still wanted on standard output."""
        try:
            show()
        except OSError as error:
            if self.can_answer or is_unread(1):
                self.failed(error)
            silence(2)

    # -- the turn

    def show(self, live: LiveEntry) -> None:
        record = live.entry.record
        if isinstance(record, TokensCounted):
            self._tokens += record.usage.total_tokens
        if isinstance(record, ApprovalDecided | TurnEnded):
            self._asking.end_line()
        if isinstance(record, Question):
            self._told_questions.append(record)
        if self._about is None or not (_is_said(record) or isinstance(record, UserMessage)):
            self._records.tell(record)

    def show_delta(self, live: LiveDelta) -> None:
        if self._about is None or not isinstance(live.delta, TextDelta):
            self._records.tell_delta(live.delta)

    def show_interrupted(self) -> None:
        self._asking.withdraw()
        self._teller.close()
        self._teller.failure("interrupted")

    def interrupt(self) -> None:
        self._asking.withdraw()
        if self.told_to_end and not self.left.done():
            self.left.set_result(None)
        if not self.exit_code.done():
            super().interrupt()
        elif not self.left.done():  # only the reader of standard error is late
            self.told_to_end = True
            self.left.set_result(None)

    def ended(self, ended: TurnEnded) -> None:
        self._asking.withdraw()
        super().ended(ended)

    def failed(self, error: BaseException) -> None:
        self._asking.withdraw()
        self._status.stop()
        super().failed(error)

    # -- questions

    def question(self, question: Question, turn: str) -> None:
        if not self.can_answer:
            super().question(question, turn)
            return
        if self._asking.has(question.call_id):
            return
        if not any(question is told for told in self._told_questions):
            self._safely(lambda: self._records.tell(question))
        if not self.exit_code.done():
            asked_at = self.handle.asked_at(question.call_id)
            self._safely(lambda: self._asking.ask(question, self.console, asked_at))

    def question_closed(self, call_id: str, turn: str) -> None:
        self._asking.withdraw(call_id)

    def _answer(self, op: Decide) -> None:
        self.handle.submit_soon(op)

    def _leave(self) -> None:
        """The end of input is neither a yes nor a no: the question stays open."""
        again = f"understudy resume {self.handle.id}"
        self._safely(lambda: self.console.print(f"\n  Not answered. The question stays open; to be asked again: {again}"))
        self._asking.withdraw()
        self._end(1)


def _is_said(record: Record) -> bool:
    return isinstance(record, ItemReceived) and isinstance(record.item, Message)


@asynccontextmanager
async def show_to_person(
    handle: Handle, config: Config, task: ExecTask, errors: PatientErrors | None = None
) -> AsyncGenerator[ExecPersonViewer]:
    """`errors`: standard error, if its reader may be slow."""
    console = open_console(stderr=True, color=task.request.color or "auto")
    viewer = ExecPersonViewer(handle, config, console, created=task.request.begins, about=task.review and task.review.about)
    viewer.begin()
    try:
        yield viewer
    finally:
        viewer.finish()
        if errors is not None:
            await _wait_for_reader(errors, viewer, PATIENCE)
    if viewer.final_message and task.review is not None:
        apart = "\n" if os.isatty(1) and os.isatty(2) else ""  # separates it from what was used
        _write_answer(apart + task.review.present(viewer.final_message))
    elif viewer.final_message and not (os.isatty(1) and os.isatty(2)):  # otherwise it was shown already
        _write_answer(viewer.final_message.rstrip("\n") + "\n")
    if errors is not None:
        await _wait_for_reader(errors, viewer, None)


async def _wait_for_reader(errors: PatientErrors, viewer: ExecPersonViewer, seconds: float | None) -> None:
    """Wait until all is read, at most so long; after a signal at most `PATIENCE`."""
    taken = asyncio.ensure_future(errors.taken())
    if viewer.told_to_end:
        seconds = PATIENCE
    await asyncio.wait([taken, viewer.left], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    taken.cancel()


def _write_answer(text: str) -> None:
    """Waits for a slow reader. Meanwhile a signal ends us as it would any program: the event loop's handlers would have to wait for
    the write, and there is nothing else left for them to stop."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
