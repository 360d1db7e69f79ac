"""What the log says happened, as viewers should have seen it, and the rules that every log keeps."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tests.support.answered import answered
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Send
from understudy.protocol.records import (
    CommandEnded,
    CommandStarted,
    Entry,
    Opened,
    RequestSent,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from understudy.servers.wire_events.seed_events import encode_user_message, project
from understudy.store.sqlite.event_log import SqliteLog

Seen = tuple[int, dict[str, Any]]  # a sequence number and an event


class Truth:
    """Reads the store of a home as it lies on the disk. Opening it is a part of the test."""

    def __init__(self, home: Path) -> None:
        self.log = SqliteLog(home / "understudy")

    def close(self) -> None:
        self.log.close()

    def conversations(self) -> list[ConversationId]:
        connection = sqlite3.connect(self.log.path)
        try:
            return [ConversationId(row[0]) for row in connection.execute("SELECT id FROM conversations")]
        finally:
            connection.close()

    def events(self, conversation: str, *, marked: bool) -> list[Seen]:
        return [seen for entry in answered(self.log.read(ConversationId(conversation))) for seen in events_of(entry, marked=marked)]

    def messages(self, conversation: str) -> list[str]:
        """Ids of messages in the log and of those that lie in the box for it."""
        name = ConversationId(conversation)
        recorded = [entry.record.message_id for entry in answered(self.log.read(name)) if isinstance(entry.record, UserMessage)]
        waiting = [letter.op.message.message_id for letter in answered(self.log.letters(name)) if isinstance(letter.op, Send)]
        return recorded + waiting


def events_of(entry: Entry, *, marked: bool) -> list[Seen]:
    record = entry.record
    if isinstance(record, UserMessage):
        return [(entry.seq, msgspec.json.decode(encode_user_message(record).msg))] if marked else []
    if isinstance(record, Opened) and not marked:
        return []
    return [(entry.seq, msgspec.json.decode(msgspec.json.encode(event))) for event in project(record)]


def check_log(entries: Sequence[Entry]) -> None:
    """Numbers without a gap; turns one after the other, each ended at most once; everything begun has one outcome."""
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    assert all(entry.parent < entry.seq for entry in entries)
    open_turn: str | None = None
    begun: dict[str, int] = {}
    turns: list[str] = []
    for entry in entries:
        match entry.record:
            case TurnStarted(turn_id=turn):
                assert open_turn is None, f"turn {turn} began while {open_turn} was open"
                open_turn = turn
                turns.append(turn)
            case TurnEnded():
                assert open_turn == entry.turn, f"turn {entry.turn} ended while {open_turn} was open"
                assert not begun, f"turn {entry.turn} ended with commands under way: {begun}"
                open_turn = None
            case CommandStarted(call_id=call_id, session=None):  # others outlive their turns
                assert call_id not in begun, f"{call_id} was begun twice at once"
                begun[call_id] = entry.seq
            case CommandEnded(call_id=call_id, started=None):
                assert begun.pop(call_id, None) is not None, f"{call_id} ended without having begun"
            case _:
                pass
    assert len(set(turns)) == len(turns), "a turn's number is given once"
    consumed = [name for entry in entries if isinstance(entry.record, RequestSent) for name in entry.record.consumed]
    accepted = [entry.record.message_id for entry in entries if isinstance(entry.record, UserMessage)]
    assert len(set(accepted)) == len(accepted), "a message is recorded once"
    assert set(consumed) <= set(accepted)
    if all(entry.parent == entry.seq - 1 for entry in entries):
        assert len(set(consumed)) == len(consumed), "a message is read once"
        assert consumed == accepted[: len(consumed)], "and in order"


def check_commands(entries: Sequence[Entry], printed: Sequence[str]) -> set[str]:
    """Each command that left a trace was recorded before it ran, and ran once. The words that are accounted for."""
    words = [
        entry.record.command[2].split()[1] for entry in entries if isinstance(entry.record, CommandStarted) and entry.record.command
    ]
    assert len(set(words)) == len(words), "no command is begun twice"
    return set(words) & set(printed)
