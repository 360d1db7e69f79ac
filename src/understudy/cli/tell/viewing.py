"""Viewers of a live conversation in a terminal: one for people, one for programs. Both put questions to the person there.

Also the answers that a person may give, how they are asked, and events as lines of JSON with their place in the log.
"""

import asyncio
import os
import sys
import termios
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec
from rich.console import Console

from understudy.cli.ending import INTERRUPTED
from understudy.cli.stored import rfc3339
from understudy.cli.tell.record_teller import RecordTeller
from understudy.cli.tell.telling import Teller
from understudy.cli.tell.terminal import open_console
from understudy.cli.tell.watched_end import COMPLETED, FAILED, WatchedEnd
from understudy.cli.typed_answers import TypedAnswers
from understudy.engine.handle import Handle
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.engine.turn.approvals import CLIENT
from understudy.errors import AgentError
from understudy.policy.question_text import question_text
from understudy.protocol.choices import Decision
from understudy.protocol.ops import Decide, Interrupt
from understudy.protocol.records import ApprovalDecided, Entry, Question, TurnEnded, UserInputAsked, UserMessage
from understudy.servers.wire_events.event_codec import Encoded
from understudy.servers.wire_events.seed_events import encode_delta, encode_user_message, project
from understudy.text import make_visible

_PROMPT = "  [y]es, yes for the [s]ession, [n]o, [q]uit the turn? "
_SHORT_PROMPT = "  [y]es, [s]ession, [n]o, [q]uit? "
HINT = "  Please answer y, s, n or q."

_WORDS: dict[Decision, tuple[str, ...]] = {
    "approved": ("y", "yes", "a", "approve", "approved"),
    "approved_for_session": ("s", "session", "yes for the session", "approve for the session"),
    "denied": ("n", "no", "d", "deny", "denied"),
    "abort": ("q", "quit", "abort"),
}
_DECISIONS: dict[str, Decision] = {word: decision for decision, words in _WORDS.items() for word in words}


def prompt(width: int) -> str:
    """A prompt that leaves room for the answer in the same row."""
    return _PROMPT if len(_PROMPT) + 4 <= width else _SHORT_PROMPT


def read_answer(typed: str) -> Decision | None:
    """Accepts only whole words: “absolutely not” is not an `a`."""
    return _DECISIONS.get(" ".join(typed.lower().split()).strip(".!"))


def say_that_it_waits(call_id: str) -> None:
    """Nobody here can be asked, and the configuration lets questions wait."""
    sys.stderr.write(f"understudy: a question waits for an answer: understudy approvals answer {make_visible(call_id)} yes|no\n")
    sys.stderr.flush()


_encode = msgspec.json.Encoder().encode


def event_lines(entry: Entry) -> list[bytes]:
    """The events of an entry; there may be none."""
    record = entry.record
    messages = (
        [encode_user_message(record).msg] if isinstance(record, UserMessage) else [_encode(event) for event in project(record)]
    )
    before = b'{"seq":%d,"at":"%b","turn":%b,"msg":' % (entry.seq, rfc3339(entry.at).encode(), _encode(entry.turn))
    return [before + message + b"}\n" for message in messages]


def delta_line(live: LiveDelta) -> bytes:
    """A delta has no place of its own; it comes after an entry."""
    encoded: Encoded = encode_delta(live.delta)
    return b'{"after":%d,"turn":%b,"msg":%b}\n' % (live.after, _encode(live.turn), encoded.msg)


NOBODY = "nobody can be asked, because standard input is not a terminal"


