"""The event log on SQLite: one file, a write-ahead log, one writer thread, readers anywhere."""

import asyncio
import logging
import sqlite3
import sys
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Op
from understudy.protocol.records import Entry
from understudy.store.chain import LastDigests, Seals
from understudy.store.decoding import ENTRY, LISTED, entries_of, letters_of, listed_of, saved_text_of, sized_entries_of
from understudy.store.log import (
    NO_CONVERSATION,
    NOWHERE,
    Audited,
    Batch,
    Committed,
    Holder,
    Letter,
    Listed,
    Listener,
    Page,
    Position,
    SavedText,
    Spent,
    Verified,
)
from understudy.store.place import DATABASE, SEARCH_INDEX, prepare_folder, refuse_network_file_system
from understudy.store.record_clock import RecordClock
from understudy.store.sqlite import writing
from understudy.store.sqlite.claims import Claims, SqliteClaim
from understudy.store.sqlite.hints import Bell, FileAlarm, WriteHints
from understudy.store.sqlite.open_files import OpenFiles
from understudy.store.sqlite.queries import Queries
from understudy.store.sqlite.writer import Handover, Job, Writer, explain, explain_system
from understudy.store.sqlite.writing import Row

if TYPE_CHECKING:
    from understudy.store.search.searching import Searching

logger = logging.getLogger(__name__)

BUSY_SECONDS = 5.0
READ_AT_ONCE = 32  # rows at a time, if the bytes are limited

_encode = msgspec.json.Encoder().encode


Rows = list[Row]

_LETTERS = "EXISTS(SELECT 1 FROM inbox WHERE conversation = conversations.number)"
_POSITION = f"epoch, last_seq, {_LETTERS}, id, digest, seal FROM conversations"


@lru_cache(maxsize=4096)  # asked five times a turn
def number_of(conversation_id: str) -> int:
    """63 bits of the UUID: key of the rows, and number of the lock file's byte."""
    return int(conversation_id.replace("-", "")[:16], 16) >> 1


