"""How the chat shows a conversation: what is finished is printed once, what is in progress is kept for the live part of the
screen."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from understudy.cli.chat.teller import ChatTeller, Folds
from understudy.cli.tell.record_teller import RecordTeller, question_text
from understudy.cli.tell.terminal import TerminalConsole, cost_text, seconds_text, tokens_text
from understudy.cli.typed_answers import TypedAnswers
from understudy.engine.handle import Handle
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.protocol.records import (
    ApprovalDecided,
    CommandEnded,
    CommandStarted,
    DiffChanged,
    Entry,
    Noticed,
    Overrides,
    PatchApprovalAsked,
    PatchStarted,
    PlanUpdated,
    Question,
    TokensCounted,
    ToolAnswered,
    ToolCallBegan,
    ToolCallEnded,
    TurnEnded,
    TurnStarted,
    UserInputAsked,
    UserMessage,
)

QUESTION_DIFF_LINES = 120


class Face(Protocol):
    """A terminal of any kind."""

    @property
    def has_live_part(self) -> bool:
        """Whether it can show something that is redrawn as it changes."""
        ...

    @property
    def console(self) -> TerminalConsole:
        """What is printed there stays in the terminal's history."""
        ...

    def changed(self) -> None:
        """Something that is not printed has changed: the status, a question, or what is in progress."""
        ...


class ShownQuestion:
    def __init__(self, question: Question, turn: str, asked_at: float, *, folded: bool = False) -> None:
        self.question = question
        self.folded = folded  # not everything in question was shown
        self.turn = turn
        self.asked_at = asked_at  # the answer names it, so that it cannot answer a later question
        self.typed = TypedAnswers(question) if isinstance(question, UserInputAsked) else None
        self.answered = False  # answered here; the log says whether that counts


