"""Viewers of a live conversation in a terminal: one for people, one for programs. Both put questions to whoever sits there."""

import asyncio
import os
import sys
from collections.abc import Callable

from rich.console import Console

from understudy.cli.event_lines import delta_line, event_lines
from understudy.cli.record_teller import Question, RecordTeller, question_text
from understudy.cli.telling import Teller
from understudy.cli.terminal import open_console
from understudy.engine.approvals import CLIENT
from understudy.engine.conversation import Conversation, Sent
from understudy.engine.feed import LiveDelta, Shown
from understudy.errors import AgentError
from understudy.protocol.choices import Decision
from understudy.protocol.records import ApprovalDecided, CommandApprovalAsked, PatchApprovalAsked, RequestSent, TurnEnded

COMPLETED, FAILED, INTERRUPTED = 0, 1, 130
NOBODY = "nobody can be asked, because standard input is not a terminal"
CHOICES: dict[str, Decision] = {"a": "approved", "s": "approved_for_session", "d": "denied", "q": "abort"}
PROMPT = "  [a]pprove once, approve for the [s]ession, [d]eny, [q]uit the turn? "


class Viewer:
    """Follows one message to the end of the turn that reads it; `ended` is then the exit code."""

    def __init__(self, conversation: Conversation, *, can_ask: bool) -> None:
        self.conversation = conversation
        self.can_answer = can_ask
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._message_id = ""
        self._turn = ""
        self._read = False  # the model has been given the message
        self._asking = _Asking(self._answer)

    def follow(self, sent: Sent) -> None:
        self._message_id, self._turn = sent.message_id, sent.turn
        if sent.joined:
            self._put_open_questions()
        else:
            self.conversation.feed.when_committed(self._put_open_questions)  # after the message itself has been shown

    def _put_open_questions(self) -> None:
        """Those from before a restart, or of a turn that runs elsewhere."""
        for question in tuple(self.conversation.state.questions.values()):
            if not self._asking.has(question.call_id):
                self.tell_question(question)
                self._put(question)

    def interrupt(self) -> None:
        """The person wants it to stop. Where nothing can be interrupted any more, only the watching ends."""
        self._asking.withdraw()
        if not self.conversation.interrupt():
            self._end(INTERRUPTED)

    # -- called by the feed

    def show(self, shown: Shown) -> None:
        entry = shown.entry
        self.tell(shown)
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
        raise NotImplementedError

    def fail(self, error: AgentError) -> None:
        self._asking.withdraw()
        if not self.ended.done():
            self.ended.set_exception(error)

    # -- for subclasses

    def tell(self, shown: Shown) -> None:
        raise NotImplementedError

    def tell_question(self, question: Question) -> None:
        raise NotImplementedError

    @property
    def terminal(self) -> Console:
        raise NotImplementedError

    def _put(self, question: Question) -> None:
        if self.can_answer:
            self._asking.ask(question, self.terminal)
        else:
            self.conversation.decide(question.call_id, "denied", NOBODY)

    def _answer(self, call_id: str, decision: Decision) -> None:
        self.conversation.decide(call_id, decision, CLIENT)

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

    def tell(self, shown: Shown) -> None:
        self._records.tell(shown.entry.record)
        if isinstance(shown.entry.record, TurnEnded):
            self._teller.close()

    def tell_question(self, question: Question) -> None:
        self._records.tell(question)

    def show_delta(self, live: LiveDelta) -> None:
        self._records.tell_delta(live.delta)


class JsonViewer(Viewer):
    """Lines of JSON on standard output; what a person is asked goes to standard error."""

    def __init__(self, conversation: Conversation, *, can_ask: bool) -> None:
        super().__init__(conversation, can_ask=can_ask)
        self._console = open_console(stderr=True)

    @property
    def terminal(self) -> Console:
        return self._console

    def tell(self, shown: Shown) -> None:
        self._write(*event_lines(shown.entry))
        if self.can_answer and isinstance(shown.entry.record, CommandApprovalAsked | PatchApprovalAsked):
            self.tell_question(shown.entry.record)

    def tell_question(self, question: Question) -> None:
        Teller(self._console).question(question_text(question, self.conversation.state.overrides.cwd or ""))

    def show_delta(self, live: LiveDelta) -> None:
        self._write(delta_line(live))

    def _write(self, *lines: bytes) -> None:
        sys.stdout.buffer.writelines(lines)
        sys.stdout.buffer.flush()


class _Asking:
    """Reads a person's answers from the terminal without keeping the event loop from anything. One question at a time."""

    def __init__(self, answer: Callable[[str, Decision], None]) -> None:
        self._answer = answer
        self._open: dict[str, Console] = {}

    def ask(self, question: Question, console: Console) -> None:
        self._open[question.call_id] = console
        if len(self._open) == 1:
            asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._heard)
        console.print(PROMPT, end="")
        console.file.flush()

    def has(self, call_id: str) -> bool:
        return call_id in self._open

    def withdraw(self, call_id: str | None = None) -> None:
        """The question is answered otherwise, or all of them are void."""
        if call_id is None:
            self._open.clear()
        else:
            self._open.pop(call_id, None)
        if not self._open:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())

    def _heard(self) -> None:
        line = os.read(sys.stdin.fileno(), 4096).decode(errors="replace")
        call_id = next(iter(self._open))
        choice = CHOICES.get(line.strip()[:1].lower()) if line else "denied"  # the end of input is nobody's yes
        if choice is None:
            console = self._open[call_id]
            console.print(PROMPT, end="")
            console.file.flush()
            return
        self._answer(call_id, choice)