class TerminalViewer(WatchedEnd):
    """Follows one message, or the running turn, to its end, which gives the exit code."""

    def __init__(self, handle: Handle, *, can_ask: bool) -> None:
        super().__init__()
        self.handle = handle
        self.can_answer = can_ask
        self.following = handle.follow(self)
        self._told_questions: list[Question] = []  # those that were shown as records
        self._interrupted = False
        self._asking = Asking(self._answer, self._leave)

    def interrupt(self) -> None:
        """The person wants it to stop. The second time, or if nothing can be interrupted any more, only the watching ends."""
        self._asking.withdraw()
        if self._interrupted:
            self._end(INTERRUPTED)
        else:
            self._interrupted = True
            self.handle.tasks.run(self._interrupt())

    async def _interrupt(self) -> None:
        try:
            accepted = await self.handle.submit(Interrupt())
        except AgentError as error:
            self.failed(error)
        else:
            if not accepted.effective:
                self._end(INTERRUPTED)

    # -- called by the following

    def entry(self, live: LiveEntry) -> None:
        if isinstance(live.entry.record, ApprovalDecided | TurnEnded):
            self._safely(self._asking.end_line)
        self._safely(lambda: self.tell(live))
        if isinstance(live.entry.record, Question):
            self._told_questions.append(live.entry.record)

    def delta(self, live: LiveDelta) -> None:
        self._safely(lambda: self.tell_delta(live))

    def question(self, question: Question, turn: str) -> None:
        """A question from before a restart, or of a turn that another process runs, was not shown yet."""
        if self._asking.has(question.call_id):
            return
        if not any(question is told for told in self._told_questions):
            self._safely(lambda: self.tell_question(question))
        if self.exit_code.done():
            return
        if self.can_answer:
            asked_at = self.handle.asked_at(question.call_id)
            self._safely(lambda: self._asking.ask(question, self.terminal, asked_at))
        elif self.handle.asks_for_turn:  # another process may have somebody to ask
            if self.handle.questions_wait:
                say_that_it_waits(question.call_id)
            self.handle.deny_unasked(question.call_id, NOBODY, turn)

    def question_closed(self, call_id: str, turn: str) -> None:
        self._asking.withdraw(call_id)

    def ended(self, ended: TurnEnded) -> None:
        self._end({"completed": COMPLETED, "failed": FAILED, "interrupted": INTERRUPTED}[ended.reason])

    def failed(self, error: BaseException) -> None:
        self._asking.withdraw()
        super().failed(error)

    # -- for subclasses

    def tell(self, live: LiveEntry) -> None:
        raise NotImplementedError

    def tell_delta(self, live: LiveDelta) -> None:
        raise NotImplementedError

    def tell_question(self, question: Question) -> None:
        raise NotImplementedError

    def tell_so_far(self, entries: Sequence[Entry]) -> None:
        """Show what happened in the turn before we watch it. Programs get that from `show --json`."""

    @property
    def terminal(self) -> Console:
        raise NotImplementedError

    def _answer(self, op: Decide) -> None:
        self.handle.submit_soon(op)

    def _leave(self) -> None:
        """The end of input is neither a yes nor a no: the question stays open."""
        again = f"understudy resume {self.handle.id}"
        self._safely(lambda: self.terminal.print(f"\n  Not answered. The question stays open; to be asked again: {again}"))
        self._end(FAILED)

    def _end(self, code: int) -> None:
        self._asking.withdraw()
        super()._end(code)


class PersonViewer(TerminalViewer):
    def __init__(self, handle: Handle, *, can_ask: bool) -> None:
        super().__init__(handle, can_ask=can_ask)
        self._console = open_console()
        cwd = handle.facts.cwd
        self._teller = Teller(self._console, cwd=cwd)
        self._records = RecordTeller(self._teller, cwd)

    @property
    def terminal(self) -> Console:
        return self._console

    def tell(self, live: LiveEntry) -> None:
        self._records.tell(live.entry.record)
        if isinstance(live.entry.record, TurnEnded):
            self._teller.close()

    def tell_question(self, question: Question) -> None:
        self._records.tell(question)

    def tell_so_far(self, entries: Sequence[Entry]) -> None:
        open_ones = self.handle.facts.questions
        for entry in entries:
            if not (isinstance(entry.record, Question) and entry.record.call_id in open_ones):  # those are put when they are asked
                self._records.tell(entry.record)

    def tell_delta(self, live: LiveDelta) -> None:
        self._records.tell_delta(live.delta)


