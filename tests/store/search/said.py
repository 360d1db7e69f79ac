"""Short ways to conversations in which something was said, and to what a search finds of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.store.records import SUMMARY, append, new_id
from understudy.protocol.callers import LOCAL_NAME
from understudy.protocol.ids import ConversationId
from understudy.protocol.items import InputText, Message, OutputText
from understudy.protocol.records import CommandEnded, Entry, ItemReceived, Opened, Overrides, Record, UserMessage
from understudy.store.log import Batch, EventLog, Store
from understudy.store.search.asked import Found, Wanted

DAY = 86_400.0


def user(text: str) -> UserMessage:
    return UserMessage("m", Message("user", (InputText(text),)))


def agent(text: str) -> ItemReceived:
    return ItemReceived(Message("assistant", (OutputText(text),)))


def printed(text: str) -> CommandEnded:
    return CommandEnded("c", text, "", 0, 0.1)


async def say(
    log: EventLog, records: Sequence[Record], *, owner: str = LOCAL_NAME, folder: str = "/w", at: float = DAY
) -> ConversationId:
    """A conversation of which each record is a second after the one before it."""
    conversation_id = new_id()
    opened = Opened(conversation_id, "m", Overrides(cwd=folder), owner=owner)
    entries = tuple(Entry(seq, seq - 1, "1", at + seq, record) for seq, record in enumerate((opened, *records), start=1))
    await append(log, Batch(conversation_id, 1, 0, entries, SUMMARY, creates=True))
    return conversation_id


async def say_more(log: EventLog, conversation_id: ConversationId, before: int, record: Record, *, at: float = 2 * DAY) -> None:
    await append(log, Batch(conversation_id, 1, before, (Entry(before + 1, before, "1", at, record),), SUMMARY))


async def search(log: Store, words: str, **more: Any) -> Found:
    return await log.search.find(Wanted(words=words, **more), lambda text: text)


async def found(log: Store, words: str, **more: Any) -> list[str]:
    return [hit.snippet for hit in (await search(log, words, **more)).hits]
