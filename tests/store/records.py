"""Short ways to a store and to batches for it."""

import asyncio
import uuid
from pathlib import Path

from tests.support.answered import answered
from understudy.protocol.ids import ConversationId
from understudy.protocol.items import InputText, Message
from understudy.protocol.records import Entry, Noticed, Opened, Overrides, Record, UserMessage
from understudy.store.log import Batch, Claim, EventLog, Holder, Position, Summary
from understudy.store.sqlite.event_log import SqliteLog
from understudy.testing.waiting import WAIT_SECONDS

SUMMARY = Summary("a title", "idle", 0, "/w", "m")


def new_id() -> ConversationId:
    return ConversationId(str(uuid.uuid4()))


def open_log(folder: Path) -> SqliteLog:
    return SqliteLog(folder, asyncio.get_running_loop())


def opened(conversation_id: ConversationId, at: float = 1.0) -> Batch:
    entry = Entry(1, 0, "0", at, Opened(conversation_id, "m", Overrides()))
    return Batch(conversation_id, 1, 0, (entry,), SUMMARY, creates=True)


def noticed(
    conversation_id: ConversationId, epoch: int, seq: int, *, at: float = 2.0, count: int = 1, claims: bool = False, taken: int = 0
) -> Batch:
    entries = tuple(Entry(seq + n, seq + n - 1, "1", at, Noticed(f"note {seq + n}")) for n in range(count))
    return Batch(conversation_id, epoch, seq - 1, entries, SUMMARY, claims=claims, takes_letters=taken)


def user_message(text: str) -> UserMessage:
    return UserMessage(str(uuid.uuid4()), Message("user", (InputText(text),)))


async def append(log: EventLog, batch: Batch) -> None:
    """Wait for the disk; raises what kept it from getting there."""
    done = asyncio.get_running_loop().create_future()
    log.append(batch, lambda error: done.set_result(None) if error is None else done.set_exception(error))
    async with asyncio.timeout(WAIT_SECONDS):
        await done


def records_of(log: EventLog, conversation_id: ConversationId) -> list[Record]:
    return [entry.record for entry in answered(log.read(conversation_id))]


def position_of(log: EventLog, conversation_id: ConversationId) -> Position | None:
    """Without the log's own mark."""
    position = answered(log.positions([conversation_id])).get(conversation_id)
    return None if position is None else Position(position.epoch, position.last_seq, position.letters)


def claimed(log: EventLog, conversation_id: ConversationId) -> Claim:
    """The claim, which nobody else has."""
    claim = answered(log.claim(conversation_id))
    assert not isinstance(claim, Holder)
    return claim


def is_free(log: EventLog, conversation_id: ConversationId) -> bool:
    """Of the claims of others."""
    return answered(log.holder(conversation_id)) is None
