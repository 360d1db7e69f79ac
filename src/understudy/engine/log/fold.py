"""The state of a conversation, computed from its log: history, open turn, questions, unread input.

A pure fold over one path of entries: no I/O, no clock. Live appends and reading back after a crash use the same `apply`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import msgspec

from understudy.engine.log.facts import NO_TITLE, SessionFacts, UndoFacts, merge, path_to, title_from
from understudy.engine.log.history import History
from understudy.engine.log.ledger import Ledger
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
    HookApprovalAsked,
    HookRan,
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
    PromptBlocked,
    Question,
    Record,
    Renamed,
    RequestSent,
    RetryScheduled,
    ServersChecked,
    TokensCounted,
    ToolAnswered,
    ToolApprovalAsked,
    ToolCallBegan,
    ToolCallEnded,
    TurnDropped,
    TurnEnded,
    TurnQueued,
    TurnStarted,
    UndoEnded,
    UndoStarted,
    UserInputAsked,
    UserMessage,
    WorkspaceMoved,
    WorkspaceSaved,
    WorkspaceSaveStarted,
)
from understudy.store.log import Status, Summary

MOST_FILES = 200  # changed files that are remembered, the newest ones

TRY_AGAIN = (
    "Your answer does not have the form that was asked for: {problem}\n"
    "Answer again with one JSON value that fits the schema, and nothing before or after it."
)


class State(msgspec.Struct, eq=False):
    """The present of a conversation. Only `apply` changes it.

    A struct, because Python keeps at most 29 attributes of a plain object inline; beyond that it looks all of them up in a dict.
    """

    last_seq: int = 0  # number of the last record in the whole log
    head: int = 0  # the last record of the path that this state follows
    overrides: Overrides = msgspec.field(default_factory=Overrides)
    pins: Pins | None = None  # the places it began with, or changed to since
    model: str = ""
    owner: str = LOCAL_NAME
    thread_source: str | None = None
    history: History = msgspec.field(default_factory=History)  # what the model is sent
    waiting: dict[str, UserMessage] = {}  # accepted, not yet read by the model
    queued: dict[str, UserMessage] = {}  # accepted for turns of their own that have not begun
    turn: str | None = None
    usage: Usage | None = None  # usage of the whole conversation
    context_tokens: int | None = None  # by the provider's last count; None: not counted since a compaction
    plan: PlanUpdated | None = None
    changed_files: dict[str, None] = {}  # by applied patches, the newest at the end
    submissions: int = 0  # numbers given out so far; "0" was the configuration
    calls: dict[str, FunctionCall] = {}  # not answered yet, in the model's order
    running: dict[str, CommandStarted | PatchStarted | ToolCallBegan] = {}  # begun, no outcome yet
    outcomes: dict[str, CommandEnded | PatchEnded | ToolCallEnded] = {}  # outcomes of calls that have run, until the model is told
    questions: dict[str, Question] = {}
    asked_at: dict[str, float] = {}  # when each question of the turn was asked
    sessions: SessionFacts = msgspec.field(default_factory=SessionFacts)  # commands that outlive their turns
    _news: list[str] = []  # for the model, with the next request
    _before: list[tuple[Message, int]] = []  # from hooks, for the model: before the messages of the next request
    _behind: list[tuple[Message, int]] = []  # from hooks, after those messages
    approved: set[str] = msgspec.field(default_factory=set[str])  # keys approved for the session
    answer: str | None = None  # the model's last message in this turn
    title: str = ""  # made from the first message
    message_count: int = 0
    # of the whole log, on any path:
    ledger: Ledger = msgspec.field(default_factory=Ledger)
    undo: UndoFacts = msgspec.field(default_factory=UndoFacts)
    name: str = ""  # the title that somebody gave it
    setup_due: bool = False  # its new workspace must be prepared before the model is asked
    saved: WorkspaceSaved | None = None  # the newest snapshot of its workspace
    moved: WorkspaceMoved | None = None  # the last time that the workspace was made again
    last_at: float = 0.0  # when its last record was appended
    message_ends: dict[str, int] = {}  # the record at which a message's turn was over: where a fork begins
    turn_messages: dict[str, str] = {}  # the message that began each turn
    _messages_of_turn: list[str] = []  # messages accepted or read in the turn
    _accepted_by: dict[str, int] = {}  # the record of each message that waits

    @property
    def items(self) -> list[Item]:
        return self.history.items

    @property
    def requests(self) -> int:
        """Requests to the model so far."""
        return self.history.requests

    def apply(self, entry: Entry) -> None:
        seq = self.head = entry.seq
        if seq > self.last_seq:
            self.last_seq = seq
        self.last_at = entry.at
        record = entry.record
        count, apply = _STEPS[type(record)]
        if count is not None:
            count(self.ledger, entry, record)
        apply(self, entry, record)

    def _item_received(self, entry: Entry, record: ItemReceived) -> None:
        item = record.item
        self.history.add(item, entry.seq)
        if isinstance(item, Message):
            self.answer = item.text() or self.answer
            self.message_count += 1
        elif isinstance(item, FunctionCall):
            self.calls[item.call_id] = item

    def _tool_answered(self, entry: Entry, record: ToolAnswered) -> None:
        output = record.output
        self.history.add(output, entry.seq)
        for known in (self.calls, self.running, self.outcomes, self.questions):
            known.pop(output.call_id, None)

    def _request_sent(self, entry: Entry, record: RequestSent) -> None:
        self.answer = None
        self.setup_due = False
        self.history.begin_request(record.context, entry.seq)
        if self._news:
            self.history.add(Message("user", (InputText("\n".join(self._news)),)), entry.seq)
            self._news = []
        if self._before:
            self._add_told(self._before)
        for message_id in record.consumed:
            self._messages_of_turn.append(message_id)
            message = self.waiting.pop(message_id, None)
            if message is not None:
                self.history.add_from_user(message.message, self._accepted_by.pop(message_id, entry.seq))
        if self._behind:
            self._add_told(self._behind)
        for given in record.given:
            self.history.add(given, entry.seq)

    def _add_told(self, told: list[tuple[Message, int]]) -> None:
        for message, seq in told:
            self.history.add(message, seq)
        told.clear()

    def _user_message(self, entry: Entry, record: UserMessage) -> None:
        self.waiting[record.message_id] = record
        if self.queued:
            self.queued.pop(record.message_id, None)
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

    def _turn_queued(self, entry: Entry, record: TurnQueued) -> None:
        self.queued[record.message.message_id] = record.message

    def _turn_dropped(self, entry: Entry, record: TurnDropped) -> None:
        self.queued.pop(record.message_id, None)

    def _begun(self, entry: Entry, record: CommandStarted | PatchStarted | ToolCallBegan) -> None:
        self.running[record.call_id] = record
        if isinstance(record, CommandStarted) and record.session is not None:
            self.sessions.begin(record.session, entry.turn, record)
        elif isinstance(record, PatchStarted):
            self.undo.patch_began(entry.turn, entry.seq)

    def _ended(self, entry: Entry, record: CommandEnded | PatchEnded | ToolCallEnded) -> None:
        begun = self.running.pop(record.call_id, None)
        if isinstance(record, CommandEnded) and record.started is not None:
            news = self.sessions.end(record, record.started)
            if news is not None:
                self._news.append(news)
            if record.call_id not in self.calls:
                return  # its call was answered long ago
        self.outcomes[record.call_id] = record
        if isinstance(record, PatchEnded):
            self.undo.patch_ended(entry.turn, entry.seq, record)
            if record.success and isinstance(begun, PatchStarted):
                self._note_changed(begun)

    def _note_changed(self, patch: PatchStarted) -> None:
        for path in patch.changes:
            self.changed_files.pop(path, None)
            self.changed_files[path] = None
        for path in list(self.changed_files)[:-MOST_FILES]:
            del self.changed_files[path]

    def _undo_started(self, entry: Entry, record: UndoStarted) -> None:
        self.submissions += 1
        self.undo.begin(entry.turn, record)

    def _undo_ended(self, entry: Entry, record: UndoEnded) -> None:
        for path in record.taken_back:
            self.changed_files.pop(path, None)
        news = self.undo.end(entry.turn, record)
        if news is not None:
            self._news.append(news)

    def _workspace_saved(self, entry: Entry, record: WorkspaceSaved) -> None:
        if record.ref:
            self.saved = record

    def _workspace_moved(self, entry: Entry, record: WorkspaceMoved) -> None:
        self.moved = record
        self.setup_due = self.overrides.workspace is not None and bool(self.overrides.workspace.setup)
        self.pins = record.pins or self.pins
        self._news.append(record.describe())

    def _renamed(self, entry: Entry, record: Renamed) -> None:
        self.name = record.title

    def _planned(self, entry: Entry, record: PlanUpdated) -> None:
        self.plan = record

    def _asked(self, entry: Entry, record: Question) -> None:
        self.questions[record.call_id] = record
        self.asked_at[record.call_id] = entry.at

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
        self.thread_source = record.thread_source
        self.setup_due = record.overrides.workspace is not None and bool(record.overrides.workspace.setup)

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
        for left in (self.calls, self.running, self.outcomes, self.questions, self.asked_at):
            if left:
                left.clear()

    def _answer_rejected(self, entry: Entry, record: AnswerRejected) -> None:
        self.history.add(Message("user", (InputText(TRY_AGAIN.format(problem=record.problem)),)), entry.seq)

    def _hook_ran(self, entry: Entry, record: HookRan) -> None:
        """The hook's context goes with the next request: after the message it belongs to, otherwise before all messages."""
        if not record.context:
            return
        if record.event == "Stop":
            self.history.add(Message("user", (InputText(record.context),)), entry.seq)
        else:
            told = Message("developer", (InputText(record.context),))
            (self._behind if record.event == "UserPromptSubmit" else self._before).append((told, entry.seq))

    def _prompt_blocked(self, entry: Entry, record: PromptBlocked) -> None:
        self.waiting.pop(record.message_id, None)
        self._accepted_by.pop(record.message_id, None)

    def _nothing(self, entry: Entry, record: Record) -> None:
        """The record is only for those who watch."""

    # a table, because this runs for every record
    APPLIED_BY: ClassVar[dict[type[Record], Callable[["State", Entry, Any], None]]] = {
        ItemReceived: _item_received,
        ToolAnswered: _tool_answered,
        RequestSent: _request_sent,
        UserMessage: _user_message,
        TurnStarted: _turn_started,
        TurnEnded: _turn_ended,
        TurnQueued: _turn_queued,
        TurnDropped: _turn_dropped,
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
        HookApprovalAsked: _asked,
        HookRan: _hook_ran,
        PromptBlocked: _prompt_blocked,
        UserInputAsked: _asked,
        ServersChecked: _nothing,
        ApprovalDecided: _decided,
        AnswerRejected: _answer_rejected,
        Opened: _opened,
        TokensCounted: _counted,
        PlanUpdated: _planned,
        CompactionStarted: _compaction_started,
        Compacted: _compacted,
        DiffChanged: _nothing,
        Renamed: _renamed,
        UndoStarted: _undo_started,
        UndoEnded: _undo_ended,
        WorkspaceSaveStarted: _nothing,
        WorkspaceSaved: _workspace_saved,
        WorkspaceMoved: _workspace_moved,
        Noticed: _nothing,
        RetryScheduled: _nothing,
    }

    def extend(self, entries: Sequence[Entry]) -> bool:
        """Apply entries appended elsewhere. If they are on another path, do nothing and return False."""
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
            self.name or self.title or NO_TITLE,
            self.status,
            self.message_count,
            self.overrides.cwd or "",
            self.overrides.model or self.model,
            tuple(self.questions),
            None if total.usage is None else total.usage.total_tokens,
            total.cost_usd,
            self.sessions.commands() if self.sessions.running else (),
            self.turn,
            self.thread_source,
        )

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> "State":
        state = cls()
        for entry in entries:
            state.apply(entry)
        return state

    @classmethod
    def read(cls, entries: Sequence[Entry]) -> "State":
        """The state of a log: of its newest path, with the numbers of all of it."""
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
        """Keep numbering; messages on other branches can still be continued."""
        self.last_seq = whole.last_seq
        self.last_at = whole.last_at
        self.sessions = whole.sessions.copy()  # they belong to the conversation, on any path
        self.ledger = whole.ledger
        self.undo = whole.undo
        self.name = whole.name
        self.saved, self.moved = whole.saved, whole.moved
        if whole.moved is not None:
            self.pins = whole.pins  # there is only one disk
        self.submissions = whole.submissions
        self.message_ends = dict(whole.message_ends)
        self.turn_messages = dict(whole.turn_messages)
        self._messages_of_turn = list(whole._messages_of_turn)


_STEPS = {kind: (Ledger.APPLIED_BY.get(kind), apply) for kind, apply in State.APPLIED_BY.items()}
