"""The event log on PostgreSQL: one thread writes, one reads, and the event loop waits for neither."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from understudy.errors import StoreError, Unavailable
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Op
from understudy.protocol.records import Entry
from understudy.store.chain import Seals
from understudy.store.decoding import ENTRY, LISTED, entries_of, letters_of, listed_of, saved_text_of, sized_entries_of
from understudy.store.log import (
    NO_CONVERSATION,
    Batch,
    Committed,
    Letter,
    Listed,
    Listener,
    Page,
    Position,
    SavedText,
    Spent,
)
from understudy.store.place import prepare_folder
from understudy.store.postgres import writes
from understudy.store.postgres.attending import Attending
from understudy.store.postgres.claiming import Claiming
from understudy.store.postgres.claims import PostgresClaim
from understudy.store.postgres.connecting import checked_url, place_of
from understudy.store.postgres.incarnation import Incarnation
from understudy.store.postgres.processes import host_name
from understudy.store.postgres.reader import Question, Reader, Rows
from understudy.store.postgres.searching import DatabaseSearch
from understudy.store.postgres.upkeep import Upkeep
from understudy.store.postgres.writer import Answer, Job, Row, Writer
from understudy.store.postgres.writes import Heads, number_of
from understudy.store.sqlite.cursors import Cursor, finite, read_cursor, write_cursor
from understudy.store.sqlite.event_log import READ_AT_ONCE
from understudy.store.sqlite.writer import Handover

if TYPE_CHECKING:
    from understudy.store.postgres.ends import Ends
    from understudy.store.postgres.hosts import Hosts

logger = logging.getLogger(__name__)

LEASE_SECONDS = 15.0
LOOKS = 8  # per lease: how often we check that it is still valid, and that the database answers

_POSITION = "epoch, last_seq, EXISTS(SELECT 1 FROM inbox WHERE conversation = conversations.number), id FROM conversations"


class PostgresLog(Claiming, Upkeep):
    """Raises `StoreError` with a text for people if the database fails; `Unavailable` if it cannot be reached."""

    shared = True
    is_remote = True

    def __init__(
        self,
        folder: Path,
        url: str,
        loop: asyncio.AbstractEventLoop,
        *,
        lease_seconds: float = LEASE_SECONDS,
        host: str | None = None,
        front: bool = False,
        moves: bool = False,
        audit_key: Path | None = None,
    ) -> None:
        """`front`: this process claims nothing, and `host` is only its name. `moves`: saved workspaces may be restored on another
        host.
        """
        prepare_folder(folder)
        self._place = place_of(url)
        self._url = url = checked_url(url)
        self._loop = loop
        self._seals = Seals(folder, audit_key)
        self._seals.prepare(may_make=False)
        self._held: dict[ConversationId, PostgresClaim] = {}
        self._listening: dict[ConversationId, list[Listener]] = {}
        self._when_left: Listener | None = None
        self._to_begin: set[ConversationId] = set()  # conversations that a front end has asked for
        self._time_ahead = time.time() - time.monotonic()  # wall clock minus monotonic clock, until the database tells its time
        self._closed = False
        self._heads = Heads(self._seals, self._look_at_head)
        self._is_front, self._moves = front, moves
        name = host or host_name(folder)
        self._incarnation = mine = Incarnation(lease_seconds, f"front {name}" if front else name)
        self._patience = lease_seconds
        self._writer = Writer(url, self._place, mine, self._deliver, self._heads.forget, self._on_lease_ended, lease_seconds)
        self._handover = Handover(loop, self._writer)
        told = self._on_hint, lambda: self._on_lease_ended(mine.worker), self._on_tick, self._claims_there, self._on_renewed
        self._reader = Reader(url, self._place, mine, *told, lease_seconds)
        mine.on_registered = self._reader.wake
        self._looks = loop.call_later(lease_seconds / LOOKS, self._look)

    @property
    def place(self) -> str:
        return self._place

    @property
    def search(self) -> DatabaseSearch:
        return DatabaseSearch(self._connected)

    def time(self) -> float:
        """The database's time, so that all machines agree, whatever their clocks say."""
        return self._time_ahead + time.monotonic()

    def _on_tick(self, now: float) -> None:
        self._time_ahead = now - time.monotonic()

    # -- writing

    def append(self, batch: Batch, done: Committed) -> None:
        name = batch.conversation_id
        claim = self._held.get(name)
        keeps = batch.creates and claim is not None and not batch.releases
        if claim is not None and batch.releases:
            del self._held[name]
        if claim is not None and keeps and not claim.is_asked_for:
            claim.is_asked_for = True
            done = _noting(claim, done)
        asked_for = batch.creates and name in self._to_begin
        self._submit(name, lambda worker: writes.append(batch, worker, self._heads, keeps=keeps, asked_for=asked_for), done)

    def save_text(
        self, conversation_id: ConversationId, epoch: int, said: SavedText, done: Committed | None = None, *, adds: bool = False
    ) -> None:
        self._submit(conversation_id, lambda _: writes.said(conversation_id, epoch, said, adds=adds), done)

    def post(self, conversation_id: ConversationId, op: Op, done: Committed | None = None) -> None:
        self._submit(conversation_id, lambda _: writes.letter(conversation_id, op), done)

    def archive(self, conversation_id: ConversationId, archived: bool, done: Committed) -> None:
        self._submit(conversation_id, lambda _: writes.archive(conversation_id, archived), done)

    def delete(self, conversation_id: ConversationId, done: Committed) -> None:
        self._submit(conversation_id, lambda _: writes.delete(conversation_id), done)

    def seal(self, conversation_id: ConversationId, last_seq: int, digest: bytes, done: Committed) -> None:
        sealed = self._seals.make(conversation_id, last_seq, digest)
        self._submit(conversation_id, lambda _: writes.seal(conversation_id, last_seq, digest, sealed), done)

    def spend(self, name: str, day: str, spent: Spent, done: Committed) -> None:
        self._submit(NO_CONVERSATION, lambda _: writes.spend(name, day, spent), done, hints=False)

    async def spent(self, name: str, since: str) -> Spent:
        sums = "coalesce(sum(tokens), 0)::bigint, coalesce(sum(cost_usd), 0)::float8, coalesce(sum(requests), 0)::bigint"
        rows = await self._rows(f"SELECT {sums} FROM spending WHERE name = %s AND day >= %s", name, since)
        return Spent(*rows[0])

    def _submit(
        self,
        name: ConversationId,
        calls: Callable[[UUID], list[writes.Call]],
        done: Committed | None = None,
        answered: Callable[[Row, UUID], None] | None = None,
        *,
        hints: bool = True,
    ) -> None:
        if self._closed:
            if done is not None:
                self._loop.call_soon(done, Unavailable(f"conversation store: {self._place} is closed"))
            return
        self._handover.add(Job(name, calls, done, answered, hints))

    def _deliver(self, answers: list[Answer]) -> None:
        def tell() -> None:
            for done, error in answers:
                try:
                    done(error)
                except Exception:  # a failing listener must not keep the others from being called
                    logger.exception("bug in handling what became of a write")

        with suppress(RuntimeError):  # the loop has ended, so nobody waits any more
            self._loop.call_soon_threadsafe(tell)

    def _look_at_head(self, number: int) -> tuple[Any, ...] | None:
        """Called on the writer's thread."""
        wanted = "SELECT id, last_seq, digest, seal FROM conversations WHERE number = %s"
        return self._writer.connection.execute(wanted, (number,), binary=True).fetchone()

    # -- claims and the lease

    def _renewed(self, before: Sequence[PostgresClaim], there: Collection[int]) -> None:
        """Give up claims that are missing in the database: an operator, for instance, may have taken single ones away."""
        for claim in before:
            name = claim.conversation_id
            if number_of(name) not in there and self._held.get(name) is claim:
                del self._held[name]
                claim.lose()

    def _on_renewed(self, before: Sequence[PostgresClaim], there: Collection[int]) -> None:
        """Called on the reader's thread."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._renewed, before, there)

    def _claims_there(self) -> Sequence[PostgresClaim]:
        """Called on the reader's thread."""
        return [claim for claim in tuple(self._held.values()) if claim.is_there]

    def _on_lease_ended(self, worker: UUID) -> None:
        """Called on any thread."""
        if worker == self._incarnation.worker:
            self._incarnation.end()
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._lose_all)

    def _lose_all(self) -> None:
        held, self._held = self._held, {}
        if held:
            logger.error("%d claims at %s are lost: the lease on them could not be renewed", len(held), self._place)
        for claim in held.values():
            claim.lose()

    def _look(self) -> None:
        """Watch the threads from the event loop, now and then: a thread that waits for the database cannot watch itself."""
        if self._closed:
            return
        self._looks = self._loop.call_later(self._incarnation.lease_seconds / LOOKS, self._look)
        if self._incarnation.has_ended:
            self._incarnation.end()
            self._lose_all()
        self._writer.look()
        self._reader.look()

    # -- hints

    def listen(self, conversation_id: ConversationId, told: Listener) -> Callable[[], None]:
        listening = self._listening.setdefault(conversation_id, [])
        listening.append(told)
        self._reader.listen()

        def stop() -> None:
            if told in listening:
                listening.remove(told)
            if not listening and self._listening.get(conversation_id) is listening:
                del self._listening[conversation_id]

        return stop

    @cached_property
    def hosts(self) -> "Hosts":
        """Which process serves each host, and what waits there."""
        from understudy.store.postgres.hosts import Hosts

        return Hosts(self._rows, self._submit, self._incarnation, self._to_begin)

    @cached_property
    def ends(self) -> "Ends":
        from understudy.store.postgres.ends import Ends

        return Ends(self._rows, self.hosts.write)

    @property
    def attendance(self) -> Attending:
        return self._attending

    @cached_property
    def _attending(self) -> Attending:
        return Attending(self._rows, self._submit, self._incarnation)

    def listen_for_work(self, told: Listener) -> None:
        """Call `told` when there may be new work for this host."""
        self._when_left = told
        self._reader.listen()

    def _on_hint(self, names: Sequence[str] | None, left: bool) -> None:
        """Called on the reader's thread."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._tell, names, left)

    def _tell(self, names: Sequence[str] | None, left: bool) -> None:
        if left and self._when_left is not None:
            self._when_left()
        for name in tuple(self._listening) if names is None else names:
            for told in tuple(self._listening.get(ConversationId(name), ())):
                told()

    # -- reading

    async def _rows(self, query: str, *values: Any) -> Rows:
        answer: asyncio.Future[Rows] = self._loop.create_future()

        def give(found: Rows | StoreError) -> None:
            if answer.done():
                return
            if isinstance(found, StoreError):
                answer.set_exception(found)
            else:
                answer.set_result(found)

        def answered(found: Rows | StoreError) -> None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(give, found)

        self._reader.ask(Question(query, values, answered))
        return await answer

    async def positions(self, conversation_ids: Iterable[ConversationId]) -> dict[ConversationId, Position]:
        numbers = [number_of(conversation_id) for conversation_id in conversation_ids]
        rows = await self._rows(f"SELECT {_POSITION} WHERE number = ANY(%s::bigint[])", numbers)
        return {ConversationId(row[3]): Position(row[0], row[1], bool(row[2])) for row in rows}

    async def read(
        self, conversation_id: ConversationId, after: int = 0, limit: int | None = None, most_bytes: int | None = None
    ) -> Sequence[Entry]:
        if most_bytes is None:
            return entries_of(await self._records(conversation_id, after, limit), conversation_id)
        entries: list[Entry] = []
        while most_bytes > 0 and (limit is None or len(entries) < limit):
            wanted = READ_AT_ONCE if limit is None else min(READ_AT_ONCE, limit - len(entries))
            rows = await self._records(conversation_id, after, wanted)
            if not rows:
                break
            found, size = sized_entries_of(rows, conversation_id, most_bytes)
            entries += found
            most_bytes -= size
            after = found[-1].seq
        return entries

    async def _records(self, conversation_id: ConversationId, after: int, limit: int | None) -> Rows:
        query = f"SELECT {ENTRY} FROM records WHERE conversation = %s AND seq > %s ORDER BY seq LIMIT %s"
        return await self._rows(query, number_of(conversation_id), after, limit)

    async def saved_text(self, conversation_id: ConversationId) -> SavedText | None:
        query = "SELECT data FROM said WHERE conversation = %s ORDER BY number"
        return saved_text_of(await self._rows(query, number_of(conversation_id)), conversation_id)

    async def letters(self, conversation_id: ConversationId) -> Sequence[Letter]:
        query = "SELECT number, op FROM inbox WHERE conversation = %s ORDER BY number"
        return letters_of(await self._rows(query, number_of(conversation_id)), conversation_id)

    async def find(self, conversation_id: ConversationId) -> Listed | None:
        rows = await self._rows(f"SELECT {LISTED} FROM conversations WHERE id = %s", conversation_id)
        return listed_of(*rows[0]) if rows else None

    async def list(self, limit: int, cursor: str | None = None, *, archived: bool = False) -> Page:
        place = read_cursor(cursor)
        if limit <= 0:
            return Page((), None)
        rows = await self._rows(
            f"SELECT {LISTED}, number FROM conversations WHERE archived = %s AND (updated_at, number) < (%s, %s)"
            " ORDER BY updated_at DESC, number DESC LIMIT %s",
            archived,
            place.updated_at,
            place.number,
            limit + 1,
        )
        listed = tuple(listed_of(*row[:-1]) for row in rows[:limit])
        if len(rows) <= limit:
            return Page(listed, None)
        last = rows[limit - 1]
        as_of = max(self.time(), finite(rows[0][2])) if cursor is None else place.as_of
        return Page(listed, write_cursor(Cursor(as_of, finite(last[2]), last[-1])))

    # -- looking after it, and its end

    def when_renewed(self, told: Callable[[float], None]) -> None:
        def renewed(until: float) -> None:
            """Called on any thread."""
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(told, until)

        self._incarnation.on_renewed = renewed
        if self._incarnation.is_registered:
            told(self._incarnation.holds_until)

    def time_commits(self, told: Callable[[float], None]) -> None:
        self._writer.timed = told

    async def backup(self, target: Path) -> None:
        raise StoreError(
            f"conversation store: {self._place} is backed up by the tools of PostgreSQL, `pg_dump` for instance "
            "(docs/many-machines.md); the audit key beside it lies in the state folder"
        )

    def finish(self, timeout: float = 5.0) -> bool:
        """Write what is queued, and accept no more; the last write gives up the claims. False if that took too long."""
        self._closed = True
        return self._handover.finish(timeout)

    def close(self, timeout: float = 5.0) -> bool:
        flushed = self.finish(timeout)
        self._looks.cancel()
        self._reader.close(timeout)
        self._listening.clear()
        self._held.clear()
        return flushed


def _noting(claim: PostgresClaim, done: Committed) -> Committed:
    def written(error: BaseException | None) -> None:
        claim.is_there = error is None
        done(error)

    return written
