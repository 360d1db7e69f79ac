"""Decodes rows of the store, and reports damaged ones. Large pieces of JSON are compressed (`packed`, in `writing`).

The decoders are made at the first read: that takes a millisecond, and a new conversation reads nothing.
"""

import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import msgspec

from understudy.errors import Damaged
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Op
from understudy.protocol.records import Entry, Record
from understudy.store.log import LATEST, Letter, Listed, SavedText, Summary

logger = logging.getLogger(__name__)

# Columns that the functions below expect, in this order.
ENTRY = "seq, parent, turn, at, data"
LISTED = "id, created_at, updated_at, summary, archived, owner, digest, last_seq"

Data = bytes | str

_UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, RecursionError)  # raised for damaged rows; bad UTF-8 is a `ValueError`
_DAMAGED = Summary("(damaged)", "idle", 0, "", "")


def entries_of(rows: Iterable[tuple[Any, ...]], conversation_id: ConversationId) -> Sequence[Entry]:
    """The entries of these rows. Raises `Damaged` at a damaged record, because later ones mean nothing without it."""
    return sized_entries_of(rows, conversation_id, sys.maxsize)[0]


def sized_entries_of(rows: Iterable[tuple[Any, ...]], conversation_id: ConversationId, most: int) -> tuple[list[Entry], int]:
    """The entries until their records have this many bytes, and how many bytes that is. Raises `Damaged` like `entries_of`."""
    read: int | None = None
    seq = size = 0
    entries: list[Entry] = []
    decode = record_decoder()
    try:
        for seq, parent, turn, at, data in rows:
            read = seq - 1 if read is None else read
            whole = unpacked(data) if data[:1] == b"x" else data
            entries.append(Entry(seq, parent, turn, at, decode(whole)))
            read = seq
            size += len(whole)
            if size >= most:
                break
    except _UNREADABLE as error:
        newer = ", or a newer understudy wrote it," if isinstance(error, msgspec.ValidationError) else ""  # the JSON is valid
        reason = f"record {seq} of conversation {conversation_id} is damaged{newer} and cannot be read ({error})"
        raise Damaged(f"conversation store: {reason}; the {read or 0} before it are whole") from error
    return entries, size


def saved_text_of(rows: Sequence[tuple[Any, ...]], conversation_id: ConversationId) -> SavedText | None:
    try:
        return SavedText.of([saved_text_decoder()(unpacked(row[0])) for row in rows]) if rows else None
    except _UNREADABLE as error:  # skip damaged text: the finished item is in the log, or will never be
        logger.error("the unfinished text of %s cannot be read: %s", conversation_id, error)
        return None


def letters_of(rows: Iterable[tuple[Any, ...]], conversation_id: ConversationId) -> Sequence[Letter]:
    letters: list[Letter] = []
    for number, op in rows:
        try:
            letters.append(Letter(number, op_decoder()(op)))
        except _UNREADABLE as error:
            logger.error("letter %d to %s cannot be read: %s", number, conversation_id, error)
    return letters


def listed_of(
    conversation_id: str,
    created_at: Any,
    updated_at: Any,
    summary: bytes,
    archived: int,
    owner: Any,
    digest: Any,
    last_seq: Any,
) -> Listed:
    try:
        decoded = summary_decoder()(summary)
    except _UNREADABLE as error:  # a damaged row must not hide the others
        logger.error("the summary of %s cannot be read: %s", conversation_id, error)
        decoded = _DAMAGED
    times = _time(created_at), _time(updated_at)
    last_seq = last_seq if isinstance(last_seq, int) else 0
    return Listed(ConversationId(conversation_id), *times, decoded, bool(archived), owner, digest, last_seq)


def _time(stored: Any) -> float:
    """The time, or one that can be shown if a wrong clock or damage left nonsense."""
    return min(max(stored, 0.0), LATEST) if isinstance(stored, int | float) else 0.0


@cache
def record_decoder() -> Callable[[Data], Record]:
    return msgspec.json.Decoder(Record).decode


@cache
def summary_decoder() -> Callable[[Data], Summary]:
    return msgspec.json.Decoder(Summary).decode


@cache
def saved_text_decoder() -> Callable[[Data], SavedText]:
    return msgspec.json.Decoder(SavedText).decode


@cache
def op_decoder() -> Callable[[Data], Op]:
    return msgspec.json.Decoder(Op).decode


def unpacked(data: bytes) -> bytes:
    """Decompress if needed. JSON of a record begins with a brace, compressed data with an `x`. Raises ValueError."""
    if data[:1] != b"x":
        return data
    import zlib

    try:
        return zlib.decompress(data)
    except zlib.error as error:
        raise ValueError(f"compressed data is damaged: {error}") from None
