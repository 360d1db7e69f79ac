"""Viewers of a live conversation in a terminal: one for people, one for programs. Both put questions to whoever sits there."""

import asyncio
import os
import sys
from collections.abc import Callable

from rich.console import Console

from understudy.cli.answers import HINT, prompt, read_answer
from understudy.cli.ending import INTERRUPTED
from understudy.cli.event_lines import delta_line, event_lines
from understudy.cli.record_teller import Question, RecordTeller, question_text
from understudy.cli.telling import Teller
from understudy.cli.terminal import open_console
from understudy.engine.approvals import CLIENT
from understudy.engine.broadcast import LiveDelta, LiveEntry
from understudy.engine.conversation import Conversation, Sent
from understudy.protocol.choices import Decision
from understudy.protocol.records import ApprovalDecided, CommandApprovalAsked, PatchApprovalAsked, RequestSent, TurnEnded

COMPLETED, FAILED = 0, 1
NOBODY = "nobody can be asked, because standard input is not a terminal"


class Viewer:
    """Follows one message, or the turn that is under way, to its end; `ended` is then the exit code."""

    def __init__(self, conversation: Conversation, *, can_ask: bool) -> None:
        self.conversation = conversation
        self.can_answer = can_ask
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._message_id = ""
        self._turn = ""
        self._read = False  # the model has been given the message
        self._interrupted = False
        self._asking = _Asking(self._answer, self._leave)

    def follow(self, sent: Sent) -> None:
        """To be called in the step that sent it: what is open by then is from before, and will not be shown again."""
        self._message_id, self._turn = sent.message_id, sent.turn
        before = tuple(self.conversation.state.questions.values())
        if sent.joined:
            self._put_open(before)
        else:
            self.conversation.tail.when_committed(lambda: self._put_open(before))  # after the message itself has been shown

    def follow_turn(self, turn: str) -> None:
        """The turn that is under way, here or in another process."""
        self._turn, self._read = turn, True
        self._put_open(tuple(self.conversation.state.questions.values()))

    def taken_up(self) -> None:
        """The process that ran the turn is gone, and it goes on here."""
        self._put_open(tuple(self.conversation.state.questions.values()))

    def _put_open(self, questions: tuple[Question, ...]) -> None:
        """Those from before a restart, or of a turn that runs elsewhere, unless they were answered meanwhile."""
        for question in questions:
            still_open = self.conversation.state.questions.get(question.call_id) is question
            if still_open and not self._asking.has(question.call_id):
                self._tell_safely(lambda question=question: self.tell_question(question))
                self._put(question)

    def interrupt(self) -> None:
        """The person wants it to stop. The second time, or where nothing can be interrupted any more, only the watching ends."""
        self._asking.withdraw()
        if self._interrupted or self.conversation.interrupt() is None:
            self._end(INTERRUPTED)
        self._interrupted = True

    # -- called by the broadcast

    def show(self, live: LiveEntry) -> None:
        entry = live.entry
        self._tell_safely(lambda: self.tell(live))
        match entry.record:
            case RequestSent(consumed=consumed) if self._message_id in consumed:
                self._turn, self._read = entry.turn, True
            case CommandApprovalAsked() | PatchApprovalAsked() as question:
                self._put(question)
            case ApprovalDecided(call_id=call_id):
                self._asking.withdraw(call_id)
            case TurnEnded(reason=reason) if entry.turn == self._turn and (self._read or reason != "completed"):
                self._end({"completed": COMPLETED, "failed": FAILED, "interrupted": INTERRUPTED}[reason])
            case _:
                pass

    def show_delta(self, live: LiveDelta) -> None:
        self._tell_safely(lambda: self.tell_delta(live))

    def fail(self, error: BaseException) -> None:
        self._asking.withdraw()
        if not self.ended.done():
            self.ended.set_exception(error)

    # -- for subclasses

    def tell(self, live: LiveEntry) -> None:
        raise NotImplementedError

    def tell_delta(self, live: LiveDelta) -> None:
        raise NotImplementedError

    def tell_question(self, question: Question) -> None:
        raise NotImplementedError

    @property
    def terminal(self) -> Console:
        raise NotImplementedError

    def _tell_safely(self, tell: Callable[[], None]) -> None:
        if self.ended.done():
            return
        try:
            tell()
        except OSError as error:  # whoever reads us has gone, or the disk that we print to is full
            self.fail(error)

    def _put(self, question: Question) -> None:
        if self.ended.done():
            return
        if self.can_answer:
            self._tell_safely(lambda: self._asking.ask(question, self.terminal))
        elif self.conversation.is_running:  # another process may have somebody to ask
            self.conversation.decide(question.call_id, "denied", NOBODY)

    def _answer(self, call_id: str, decision: Decision) -> None:
        self.conversation.decide(call_id, decision, CLIENT)

    def _leave(self) -> None:
        """The end of input is nobody's yes, and no denial either: the question stays open."""
        again = f"understudy resume {self.conversation.id}"
        self._tell_safely(lambda: self.terminal.print(f"\n  Not answered. The question stays open; to be asked again: {again}"))
        self._end(FAILED)

    def _end(self, code: int) -> None:
        self._asking.withdraw()
        if not self.ended.done():
            self.ended.set_result(code)