class SqliteLog:
    """Raises `StoreError` with a text for people if SQLite fails."""

    shared = True
    is_remote = False
    attendance = None

    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop | None = None) -> None:
        prepare_folder(folder)
        refuse_network_file_system(folder)
        self.path = folder / DATABASE
        self._loop = loop
        with self._explained(), ExitStack() as opened:
            self._seals = Seals(folder)
            self._files = files = OpenFiles(self.path, self._seals, BUSY_SECONDS)
            opened.callback(self._close_files)
            self._bell = opened.enter_context(closing(Bell(folder / "bell")))
            self._claims = Claims(folder, self._bell.look_again)  # after a claim, ask the bell what others wrote
            opened.callback(self._claims.close)
            self.time = RecordClock(newest=files.newest, note=folder / "doubted_clock").now
            self._search: Searching | None = None
            self._heard = b""
            self._generation = 0
            alarm = None if loop is None else FileAlarm(loop, folder / "bell")
            self._hints = WriteHints(loop, self._changes, self._is_held_elsewhere, self._claims.look, alarm)
            opened.callback(self._hints.close)
            looks = files.there.find_gone, files.check_commit
            self._queries = Queries(files.reader, str(self.path), files.there)
            self._heads = LastDigests(files.writer, self._seals)
            close_writer = partial(files.close, files.writer)
            path = str(self.path)
            self._writer = Writer(files.writer, self._deliver, path, self._bell.ring, looks, self._heads.forget, close_writer)
            opened.pop_all()  # nothing can fail any more
        self._handover = Handover(loop, self._writer)

    def finish(self, timeout: float = 5.0) -> bool:
        """Write what is queued, and accept no more. False if the disk did not keep up."""
        return self._handover.finish(timeout)

    def close(self, timeout: float = 5.0) -> bool:
        flushed = self.finish(timeout)
        if self._search is not None:
            self._search.close()
        self._hints.close()
        self._files.close(self._files.reader)
        self._claims.close()
        if flushed:  # otherwise the writer still uses them
            self._bell.close()
        return flushed

    # -- writing

    def append(self, batch: Batch, done: Committed) -> None:
        if batch.releases:
            done = self._releasing(batch.conversation_id, done)
        self._submit(batch.conversation_id, lambda number: writing.append(number, batch, self._heads), done)
        if self._search is not None:
            self._search.note_appended(len(batch.entries))

    def _releasing(self, conversation_id: ConversationId, done: Committed) -> Committed:
        """Gives the claim back once the batch is durable, before `done` is called."""
        claim = self._claims.held(number_of(conversation_id))

        def written(error: BaseException | None) -> None:
            if error is None and claim is not None:
                claim.release()
            done(error)

        return written

    def save_text(
        self, conversation_id: ConversationId, epoch: int, said: SavedText, done: Committed | None = None, *, adds: bool = False
    ) -> None:
        self._submit(conversation_id, lambda number: writing.said(number, epoch, said, adds=adds), done)

    def post(self, conversation_id: ConversationId, op: Op, done: Committed | None = None) -> None:
        def posted(error: BaseException | None) -> None:
            self._generation += 1
            if done is not None:
                done(error)

        self._submit(conversation_id, lambda number: writing.letter(number, op), posted)

    def archive(self, conversation_id: ConversationId, archived: bool, done: Committed) -> None:
        self._submit(conversation_id, lambda number: writing.archive(number, archived), done)

    def delete(self, conversation_id: ConversationId, done: Committed) -> None:
        """Delete the conversation. The caller holds its claim. If there is a search index, the conversation is removed from it
        first."""
        if self._loop is not None and (self.path.parent / SEARCH_INDEX).exists():
            done = self.search.once_forgotten(done)
        self._submit(conversation_id, writing.delete, done)

    def spend(self, name: str, day: str, spent: Spent, done: Committed) -> None:
        row: writing.Row = ("spent", 0, name, day, spent.tokens, spent.cost_usd, spent.requests, 0, 0)
        self._handover.add(Job(NO_CONVERSATION, lambda: [row], done))

    async def spent(self, name: str, since: str) -> Spent:
        sums = "coalesce(sum(tokens), 0), coalesce(sum(cost_usd), 0.0), coalesce(sum(requests), 0)"
        row = self._queries.row(f"SELECT {sums} FROM spending WHERE name = ? AND day >= ?", name, since)
        return Spent() if row is None else Spent(*row)

    def _submit(self, conversation_id: ConversationId, rows: Callable[[int], list[Row]], done: Committed | None = None) -> None:
        self._handover.add(Job(conversation_id, lambda: rows(number_of(conversation_id)), done))

    def _deliver(self, answers: list[tuple[Committed, BaseException | None]]) -> None:
        def tell() -> None:
            for done, error in answers:
                try:
                    done(error)
                except Exception:  # a failing listener must not keep the others from being called
                    logger.exception("bug in handling what became of a write")

        if self._loop is None:
            tell()
            return
        try:
            self._loop.call_soon_threadsafe(tell)
        except RuntimeError:  # the loop has ended, so nobody waits any more; the records are on disk
            return

    # -- claims

    async def claim(self, conversation_id: ConversationId, known: Position | None = None) -> SqliteClaim | Holder:
        claim = self._claims.take(number_of(conversation_id))
        self._hints.note_holder(conversation_id, held=isinstance(claim, Holder))
        if isinstance(claim, SqliteClaim):
            try:
                claim.position = self._position(conversation_id, known)
                claim.empty_as_of = None if claim.position.letters else claim.position.as_of
            except BaseException:
                claim.release()
                raise
        return claim

    def _position(self, conversation_id: ConversationId, known: Position | None) -> Position:
        """The position, read under the claim. The earlier holder rang the bell for its writes before it gave the claim back."""
        as_of = self._changes()
        if known is NOWHERE:
            return Position(0, 0, False, as_of)
        if known is not None and known.as_of == as_of:
            return known
        number = number_of(conversation_id)
        row = self._queries.row(f"SELECT {_POSITION} WHERE number = ? AND id = ?", number, conversation_id)
        if row is None:
            return Position(0, 0, False, as_of)
        self._heads.read(number, conversation_id, row[0], row[1], row[4], row[5])
        return Position(row[0], row[1], bool(row[2]), as_of)

    async def holder(self, conversation_id: ConversationId, *, identify: bool = False) -> Holder | None:
        held = self._is_held_elsewhere(conversation_id)
        self._hints.note_holder(conversation_id, held=held)
        if not held:
            return None
        return Holder(self._claims.find_process(number_of(conversation_id)) if identify else None)

    def is_held(self, number: int) -> bool:
        """Whether another process holds it."""
        return self._claims.is_held_elsewhere(number)

    def _is_held_elsewhere(self, conversation_id: ConversationId) -> bool:
        return self._claims.is_held_elsewhere(number_of(conversation_id))

    def _changes(self) -> int:
        """A number that stays the same only while no other process writes and no letter leaves here."""
        heard = self._bell.heard()
        if heard != self._heard:
            self._heard = heard
            self._generation += 1
        return self._generation

    def listen(self, conversation_id: ConversationId, told: Listener) -> Callable[[], None]:
        return self._hints.listen(conversation_id, told)

    # -- reading

    async def positions(self, conversation_ids: Iterable[ConversationId]) -> dict[ConversationId, Position]:
        self._queries.check_still_there()  # whoever waits for changes by others must learn that none can come
        as_of = self._changes()
        wanted = _encode([number_of(conversation_id) for conversation_id in conversation_ids]).decode()  # bytes could be JSONB
        rows = self._queries.rows(f"SELECT {_POSITION} WHERE number IN (SELECT value FROM json_each(?))", wanted)
        return {ConversationId(row[3]): Position(row[0], row[1], bool(row[2]), as_of) for row in rows}

    async def read(
        self, conversation_id: ConversationId, after: int = 0, limit: int | None = None, most_bytes: int | None = None
    ) -> Sequence[Entry]:
        if most_bytes is not None:
            return self._read_up_to(conversation_id, after, limit, most_bytes)
        return entries_of(self._records(conversation_id, after, -1 if limit is None else limit), conversation_id)

    def _records(self, conversation_id: ConversationId, after: int, limit: int) -> Sequence[tuple[Any, ...]]:
        query = f"SELECT {ENTRY} FROM records WHERE conversation = ? AND seq > ? ORDER BY seq LIMIT ?"
        return self._queries.rows(query, number_of(conversation_id), after, limit)

    def _read_up_to(self, conversation_id: ConversationId, after: int, limit: int | None, most_bytes: int) -> Sequence[Entry]:
        entries: list[Entry] = []
        wanted = sys.maxsize if limit is None else limit
        while most_bytes > 0 and (rows := self._records(conversation_id, after, min(READ_AT_ONCE, wanted - len(entries)))):
            found, size = sized_entries_of(rows, conversation_id, most_bytes)
            entries += found
            most_bytes -= size
            after = found[-1].seq
        return entries

    async def saved_text(self, conversation_id: ConversationId) -> SavedText | None:
        number = number_of(conversation_id)
        rows = self._queries.rows("SELECT data FROM said WHERE conversation = ? ORDER BY number", number)
        rows = rows or self._queries.rows(
            "SELECT data FROM partials WHERE conversation = ?", number
        )  # an older build runs the turn
        return saved_text_of(rows, conversation_id)

    async def letters(self, conversation_id: ConversationId) -> Sequence[Letter]:
        claim, as_of = self._claims.held(number_of(conversation_id)), self._changes()
        if claim is not None and claim.empty_as_of == as_of:
            return ()
        rows = self._queries.rows("SELECT number, op FROM inbox WHERE conversation = ? ORDER BY number", number_of(conversation_id))
        if claim is not None and not rows:
            claim.empty_as_of = as_of
        return letters_of(rows, conversation_id)

    async def find(self, conversation_id: ConversationId) -> Listed | None:
        row = self._queries.row(f"SELECT {LISTED} FROM conversations WHERE id = ?", conversation_id)
        return listed_of(*row) if row else None

    async def list(self, limit: int, cursor: str | None = None, *, archived: bool = False) -> Page:
        from understudy.store.sqlite.cursors import Cursor, finite, read_cursor, write_cursor

        place = read_cursor(cursor)
        if limit <= 0:
            return Page((), None)
        self._queries.check_still_there()
        rows = self._queries.rows(
            f"SELECT {LISTED}, number FROM conversations WHERE archived = ?"  # no other bound: SQLite would seek to that one
            " AND (updated_at, number) < (?, ?) ORDER BY updated_at DESC, number DESC LIMIT ?",
            int(archived),
            place.updated_at,
            place.number,
            limit + 1,
        )
        listed = tuple(listed_of(*row[:-1]) for row in rows[:limit])
        if len(rows) <= limit:
            return Page(listed, None)
        last = rows[limit - 1]
        as_of = max(time.time(), finite(rows[0][2])) if cursor is None else place.as_of  # a clock may have been ahead
        return Page(listed, write_cursor(Cursor(as_of, finite(last[2]), last[-1])))

    # -- searching

    @property
    def search(self) -> "Searching":
        if self._search is None:
            from understudy.store.search.index import Index  # imported only if somebody searches or has searched
            from understudy.store.search.searching import Searching

            self._search = Searching(Index(self.path), self._note, self._queries.check_still_there)
        return self._search

    def _note(self, rows: Callable[[sqlite3.Connection], Rows], done: Committed) -> None:
        self._handover.add(Job(ConversationId(""), partial(rows, self._files.writer), done))

    # -- looking after it

    @property
    def place(self) -> str:
        return str(self.path)

    async def ids(self, beginning: str = "", limit: int | None = None) -> Sequence[ConversationId]:
        rows = self._queries.rows(
            "SELECT id FROM conversations WHERE id >= ? AND id < ? ORDER BY id LIMIT ?",
            beginning,
            beginning + "g",  # sorts after everything that an id can contain
            -1 if limit is None else limit,
        )
        return [ConversationId(row[0]) for row in rows]

    async def count(self) -> int:
        return int(self._queries.rows("SELECT count(*) FROM conversations")[0][0])

    async def size(self) -> int:
        """Includes the write-ahead log."""
        return sum(file.stat().st_size for file in self.path.parent.glob(self.path.name + "*"))

    async def check(self) -> str:
        return "\n".join(str(row[0]) for row in self._queries.rows("PRAGMA integrity_check(20)"))

    async def verify(self, most: int | None) -> Verified:
        from understudy.store.sqlite.verify import verify_records  # only here

        self._queries.check_still_there()
        return verify_records(self.path, most)

    async def audit(self, conversation_id: ConversationId, head: str | None = None) -> Audited | None:
        from understudy.store.audit import audit_conversation  # only here

        self._queries.check_still_there()
        with self._explained(), closing(sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            connection.text_factory = bytes  # damaged rows may not be valid text
            connection.isolation_level = None
            return audit_conversation(connection, number_of(conversation_id), self._seals, head)

    async def without_entry(self) -> int:
        rows = self._queries.rows(
            "SELECT count(DISTINCT conversation) FROM records WHERE conversation NOT IN (SELECT number FROM conversations)"
        )
        return int(rows[0][0])

    def seal(self, conversation_id: ConversationId, last_seq: int, digest: bytes, done: Committed) -> None:
        sealed = self._seals.make(conversation_id, last_seq, digest)
        self._submit(conversation_id, lambda number: writing.seal(number, last_seq, digest, sealed), done)

    async def oldest(self, limit: int, after: tuple[float, str], *, archived: bool) -> Sequence[Listed]:
        query = (
            f"SELECT {LISTED} FROM conversations WHERE archived = ? AND (updated_at, id) > (?, ?) ORDER BY updated_at, id LIMIT ?"
        )
        return [listed_of(*row) for row in self._queries.rows(query, int(archived), *after, limit)]

    async def used(self) -> int:
        pragmas = "pragma_page_count, pragma_freelist_count, pragma_page_size"
        pages, free, size = self._queries.rows(f"SELECT page_count, freelist_count, page_size FROM {pragmas}")[0]
        return (pages - free) * size

    async def shrink(self) -> int:
        from understudy.store.sqlite.shrinking import Shrinking  # imported only if the size is limited

        self._queries.check_still_there()
        with self._explained():
            return await Shrinking(self.path, self._writer).run()

    def when_renewed(self, told: Callable[[float], None]) -> None:
        """Nothing to tell: the kernel's locks hold as long as this process lives."""

    def time_commits(self, told: Callable[[float], None]) -> None:
        self._writer.timed = told

    async def backup(self, target: Path) -> None:
        with self._explained():
            self._queries.copy_to(str(target))

    def _close_files(self) -> None:
        for connection in (self._files.writer, self._files.reader):
            self._files.close(connection)

    @contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise explain(error, str(self.path)) from error
        except OSError as error:
            raise explain_system(error, str(self.path)) from error