class Showing:
    """Shows one conversation. Implements what a following calls (`engine.following.Viewer`)."""

    can_answer = True

    def __init__(
        self,
        handle: Handle,
        face: Face,
        *,
        failed: Callable[[BaseException], None],
        turn_seen: Callable[[str], None],
        turn_over: Callable[[bool], None],
    ) -> None:
        self.handle = handle
        self.folds = Folds()
        self.teller = ChatTeller(face.console, self.folds, cwd=handle.facts.cwd, has_live_part=face.has_live_part)
        self.questions: dict[str, ShownQuestion] = {}
        self.model = handle.setup().config.model
        self.turn: str | None = None  # the running turn, as far as it was shown
        self.turn_began = time.time()
        self.turn_tokens = 0
        self.usage = handle.facts.usage  # of the conversation, as far as it was shown
        self.plan: Entry | None = None
        self.diffs: dict[str, int] = {}  # turns that changed files, each with its latest record of changes
        self.interrupting = False
        self.stopped = False
        self._face = face
        self._failed = failed
        self._turn_seen = turn_seen
        self._turn_over = turn_over
        self._records = RecordTeller(self.teller, handle.facts.cwd)
        self._shown_patches: set[str] = set()  # whose changes were shown with their questions
        self._told_questions: list[Question] = []
        self._folded_questions: set[str] = set()
        self._last_told = 0  # the number of a record
        self._told: asyncio.Future[None] | None = None  # for the next one, if somebody waits for it

    # -- called by the following

    def entry(self, live: LiveEntry) -> None:
        if not self.stopped:
            self._tell(live.entry)
            self._face.changed()
            self._note_told(live.entry.seq)

    def delta(self, live: LiveDelta) -> None:
        if not self.stopped:
            self._records.tell_delta(live.delta)
            self._face.changed()

    def question(self, question: Question, turn: str) -> None:
        """May come again, even for a question that was answered long ago."""
        if self.stopped or self.handle.open_question(question.call_id) != question:
            return
        self._tell_question(question)
        known = self.questions.get(question.call_id)
        if known is None or known.answered or known.question != question:  # the answer may have gone to a process that has died
            asked_at, folded = self.handle.asked_at(question.call_id), question.call_id in self._folded_questions
            self.questions[question.call_id] = ShownQuestion(question, turn, asked_at, folded=folded)
        self._face.changed()

    def question_closed(self, call_id: str, turn: str) -> None:
        if self.questions.pop(call_id, None) is not None:
            self._face.changed()

    def ended(self, ended: TurnEnded) -> None:
        """This following waits for no turn: see `chat.Chat`."""

    def failed(self, error: BaseException) -> None:
        if not self.stopped:
            self._failed(error)

    # -- keeping in step

    async def catch_up(self) -> None:
        """Wait until all records so far are shown. They are shown once they are on disk, which is later than the handle's facts."""
        last = self.handle.facts.last_seq
        while self._last_told < last and not self.stopped:
            if self._told is None:
                self._told = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._told)

    def stop(self) -> None:
        """Show nothing more."""
        self.stopped = True
        self._note_told(self._last_told)

    def _note_told(self, seq: int) -> None:
        self._last_told = seq
        told, self._told = self._told, None
        if told is not None:
            told.set_result(None)

    # -- telling

    def _tell(self, entry: Entry) -> None:
        record, teller = entry.record, self.teller
        teller.seq, teller.call_id = entry.seq, _call_of(record)
        match record:
            case TurnStarted(turn_id=turn):
                self._begin_turn(turn, entry.at)
            case UserMessage(overrides=Overrides(model=str(model))):
                self.model = model
            case TokensCounted(usage=usage, total=total):
                self.turn_tokens += usage.total_tokens
                self.usage = total or usage
            case PlanUpdated():
                self.plan = entry
            case DiffChanged():
                self.diffs[entry.turn] = entry.seq
            case Noticed(withdraws=True):
                teller.withdraw()
            case ApprovalDecided(effective=True, call_id=call_id):
                self._told_questions = [told for told in self._told_questions if told.call_id != call_id]
            case _:
                pass
        if isinstance(record, Question):
            self._tell_question(record)
        elif not (isinstance(record, PatchStarted) and record.call_id in self._shown_patches):
            self._records.tell(record)
        match record:
            case CommandStarted(session=int(session), call_id=call_id):
                teller.under_way[call_id].session = session
            case CommandEnded(call_id=call_id):
                teller.under_way.pop(call_id, None)
            case ToolAnswered(output=output):
                teller.leave_running(output.call_id)
            case TurnEnded():
                self._end_turn(entry, record)
            case _:
                pass

    def _tell_question(self, question: Question) -> None:
        """Show everything in question first: what would be run or changed, then the question."""
        if question in self._told_questions:
            return  # asked again, because another process now waits for the answer
        self._told_questions.append(question)
        if isinstance(question, PatchApprovalAsked):
            self._shown_patches.add(question.call_id)
            before = len(self.folds)
            for path, change in question.changes.items():
                self.teller.change(path, change, QUESTION_DIFF_LINES, exact=True)
            if len(self.folds) > before:
                self._folded_questions.add(question.call_id)
        self.teller.question(question_text(question, self.handle.facts.cwd))

    def tell_all_of(self, asked: ShownQuestion) -> None:
        """Show it again, with nothing folded."""
        self.teller.shows_all = True
        try:
            self._told_questions.remove(asked.question)
            self._tell_question(asked.question)
        finally:
            self.teller.shows_all = False

    def _begin_turn(self, turn: str, at: float) -> None:
        self.turn, self.turn_began, self.turn_tokens, self.interrupting = turn, at, 0, False
        self._turn_seen(turn)

    def _end_turn(self, entry: Entry, ended: TurnEnded) -> None:
        self.teller.close()
        self.turn, self.interrupting = None, False
        self.questions.clear()
        self._told_questions.clear()
        used = [seconds_text(max(entry.at - self.turn_began, 0.0))]
        work = self.handle.work_of(entry.turn)
        if work is not None:
            if work.spent.usage is not None:
                used.append(f"{tokens_text(work.spent.tokens)} tokens")
            if cost := cost_text(work.spent.cost_usd):
                used.append(cost)
            if work.files:
                used.append(f"{len(work.files)} file{'' if len(work.files) == 1 else 's'} changed, /diff shows what")
        self.teller.aside("  " + " · ".join(used))
        self._turn_over(ended.reason == "completed")

    def say(self, text: str) -> None:
        """Print words of ours, which no other viewer sees."""
        self.teller.notice(text)
        self._face.changed()


def _call_of(record: object) -> str:
    match record:
        case ToolCallBegan(call_id=call_id) | ToolCallEnded(call_id=call_id):
            return call_id
        case ToolAnswered(output=output):
            return output.call_id
        case _:
            return ""