class PersonViewer(Viewer):
    def __init__(self, conversation: Conversation, *, can_ask: bool) -> None:
        super().__init__(conversation, can_ask=can_ask)
        self._console = open_console()
        cwd = conversation.state.overrides.cwd or ""
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

    def tell_delta(self, live: LiveDelta) -> None:
        self._records.tell_delta(live.delta)


class JsonViewer(Viewer):
    """Lines of JSON on standard output; what a person is asked goes to standard error."""

    def __init__(self, conversation: Conversation, *, can_ask: bool) -> None:
        super().__init__(conversation, can_ask=can_ask)
        self._console = open_console(stderr=True)

    @property
    def terminal(self) -> Console:
        return self._console

    def tell(self, live: LiveEntry) -> None:
        self._write(*event_lines(live.entry))
        if self.can_answer and isinstance(live.entry.record, CommandApprovalAsked | PatchApprovalAsked):
            self.tell_question(live.entry.record)

    def tell_question(self, question: Question) -> None:
        Teller(self._console).question(question_text(question, self.conversation.state.overrides.cwd or ""))

    def tell_delta(self, live: LiveDelta) -> None:
        self._write(delta_line(live))

    def _write(self, *lines: bytes) -> None:
        sys.stdout.buffer.writelines(lines)
        sys.stdout.buffer.flush()


class _Asking:
    """Reads a person's answers from the terminal without keeping the event loop from anything. One question at a time."""

    def __init__(self, answer: Callable[[str, Decision], None], leave: Callable[[], None]) -> None:
        self._answer = answer
        self._leave = leave
        self._open: dict[str, Console] = {}

    def ask(self, question: Question, console: Console) -> None:
        self._open[question.call_id] = console
        if len(self._open) == 1:
            asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._heard)
            _print_prompt(console)

    def has(self, call_id: str) -> bool:
        return call_id in self._open

    def withdraw(self, call_id: str | None = None) -> None:
        """The question is answered otherwise, or all of them are void."""
        before = next(iter(self._open), None)
        if call_id is None:
            self._open.clear()
        else:
            self._open.pop(call_id, None)
        if not self._open:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        elif (first := next(iter(self._open))) != before:
            _print_prompt(self._open[first])

    def _heard(self) -> None:
        try:
            line = os.read(sys.stdin.fileno(), 4096).decode(errors="replace")
        except OSError:  # the terminal has gone
            line = ""
        if not line:
            self._leave()
            return
        call_id, console = next(iter(self._open.items()))
        decision = read_answer(line)
        if decision is None:
            console.print(HINT)
            _print_prompt(console)
        else:
            self._answer(call_id, decision)


def _print_prompt(console: Console) -> None:
    console.print(prompt(console.width), end="", soft_wrap=True)
    console.file.flush()
