"""What a conversation is, computed from its log: history, open turn, questions, input not yet read.

A fold over one path of entries and nothing else: no I/O, no clock. Appending live and reading back after a crash
go through the same `apply`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from understudy.engine.history import History
from understudy.engine.ledger import Ledger
from understudy.errors import StoreError
from understudy.protocol.callers import LOCAL_NAME
from understudy.protocol.items import FunctionCall, InputText, Item, Message, OutputText, Usage
from understudy.protocol.records import (
    AnswerRejected,
    ApprovalDecided,
    BudgetAsked,
    CommandApprovalAsked,
    CommandEnded,
    CommandStarted,
    Compacted,
    CompactionStarted,
    DiffChanged,
    Entry,
    ImageViewed,
    InputWritten,
    ItemReceived,
    Noticed,
    Opened,
    Overrides,
    PatchApprovalAsked,
    PatchEnded,
    PatchStarted,
    Pins,
    PlanUpdated,
    Question,
    Record,
    RequestSent,
    ServersChecked,
    TokensCounted,
    ToolAnswered,
    ToolApprovalAsked,
    ToolCallBegan,
    ToolCallEnded,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from understudy.store.log import RunningCommand, Status, Summary

TITLE_LENGTH = 80
NO_TITLE = "New conversation"
FIRST_SESSION = 1001  # told from other numbers at a glance; the same in every conversation, so that a recorded one can be played
MOST_UNTOLD = 32
LINE_LENGTH = 200  # of a running command, in lists
MOST_FILES = 200  # changed files that are remembered, the last ones

_COUNTED_BY = Ledger.APPLIED_BY
TRY_AGAIN = (
    "Your answer does not have the form that was asked for: {problem}\n"
    "Answer again with one JSON value that fits the schema, and nothing before or after it."
)


SESSION_ENDED = "Session {number} (`{line}`) does not run any more: {why}."


class State:
    """The present of a conversation. `apply` is the only thing that changes it."""

    def __init__(self) -> None:
        self.last_seq = 0  # of the whole log
        self.head = 0  # the last record of the path that this state follows
        self.overrides = Overrides()
        self.pins: Pins | None = None  # the places it began with, or was given since
        self.model = ""
        self.owner = LOCAL_NAME
        self.history = History()  # what the model is sent
        self.waiting: dict[str, UserMessage] = {}  # accepted, not yet read by the model
        self.turn: str | None = None
        self.usage: Usage | None = None  # of the whole conversation
        self.context_tokens: int | None = None  # by the provider's last count; None: it has not counted since a compaction
        self.plan: PlanUpdated | None = None
        self.changed_files: dict[str, None] = {}  # by patches that were applied, the last one at the end
        self.submissions = 0  # numbers given out so far; "0" was the configuration
        self.calls: dict[str, FunctionCall] = {}  # not answered yet, in the model's order
        self.running: dict[str, CommandStarted | PatchStarted | ToolCallBegan] = {}  # begun, no outcome yet
        self.outcomes: dict[str, CommandEnded | PatchEnded | ToolCallEnded] = {}  # of what has run, until the model is told
        self.questions: dict[str, Question] = {}
        self.sessions: dict[int, tuple[str, CommandStarted]] = {}  # commands that outlive their turns, with the turn of each
        self.untold: dict[int, CommandEnded] = {}  # sessions that ended while no call waited for it, the last ones
        self.last_session = FIRST_SESSION - 1  # the number given out last
        self._news: list[str] = []  # of sessions that were ended, for the model
        self.approved: set[str] = set()  # keys approved for the session
        self.answer: str | None = None  # the last thing the model said in this turn
        self.title = ""
        self.message_count = 0
        # of the whole log, whatever path is followed:
        self.ledger = Ledger()
        self.last_at = 0.0  # when its last record was appended
        self.message_ends: dict[str, int] = {}  # the record after which a message's turn was over: where a fork begins
        self.turn_messages: dict[str, str] = {}  # the message that began each turn
        self._messages_of_turn: list[str] = []  # accepted in it, or read
        self._accepted_by: dict[str, int] = {}  # the record of each message that waits

    @property
    def items(self) -> list[Item]:
        return self.history.items

    @property
    def requests(self) -> int:
        """To the model, so far."""
        return self.history.requests

    def apply(self, entry: Entry) -> None:
        seq = self.head = entry.seq
        if seq > self.last_seq:
            self.last_seq = seq
        self.last_at = entry.at
        record = entry.record
        kind = type(record)
        count = _COUNTED_BY.get(kind)
        if count is not None:
            count(self.ledger, entry, record)
        self.APPLIED_BY[kind](self, entry, record)

    def _item_received(self, entry: Entry, record: ItemReceived) -> None:
        item = record.item
        self.history.add(item, entry.seq)
        if isinstance(item, FunctionCall):
            self.calls[item.call_id] = item
        elif isinstance(item, Message):
            self.answer = item.text() or self.answer
            self.message_count += 1

    def _tool_answered(self, entry: Entry, record: ToolAnswered) -> None:
        output = record.output
        self.history.add(output, entry.seq)
        for known in (self.calls, self.running, self.outcomes, self.questions):
            known.pop(output.call_id, None)

    def _request_sent(self, entry: Entry, record: RequestSent) -> None:
        self.answer = None
        self.history.begin_request(record.context, entry.seq)
        if self._news:
            self.history.add(Message("user", (InputText("\n".join(self._news)),)), entry.seq)
            self._news = []
        for message_id in record.consumed:
            self._messages_of_turn.append(message_id)
            message = self.waiting.pop(message_id, None)
            if message is not None:
                self.history.add_from_user(message.message, self._accepted_by.pop(message_id, entry.seq))

    def _user_message(self, entry: Entry, record: UserMessage) -> None:
        self.waiting[record.message_id] = record
        self._accepted_by[record.message_id] = entry.seq
        self.submissions += 1
        self.message_count += 1
        self.message_ends[record.message_id] = entry.seq
        self._messages_of_turn.append(record.message_id)
        self.turn_messages.setdefault(entry.turn, record.message_id)
        self.title = self.title or title_from(record.message)
        if record.overrides is not None:
            self.overrides = merge(self.overrides, record.overrides)
        if record.pins is not None:
            self.pins = record.pins

    def _turn_started(self, entry: Entry, record: TurnStarted) -> None:
        self.turn = record.turn_id
        self.submissions += int(record.compacts)
        self.answer = None

    def _begun(self, entry: Entry, record: CommandStarted | PatchStarted | ToolCallBegan) -> None:
        self.running[record.call_id] = record
        if isinstance(record, CommandStarted) and record.session is not None:
            self.sessions[record.session] = entry.turn, record
            self.last_session = max(self.last_session, record.session)

    def _ended(self, entry: Entry, record: CommandEnded | PatchEnded | ToolCallEnded) -> None:
        begun = self.running.pop(record.call_id, None)
        if isinstance(record, CommandEnded) and record.started is not None:
            self._session_ended(record, record.started)
            if record.call_id not in self.calls:
                return  # its call was answered long ago
        self.outcomes[record.call_id] = record
        if isinstance(begun, PatchStarted) and isinstance(record, PatchEnded) and record.success:
            self._note_changed(begun)

    def _session_ended(self, record: CommandEnded, started: CommandStarted) -> None:
        number = started.session or 0
        self.sessions.pop(number, None)
        if record.untold:
            self.untold[number] = record
            for old in list(self.untold)[:-MOST_UNTOLD]:
                del self.untold[old]
        if record.ended_by:
            line = " ".join(started.command[-1].split())[:LINE_LENGTH]
            self._news.append(SESSION_ENDED.format(number=started.session, line=line, why=record.ended_by))

    def _note_changed(self, patch: PatchStarted) -> None:
        for path in patch.changes:
            self.changed_files.pop(path, None)
            self.changed_files[path] = None
        for path in list(self.changed_files)[:-MOST_FILES]:
            del self.changed_files[path]

    def _planned(self, entry: Entry, record: PlanUpdated) -> None:
        self.plan = record

    def _asked(self, entry: Entry, record: Question) -> None:
        self.questions[record.call_id] = record

    def _decided(self, entry: Entry, record: ApprovalDecided) -> None:
        if record.effective:
            self.submissions += 1
            self.questions.pop(record.call_id, None)
            if record.decision == "approved_for_session" and record.key is not None:
                self.approved.add(record.key)

    def _opened(self, entry: Entry, record: Opened) -> None:
        self.overrides = record.overrides
        self.pins = record.pins
        self.model = record.model
        self.owner = record.owner

    def _counted(self, entry: Entry, record: TokensCounted) -> None:
        self.usage = record.total or record.usage
        self.context_tokens = record.usage.total_tokens

    def _compaction_started(self, entry: Entry, record: CompactionStarted) -> None:
        self.history.requests += 1

    def _compacted(self, entry: Entry, record: Compacted) -> None:
        self.history.compact(record, entry.seq)
        self.context_tokens = None

    def _turn_ended(self, entry: Entry, record: TurnEnded) -> None:
        self.turn = None
        self.submissions += int(record.asked_for)
        if record.unfinished:
            self.history.add(Message("assistant", (OutputText(record.unfinished),)), entry.seq)
        for message_id in self._messages_of_turn:
            self.message_ends[message_id] = entry.seq
        self._messages_of_turn = []
        self.calls.clear()
        self.running.clear()
        self.outcomes.clear()
        self.questions.clear()

    def _answer_rejected(self, entry: Entry, record: AnswerRejected) -> None:
        self.history.add(Message("user", (InputText(TRY_AGAIN.format(problem=record.problem)),)), entry.seq)

    def _nothing(self, entry: Entry, record: Record) -> None:
        """What it tells is for those who watch."""

    APPLIED_BY: ClassVar[dict[type[Record], Callable[["State", Entry, Any], None]]] = {  # a table: this is done for every record
        ItemReceived: _item_received,
        ToolAnswered: _tool_answered,
        RequestSent: _request_sent,
        UserMessage: _user_message,
        TurnStarted: _turn_started,
        TurnEnded: _turn_ended,
        CommandStarted: _begun,
        PatchStarted: _begun,
        CommandEnded: _ended,
        PatchEnded: _ended,
        ToolCallBegan: _begun,
        ToolCallEnded: _ended,
        InputWritten: _nothing,
        ImageViewed: _nothing,
        CommandApprovalAsked: _asked,
        PatchApprovalAsked: _asked,
        BudgetAsked: _asked,
        ToolApprovalAsked: _asked,
        ServersChecked: _nothing,
        ApprovalDecided: _decided,
        AnswerRejected: _answer_rejected,
        Opened: _opened,
        TokensCounted: _counted,
        PlanUpdated: _planned,
        CompactionStarted: _compaction_started,
        Compacted: _compacted,
        DiffChanged: _nothing,
        Noticed: _nothing,
    }

    def extend(self, entries: Sequence[Entry]) -> bool:
        """Go on with what was appended elsewhere. False, and nothing done, where it is another path."""
        if any(entry.parent != before for entry, before in zip(entries, (self.head, *(e.seq for e in entries)), strict=False)):
            return False
        for entry in entries:
            self.apply(entry)
        return True

    @property
    def status(self) -> Status:
        if self.questions:
            return "waiting"
        return "running" if self.turn is not None else "idle"

    def summary(self) -> Summary:
        total = self.ledger.total
        return Summary(
            self.title or NO_TITLE,
            self.status,
            self.message_count,
            self.overrides.cwd or "",
            self.overrides.model or self.model,
            tuple(self.questions),
            None if total.usage is None else total.usage.total_tokens,
            total.cost_usd,
            self.running_commands() if self.sessions else (),
        )

    def running_commands(self) -> tuple[RunningCommand, ...]:
        lines = ((number, " ".join(begun.command[-1].split())) for number, (_, begun) in self.sessions.items())
        return tuple(RunningCommand(number, line[:LINE_LENGTH]) for number, line in lines)

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> "State":
        state = cls()
        for entry in entries:
            state.apply(entry)
        return state

    @classmethod
    def read(cls, entries: Sequence[Entry]) -> "State":
        """The present of a log: of its newest path, with the numbers of all of it."""
        path = path_to(entries)
        state = cls.of(path)
        if len(path) != len(entries):
            state._number_like(cls.of(entries))
        return state

    def fork(self, entries: Sequence[Entry], end: int) -> "State":
        """The same log, continued from an earlier record."""
        forked = State.of(path_to(entries, end))
        forked._number_like(self)
        return forked

    def _number_like(self, whole: "State") -> None:
        """Numbers are given out once, and a message on another path can still be gone on from."""
        self.last_seq = whole.last_seq
        self.last_at = whole.last_at
        self.last_session = whole.last_session
        self.untold = dict(whole.untold)
        self.sessions = dict(whole.sessions)  # they are the conversation's, whatever path it follows
        self.ledger = whole.ledger
        self.submissions = whole.submissions
        self.message_ends = dict(whole.message_ends)
        self.turn_messages = dict(whole.turn_messages)
        self._messages_of_turn = list(whole._messages_of_turn)


def path_to(entries: Sequence[Entry], head: int | None = None) -> Sequence[Entry]:
    """The records from the first one to `head` (the newest when not given), along their parents."""
    if not entries:
        return entries
    head = entries[-1].seq if head is None else head
    if all(entry.parent == entry.seq - 1 for entry in entries):  # never forked: the log is the path
        return entries if head == entries[-1].seq else [entry for entry in entries if entry.seq <= head]
    by_seq = {entry.seq: entry for entry in entries}
    path: list[Entry] = []
    while head:
        entry = by_seq.get(head)
        if entry is None:
            raise StoreError(f"conversation store: record {head} is missing, though others follow it: the log is damaged")
        path.append(entry)
        head = entry.parent
    path.reverse()
    return path


def merge(before: Overrides, after: Overrides) -> Overrides:
    """Later choices over earlier ones; `config` keys one by one."""
    chosen: dict[str, Any] = {
        name: getattr(before, name) if getattr(after, name) is None else getattr(after, name)
        for name in Overrides.__struct_fields__
    }
    chosen["config"] = {**(before.config or {}), **(after.config or {})} or None
    return Overrides(**chosen)


def title_from(message: Message) -> str:
    text = next((part.text for part in message.content if isinstance(part, InputText) and part.text.strip()), "")
    line = " ".join(text.split())
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"
