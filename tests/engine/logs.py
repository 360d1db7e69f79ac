"""Random conversations: records in an order that can happen, with turns, steering, questions, interrupts and forks."""

from __future__ import annotations

import random
from typing import Literal

from understudy.engine.log.fold import State
from understudy.protocol.choices import Decision
from understudy.protocol.items import FunctionCall, FunctionCallOutput, InputText, Message, OutputText
from understudy.protocol.records import (
    ApprovalDecided,
    CommandApprovalAsked,
    CommandEnded,
    CommandStarted,
    Compacted,
    CompactionStarted,
    Entry,
    ItemReceived,
    Noticed,
    Opened,
    Overrides,
    Record,
    RequestSent,
    Shortened,
    ToolAnswered,
    TurnEnded,
    TurnStarted,
    UserMessage,
)

Reason = Literal["completed", "failed", "interrupted"]
REASONS: tuple[Reason, ...] = ("completed", "failed", "interrupted")
DECISIONS: tuple[Decision, ...] = ("approved", "approved_for_session", "denied")


class Story:
    """Appends as a conversation does, to a state and to a log."""

    def __init__(self, seed: int, *, chances: bool = True, killed: bool = True) -> None:
        """Without `chances` nothing goes wrong and nobody forks; without `killed` every turn is ended."""
        self._killed = killed
        self.random = random.Random(seed)
        self._chances = chances
        self.state = State()
        self.entries: list[Entry] = []
        self.messages: list[str] = []
        self._add(Opened("c", "m", Overrides(model="m")), "0")

    def _chance(self) -> float:
        return self.random.random() if self._chances else 1.0

    def _add(self, record: Record, turn: str) -> None:
        entry = Entry(self.state.last_seq + 1, self.state.head, turn, float(len(self.entries)), record)
        self.state.apply(entry)
        self.entries.append(entry)

    def _message(self, turn: str) -> None:
        name = f"m{len(self.messages)}"
        overrides = Overrides(model=f"model {name}") if self._chance() < 0.2 else None
        self.messages.append(name)
        self._add(UserMessage(name, Message("user", (InputText(f"text of {name}"),)), overrides), turn)

    def turn(self) -> None:
        if self.messages and self._chance() < 0.3:
            self.state = self.state.fork(self.entries, self.state.message_ends[self.random.choice(self.messages)])
        turn = str(self.state.submissions + 1)
        self._message(turn)
        self._add(TurnStarted(turn), turn)
        for _ in range(self.random.randint(1, 3)):
            if self._chance() < 0.15:
                self._compact(turn)
            context = (Message("user", (InputText(f"place {self.random.randint(1, 3)}"),)),) if self._chance() < 0.3 else ()
            self._add(RequestSent(tuple(self.state.waiting), context), turn)
            self._step(turn)
            if self._chance() < 0.2:
                self._message(turn)
            if self._killed and self._chance() < 0.15:
                return  # the process was killed here
        for call_id in tuple(self.state.calls):
            self._add(ToolAnswered(FunctionCallOutput(call_id, "aborted"), success=False), turn)
        reason: Reason = self.random.choice(REASONS)
        cut = "half an ans" if reason == "interrupted" and self._chance() < 0.5 else None
        self._add(TurnEnded(reason, self.state.answer, cut, asked_for=reason == "interrupted"), turn)

    def _compact(self, turn: str) -> None:
        self._add(CompactionStarted("limit", 100), turn)
        sources = self.state.history.sources
        if self._chance() < 0.3 or not sources:
            return
        kept = tuple(seq for seq in dict.fromkeys(sources) if self.random.random() < 0.5)
        shortened = tuple(Shortened(seq, self.random.randint(0, 4)) for seq in kept if self.random.random() < 0.3)
        if self._chance() < 0.3:
            self._add(Compacted("trimmed", 100, 50, shortened=shortened), turn)
        else:
            self._add(Compacted("summary", 100, 50, "sum", "note", kept, kept[-1] if kept else 0, shortened), turn)

    def _step(self, turn: str) -> None:
        kind = self.random.choice(["text", "call", "asked", "notice"])
        call_id = f"call{self.random.randint(1, 3)}"
        if kind == "text":
            self._add(ItemReceived(Message("assistant", (OutputText("hello"),))), turn)
            return
        if kind == "notice":
            self._add(Noticed("a word"), turn)
            return
        self._add(ItemReceived(FunctionCall("shell", "{}", call_id)), turn)
        if kind == "asked":
            self._add(CommandApprovalAsked(call_id, ("ls",), "/w", key=f"key {call_id}"), turn)
            if self._chance() < 0.3:
                return
            decision: Decision = self.random.choice(DECISIONS)
            self._add(ApprovalDecided(call_id, decision, "client", key=f"key {call_id}"), turn)
            if self._chance() < 0.2:
                self._add(ApprovalDecided(call_id, "denied", "client", effective=False), turn)
        self._add(CommandStarted(call_id, ("ls",), "/w", contained=True), turn)
        if self._chance() < 0.2:
            return
        self._add(CommandEnded(call_id, "", "", 0, 0.0), turn)
        self._add(ToolAnswered(FunctionCallOutput(call_id, "fine")), turn)
