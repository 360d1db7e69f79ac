"""Search in a database: the words of each text are a row of their own, added by the process that searches, just before it does.

So appending costs nothing extra. A search finds all that was committed before it began. Deleting a conversation deletes its words.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.types.numeric import Int4, Int8

from understudy.errors import StoreError
from understudy.protocol.encodable import is_unicode
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Record
from understudy.store.decoding import record_decoder, unpacked
from understudy.store.log import LATEST
from understudy.store.search.asked import PATIENCE_SECONDS, Found, Hit, Mask, Wanted, read_cursor, write_cursor
from understudy.store.search.snippets import snippet_of, surroundings_of
from understudy.store.search.texts import folder_of, shortened, text_of
from understudy.store.search.words import Question, Term, read_question, words_of

STEP_CONVERSATIONS = 16
STEP_RECORDS = 256  # of one conversation, per step
MOST_POSITIONS = 16_383  # PostgreSQL's highest position of a word
IN_ONE_MICROSECOND = 1024  # places in the order of texts, per microsecond
_UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, RecursionError)

_BEHIND = """
    SELECT c.number, c.last_seq, coalesce(i.upto, 0), coalesce(i.folder, '') FROM conversations c
    LEFT JOIN indexed i ON i.conversation = c.number WHERE c.last_seq > coalesce(i.upto, 0) ORDER BY c.number LIMIT %s
    FOR KEY SHARE OF c
"""
_RECORDS = "SELECT seq, at, data FROM records WHERE conversation = %s AND seq > %s ORDER BY seq LIMIT %s"
_NOTE = """
    INSERT INTO indexed VALUES (%s, %s, %s) ON CONFLICT (conversation) DO UPDATE SET upto = excluded.upto, folder = excluded.folder
"""
_FOUND = """
    SELECT t.place, c.id, t.seq, t.at, r.data, c.owner FROM texts t JOIN conversations c ON c.number = t.conversation
    JOIN records r ON r.conversation = t.conversation AND r.seq = t.seq
    WHERE t.words @@ %s::tsquery AND t.place < %s AND t.at >= %s AND (%s::text IS NULL OR t.role = %s)
    AND (%s::text IS NULL OR c.owner = %s) AND (%s::text IS NULL OR t.folder = %s OR starts_with(t.folder, %s))
    ORDER BY t.place DESC LIMIT %s
"""


class DatabaseSearch:
    """`connected` opens a connection for one task, and explains its failures."""

    def __init__(self, connected: Callable[[], AbstractContextManager[Connection[Any]]]) -> None:
        self._connected = connected

    async def find(self, wanted: Wanted, mask: Mask, patience: float = PATIENCE_SECONDS) -> Found:
        question = read_question(wanted.words)  # a bad question fails before any work is done
        if not all(_can_be_kept(text) for text in (wanted.owner, wanted.folder)):
            return Found((), None)
        before = (1 << 63) - 1 if wanted.cursor is None else read_cursor(wanted.cursor)
        return await asyncio.to_thread(self._find, wanted, question, before, mask, time.monotonic() + patience)

    def _find(self, wanted: Wanted, question: Question, before: int, mask: Mask, give_up: float) -> Found:
        with self._connected() as connection:
            while _catch_up(connection):
                if time.monotonic() > give_up:
                    raise StoreError("conversation store: words are being made ready to be searched; search again in a while")
            folder = None if wanted.folder is None else wanted.folder.rstrip("/")
            below = None if folder is None else f"{folder}/"
            since = min(max(wanted.since or 0.0, 0.0), LATEST)
            some = wanted.role, wanted.role, wanted.owner, wanted.owner, folder, folder or "/", below, Int8(wanted.limit + 1)
            rows = connection.execute(_FOUND, (as_query(question), Int8(before), since, *some), binary=True).fetchall()
        hits = [hit for row in rows[: wanted.limit] if (hit := _hit(row, question, mask)) is not None]
        return Found(tuple(hits), write_cursor(rows[wanted.limit - 1][0]) if len(rows) > wanted.limit else None)


def _can_be_kept(text: str | None) -> bool:
    """A text that is not valid UTF-8 cannot be in a database."""
    return text is None or ("\0" not in text and is_unicode(text))


def _hit(row: Sequence[Any], question: Question, mask: Mask) -> Hit | None:
    _, name, seq, at, data, owner = row
    found = _text(data)
    if found is None:
        return None
    role, text = found[0], shortened(found[1])
    snippet = snippet_of(mask(surroundings_of(text, question)), question)
    return Hit(ConversationId(name), seq, at, role, snippet, owner)


def _text(data: bytes) -> Any:
    record = _record(data)
    return None if record is None else text_of(record)


def _record(data: bytes) -> Record | None:
    try:
        return record_decoder()(unpacked(data))
    except _UNREADABLE:  # damage is reported to whoever reads the conversation
        return None


def _catch_up(connection: Connection[Any]) -> bool:
    """Index one step, one process at a time. False if nothing was left to do."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(7266, 'about'::regclass::oid::int)")
        behind = connection.execute(_BEHIND, (STEP_CONVERSATIONS,), binary=True).fetchall()
        for number, last, upto, folder in behind:
            records = connection.execute(_RECORDS, (number, upto, STEP_RECORDS), binary=True).fetchall()
            rows = list(_texts(number, records, folder))
            with connection.cursor() as cursor:
                cursor.executemany("INSERT INTO texts VALUES (%s, %s, %s, %s, %s, %s, %s::tsvector)", rows)
            folder = next((found for _, _, found in reversed(list(_worked(records, folder)))), folder)
            connection.execute(_NOTE, (Int8(number), Int4(records[-1][0] if records else last), folder))
    return bool(behind)


def _worked(records: Sequence[Sequence[Any]], folder: str) -> Iterator[tuple[Sequence[Any], Record | None, str]]:
    """Each record with the folder in which the conversation works from it on."""
    for row in records:
        record = _record(row[2])
        if record is not None:
            folder = folder_of(record) or folder
        yield row, record, folder


def _texts(number: int, records: Sequence[Sequence[Any]], folder: str) -> Iterator[tuple[Any, ...]]:
    for (seq, at, _), record, where in _worked(records, folder):
        found = None if record is None else text_of(record)
        if found is not None:
            role, text = found
            place = int(min(max(at, 0.0), LATEST) * 1e6) * IN_ONE_MICROSECOND + (number + seq) % IN_ONE_MICROSECOND
            words = as_vector(words_of(shortened(text)))
            yield Int8(place), Int8(number), Int4(seq), float(at), role, where.replace("\0", ""), words


def as_vector(words: Sequence[str]) -> str:
    """In PostgreSQL's syntax. Words contain only letters and digits."""
    places: dict[str, list[str]] = {}
    for place, word in enumerate(words, start=1):
        places.setdefault(word, []).append(str(min(place, MOST_POSITIONS)))
    return " ".join(f"'{word}':{','.join(at)}" for word, at in places.items())


def as_query(question: Question) -> str:
    groups = [f"({' | '.join(_phrase(term) for term in group)})" for group in question.groups]
    return " & ".join([*groups, *(f"!({_phrase(term)})" for term in question.without)])


def _phrase(term: Term) -> str:
    words = [f"'{word}'" for word in term.words]
    if term.begins:
        words[-1] += ":*"
    return f"({' <-> '.join(words)})"
