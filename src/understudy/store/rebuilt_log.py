"""A history that another program kept, rebuilt as the log that we would have kept of it."""

import time
import uuid

from understudy.protocol.ids import ConversationId
from understudy.protocol.items import FunctionCall, FunctionCallOutput, Message, Reasoning
from understudy.protocol.records import (
    Entry,
    ItemReceived,
    Opened,
    Overrides,
    Record,
    RequestSent,
    ToolAnswered,
    TurnEnded,
    TurnStarted,
    UserMessage,
)

UNANSWERED = "aborted"
_OPENED = 1  # the first record's number: what every path begins with


class RebuiltLog:
    """Every message of the user begins a turn. Going back and summing up lead to another path, as they do here."""

    def __init__(self, began_at: float | None) -> None:
        self._at = time.time() if began_at is None else began_at
        self._began_at = self._at
        self._entries: list[Entry] = []
        self._seq = self._head = _OPENED
        self._turns = 0
        self._turn: str | None = None
        self._calls: dict[str, None] = {}  # not answered yet, in order
        self._answer: str | None = None
        self._request_due = False
        self._messages: list[tuple[int, Message]] = []  # of the present path, each with the record that it follows

    def tick(self, at: float | None) -> None:
        """The time of what comes next. It never goes backwards."""
        if at is not None:
            self._at = max(at, self._at)

    def user(self, message: Message) -> None:
        if not message.content:
            return
        self._end_turn("completed" if self._answer is not None else "interrupted")
        self._messages.append((self._head, message))
        self._turns += 1
        turn, message_id = str(self._turns), str(uuid.uuid4())
        self._turn = turn
        self._append(UserMessage(message_id, message), TurnStarted(turn), RequestSent((message_id,)))

    def model(self, item: Message | Reasoning | FunctionCall) -> None:
        if self._turn is None:
            self._turns += 1
            self._turn = str(self._turns)
            self._append(TurnStarted(self._turn), RequestSent())
        elif self._request_due:
            self._append(RequestSent())
        self._request_due = False
        if isinstance(item, Message):
            self._answer = item.text() or self._answer
        self._append(ItemReceived(item))

    def call(self, call: FunctionCall) -> None:
        self.model(call)
        self._calls[call.call_id] = None

    def output(self, output: FunctionCallOutput) -> None:
        """An output without its call is left out: no provider takes one."""
        if output.call_id in self._calls:
            del self._calls[output.call_id]
            self._append(ToolAnswered(output))
            self._request_due = True

    def interrupt(self) -> None:
        self._end_turn("interrupted")

    def roll_back(self, turns: int) -> None:
        """Go on from before the last so many messages of the user."""
        self._end_turn("completed")
        if 0 < turns <= len(self._messages):
            self._head = self._messages[-turns][0]
            del self._messages[-turns:]

    def begin_anew(self, keep: int) -> list[Message]:
        """What comes next stands for all that was. The user's last messages, up to so many characters, are returned."""
        self._end_turn("completed")
        kept: list[Message] = []
        for _, message in reversed(self._messages):
            keep -= len(message.text())
            if keep < 0:
                break
            kept.append(message)
        self._head = _OPENED
        self._messages = []
        return kept[::-1]

    def finish(self, conversation_id: ConversationId, model: str, cwd: str | None) -> tuple[Entry, ...]:
        """The whole log. What the other program was allowed to do is not carried over: that is for the user to say here."""
        self._end_turn("completed" if self._answer is not None else "interrupted")
        opened = Entry(_OPENED, 0, "0", self._began_at, Opened(conversation_id, model, Overrides(cwd=cwd)))
        return (opened, *self._entries)

    def _end_turn(self, reason: str) -> None:
        if self._turn is None:
            return
        for call_id in self._calls:
            self._append(ToolAnswered(FunctionCallOutput(call_id, UNANSWERED), success=False))
        if reason == "completed":
            self._append(TurnEnded("completed", self._answer))
        else:
            self._append(TurnEnded("interrupted", "Turn interrupted"))
        self._calls.clear()
        self._turn = self._answer = None
        self._request_due = False

    def _append(self, *records: Record) -> None:
        for record in records:
            self._seq += 1
            self._entries.append(Entry(self._seq, self._head, self._turn or "0", self._at, record))
            self._head = self._seq
