"""What a conversation is, computed from its log: history, open turn, questions, input not yet read.

A fold over one path of entries and nothing else: no I/O, no clock. Appending live and reading back after a crash
go through the same `apply`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from understudy.protocol.items import FunctionCall, InputText, Item, Message, OutputText, Usage
from understudy.protocol.records import (
    ApprovalDecided,
    CommandApprovalAsked,
    CommandEnded,
    CommandStarted,
    DiffChanged,
    Entry,
    ItemReceived,
    Noticed,
    Opened,
    Overrides,
    PatchApprovalAsked,
    PatchEnded,
    PatchStarted,
    PlanUpdated,
    RequestSent,
    TokensCounted,
    ToolAnswered,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from understudy.store.log import Status, Summary

TITLE_LENGTH = 80
NO_TITLE = "New conversation"

Question = CommandApprovalAsked | PatchApprovalAsked


class State:
    """The present of a conversation. `apply` is the only thing that changes it."""

    def __init__(self) -> None:
        self.last_seq = 0  # of the whole log
        self.head = 0  # the last record of the path that this state follows
        self.overrides = Overrides()
        self.model = ""
        self.items: list[Item] = []
        self.waiting: dict[str, UserMessage] = {}  # accepted, not yet read by the model
        self.turn: str | None = None
        self.usage: Usage | None = None  # of the whole conversation
        self.requests = 0  # model requests so far
        self.submissions = 0  # numbers given out so far; "0" was the configuration
        self.calls: dict[str, FunctionCall] = {}  # not answered yet, in the model's order
        self.running: dict[str, CommandStarted | PatchStarted] = {}  # begun, no outcome yet
        self.outcomes: dict[str, CommandEnded | PatchEnded] = {}  # of what has run, until the model is told
        self.questions: dict[str, Question] = {}
        self.approved: set[str] = set()  # keys approved for the session
        self.answer: str | None = None  # the last thing the model said in this turn
        self.title = ""
        self.message_count = 0
        # of the whole log, whatever path is followed:
        self.message_ends: dict[str, int] = {}  # the record after which a message's turn was over: where a fork begins
        self.turn_messages: dict[str, str] = {}  # the message that began each turn
        self._messages_of_turn: list[str] = []  # accepted in it, or read

    def apply(self, entry: Entry) -> None:
        self.last_seq = max(self.last_seq, entry.seq)
        self.head = entry.seq
        match entry.record:
            case ItemReceived(item=item):
                self.items.append(item)
                if isinstance(item, FunctionCall):
                    self.calls[item.call_id] = item
                elif isinstance(item, Message):
                    self.answer = item.text() or self.answer
                    self.message_count += 1
            case ToolAnswered(output=output):
                self.items.append(output)
                self.calls.pop(output.call_id, None)
                self.running.pop(output.call_id, None)
                self.outcomes.pop(output.call_id, None)
                self.questions.pop(output.call_id, None)
            case RequestSent(consumed=consumed):
                self.answer = None
                self.requests += 1
                for message_id in consumed:
                    self._messages_of_turn.append(message_id)
                    message = self.waiting.pop(message_id, None)
                    if message is not None:
                        self.items.append(message.message)
            case UserMessage() as message:
                self.waiting[message.message_id] = message
                self.submissions += 1
                self.message_count += 1
                self.message_ends[message.message_id] = entry.seq
                self._messages_of_turn.append(message.message_id)
                self.turn_messages.setdefault(entry.turn, message.message_id)
                self.title = self.title or title_from(message.message)
                if message.overrides is not None:
                    self.overrides = merge(self.overrides, message.overrides)
            case TurnStarted(turn_id=turn_id):
                self.turn = turn_id
                self.answer = None
            case TurnEnded() as ended:
                self._end_turn(entry.seq, ended)
            case CommandStarted(call_id=call_id) | PatchStarted(call_id=call_id):
                self.running[call_id] = entry.record
            case CommandEnded(call_id=call_id) | PatchEnded(call_id=call_id):
                self.running.pop(call_id, None)
                self.outcomes[call_id] = entry.record
            case CommandApprovalAsked(call_id=call_id) | PatchApprovalAsked(call_id=call_id):
                self.questions[call_id] = entry.record
            case ApprovalDecided() as decided:
                if decided.effective:
                    self.submissions += 1
                    self.questions.pop(decided.call_id, None)
                    if decided.decision == "approved_for_session" and decided.key is not None:
                        self.approved.add(decided.key)
            case Opened() as opened:
                self.overrides = opened.overrides
                self.model = opened.model
            case TokensCounted() as counted:
                self.usage = counted.total or counted.usage
            case PlanUpdated() | DiffChanged() | Noticed():
                pass

    def _end_turn(self, seq: int, ended: TurnEnded) -> None:
        self.turn = None
        self.submissions += int(ended.asked_for)
        if ended.unfinished:
            self.items.append(Message("assistant", (OutputText(ended.unfinished),)))
        for message_id in self._messages_of_turn:
            self.message_ends[message_id] = seq
        self._messages_of_turn = []
        self.calls.clear()
        self.running.clear()
        self.outcomes.clear()
        self.questions.clear()

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
        return Summary(
            self.title or NO_TITLE,
            self.status,
            self.message_count,
            self.overrides.cwd or "",
            self.overrides.model or self.model,
            tuple(self.questions),
        )

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
        """The same log, gone on with from an earlier record."""
        forked = State.of(path_to(entries, end))
        forked._number_like(self)
        return forked

    def _number_like(self, whole: "State") -> None:
        """Numbers are given out once, and a message on another path can still be gone on from."""
        self.last_seq = whole.last_seq
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
        entry = by_seq[head]
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
