"""Maintains the conversations in a database: counts and checks them, and verifies their chains of digests."""

import asyncio
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
from psycopg import Connection

from understudy.protocol.ids import ConversationId
from understudy.store.audit import Head, audit_rows
from understudy.store.chain import Seals
from understudy.store.decoding import LISTED, listed_of
from understudy.store.log import Audited, Listed, Verified
from understudy.store.postgres.connecting import connect, explain
from understudy.store.postgres.writes import number_of
from understudy.store.sqlite.verify import Stored, verify_stored

_RECORDS = "SELECT seq, parent, turn, at, data, digest FROM records WHERE conversation = %s ORDER BY seq"


class Upkeep:
    """The part of a log for maintenance. Slow queries get a connection of their own, so that nothing else waits for them."""

    _url: str
    _place: str
    _seals: Seals

    async def _rows(self, query: str, *values: Any) -> Sequence[tuple[Any, ...]]:
        raise NotImplementedError

    async def ids(self, beginning: str = "", limit: int | None = None) -> Sequence[ConversationId]:
        rows = await self._rows(
            'SELECT id FROM conversations WHERE starts_with(id, %s) ORDER BY id COLLATE "C" LIMIT %s', beginning, limit
        )
        return [ConversationId(row[0]) for row in rows]

    async def count(self) -> int:
        return int((await self._rows("SELECT count(*) FROM conversations"))[0][0])

    async def size(self) -> int:
        """Bytes of the tables with their indexes, and with the free space that deleted rows left."""
        names = "('conversations'), ('records'), ('said'), ('inbox'), ('claims'), ('workers'), ('older_digests'), ('texts')"
        return int((await self._rows(f"SELECT sum(pg_total_relation_size(t::regclass))::bigint FROM (VALUES {names}) x(t)"))[0][0])

    async def used(self) -> int:
        """Always 0, so no limit on the size ever deletes anything: deleted rows keep taking space until the database reuses it."""
        return 0

    async def shrink(self) -> int:
        return 0  # the database frees space by itself

    async def check(self) -> str:
        """Only whether the tables answer: PostgreSQL checks its pages itself."""
        await self._rows("SELECT version FROM about")
        return "ok"

    async def without_entry(self) -> int:
        missing = "NOT EXISTS (SELECT 1 FROM conversations c WHERE c.number = r.conversation)"
        return int((await self._rows(f"SELECT count(DISTINCT conversation) FROM records r WHERE {missing}"))[0][0])

    async def oldest(self, limit: int, after: tuple[float, str], *, archived: bool) -> Sequence[Listed]:
        some = "archived = %s AND (updated_at, id) > (%s, %s) ORDER BY updated_at, id LIMIT %s"
        query = f"SELECT {LISTED} FROM conversations WHERE {some}"
        return [listed_of(*row) for row in await self._rows(query, archived, *after, limit)]

    async def verify(self, most: int | None) -> Verified:
        return await asyncio.to_thread(self._verify, most)

    async def audit(self, conversation_id: ConversationId, head: str | None = None) -> Audited | None:
        return await asyncio.to_thread(self._audit, conversation_id, head)

    def _verify(self, most: int | None) -> Verified:
        with self._one_moment() as connection:
            query = "SELECT id, number, last_seq, summary, digest FROM conversations ORDER BY updated_at DESC"
            heads = [Stored(*row) for row in connection.execute(query, binary=True)]
            return verify_stored(heads, partial(_records, connection), most)

    def _audit(self, conversation_id: ConversationId, head: str | None) -> Audited | None:
        with self._one_moment() as connection:
            query = "SELECT id, last_seq, digest, seal, owner FROM conversations WHERE number = %s"
            number = number_of(conversation_id)
            found = connection.execute(query, (number,), binary=True).fetchone()
            if found is None:
                return None
            name, last_seq, digest, seal, owner = found
            rows, older = _records(connection, number)
            return audit_rows(Head(name, last_seq, digest, seal, owner.encode()), rows, older, self._seals, head)

    @contextmanager
    def _one_moment(self) -> Generator[Connection[Any]]:
        """A view of everything at one moment, even while others write."""
        with self._connected() as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield connection
            connection.execute("ROLLBACK")

    @contextmanager
    def _connected(self) -> Generator[Connection[Any]]:
        try:
            with connect(self._url, "look") as connection:
                yield connection
        except (psycopg.Error, OSError) as error:
            raise explain(error, self._place) from error


def _records(connection: Connection[Any], number: int) -> tuple[Iterator[tuple[Any, ...]], bytes]:
    """Rows with texts as bytes, as the check of a chain expects them; and the digests of records from before there were any."""
    older = connection.execute("SELECT digests FROM older_digests WHERE conversation = %s", (number,), binary=True).fetchone()

    def rows() -> Iterator[tuple[Any, ...]]:
        for seq, parent, turn, at, data, digest in connection.execute(_RECORDS, (number,), binary=True):
            yield seq, parent, turn.encode(), at, data, digest

    return rows(), older[0] if older is not None else b""