class JsonViewer(TerminalViewer):
    """Lines of JSON on standard output; questions for a person go to standard error."""

    def __init__(self, handle: Handle, *, can_ask: bool) -> None:
        super().__init__(handle, can_ask=can_ask)
        self._console = open_console(stderr=True)

    @property
    def terminal(self) -> Console:
        return self._console

    def tell(self, live: LiveEntry) -> None:
        self._write(*event_lines(live.entry))
        if self.can_answer and isinstance(live.entry.record, Question):
            self.tell_question(live.entry.record)

    def tell_question(self, question: Question) -> None:
        Teller(self._console).question(question_text(question, self.handle.facts.cwd))

    def tell_delta(self, live: LiveDelta) -> None:
        self._write(delta_line(live))

    def _write(self, *lines: bytes) -> None:
        sys.stdout.buffer.writelines(lines)
        sys.stdout.buffer.flush()


class Asking:
    """Reads a person's answers from the terminal without blocking the event loop. One question at a time."""

    def __init__(self, answer: Callable[[Decide], None], leave: Callable[[], None]) -> None:
        self._answer = answer
        self._leave = leave
        self._open: dict[str, tuple[Console, float]] = {}  # when the question that the person has seen was asked
        self._typed: dict[str, TypedAnswers] = {}  # to what the model wants to know
        self._prompted: Console | None = None  # where the cursor is after a prompt

    def ask(self, question: Question, console: Console, asked_at: float) -> None:
        self._open[question.call_id] = console, asked_at
        if isinstance(question, UserInputAsked):
            self._typed[question.call_id] = TypedAnswers(question)
        if len(self._open) == 1:
            asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._heard)
            self._prompt(question.call_id, console)

    def has(self, call_id: str) -> bool:
        return call_id in self._open

    def withdraw(self, call_id: str | None = None) -> None:
        """The question was answered elsewhere, or all questions became void."""
        before = next(iter(self._open), None)
        if call_id is None:
            self._open.clear()
            self._typed.clear()
        else:
            self._open.pop(call_id, None)
            self._typed.pop(call_id, None)
        if not self._open:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        elif (first := next(iter(self._open))) != before:
            self._prompt(first, self._open[first][0])

    def end_line(self) -> None:
        """Something will be printed before anybody has answered here: begin a new line, instead of writing after the prompt."""
        prompted, self._prompted = self._prompted, None
        if prompted is not None:
            prompted.print()

    def _prompt(self, call_id: str, console: Console) -> None:
        self.end_line()
        typed = self._typed.get(call_id)
        _print_prompt(console, prompt(console.width) if typed is None else typed.prompt())
        self._prompted = console

    def _heard(self) -> None:
        try:
            line = os.read(sys.stdin.fileno(), 4096).decode(errors="replace")
        except OSError:  # the terminal has gone
            line = ""
        if not line:
            self._leave()
            return
        self._prompted = None  # the person's Enter has ended the line
        call_id, (console, asked_at) = next(iter(self._open.items()))
        if (typed := self._typed.get(call_id)) is not None:
            if typed.take(line):
                self._answer(typed.op(asked_at=asked_at))
            else:
                self._prompt(call_id, console)
            return
        decision = read_answer(line)
        if decision is None:
            console.print(HINT)
            self._prompt(call_id, console)
        else:
            self._answer(Decide(call_id, decision, CLIENT, asked_at=asked_at))


def _print_prompt(console: Console, text: str) -> None:
    """Earlier input is no answer to this question: it may have been meant for the one before, just when that was answered
    elsewhere."""
    with suppress(OSError, termios.error):  # no terminal
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    console.print(text, end="", soft_wrap=True, markup=False, highlight=False)
    console.file.flush()
