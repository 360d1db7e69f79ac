"""The store on PostgreSQL, as source or target of a move."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import psycopg
from psycopg.sql import SQL, Identifier

from understudy.errors import StoreError
from understudy.store.log import Summary
from understudy.store.moving.ends import COLUMNS, SPENDING, SUMMARY, Moved
from understudy.store.postgres.connecting import checked_url, connect, explain, place_of
from understudy.store.postgres.processes import has_ended
from understudy.store.postgres.tables import check_version
from understudy.store.postgres.writes import number_of

_CONVERSATION = ["int8", "text", "int4", "int4", "float8", "float8", "bool", "bytea", "text", "bytea", "bytea", "int8"]
_RECORD = ["int8", "int4", "int4", "text", "float8", "bytea", "bytea"]


class DatabaseEnd:
    def __init__(self, url: str, host: str | None = None) -> None:
        """`host`: the host that gets the conversations put here, because it has their folders; None: the first that continues
        one."""
        self._host = host
        self.place = place_of(url)
        try:
            self._connection = connect(checked_url(url), "move", prepares=False)
            check_version(self._connection, self.place)
        except (psycopg.Error, OSError) as error:
            raise explain(error, self.place) from error

    def close(self) -> None:
        self._connection.close()

    def held(self) -> Sequence[str]:
        rows = self._rows(
            "SELECT c.id, w.process FROM claims c JOIN workers w ON w.id = c.worker WHERE w.seen + w.lease > clock_timestamp()"
        )
        return [name for name, process in rows if not has_ended(process)]

    def moved_to(self) -> str | None:
        return self._rows("SELECT moved_to FROM about")[0][0]

    def mark(self, place: str) -> None:
        self._rows("UPDATE about SET moved_to = %s RETURNING 1", place)
        with self._explained(), self._connection.transaction():  # wait until transactions that began before the mark are over
            self._connection.execute("SELECT pg_advisory_xact_lock(7264, 'about'::regclass::oid::int)")

    def unmark(self) -> None:
        self._rows("UPDATE about SET moved_to = NULL RETURNING 1")

    def count(self) -> int:
        return int(self._rows("SELECT count(*) FROM conversations")[0][0])

    def names(self) -> Sequence[str]:
        return [row[0] for row in self._rows("SELECT id FROM conversations ORDER BY updated_at, number")]

    def take(self, name: str) -> Moved:
        number = number_of(name)
        row = self._rows(f"SELECT {COLUMNS} FROM conversations WHERE number = %s", number)[0]
        records = self._rows("SELECT seq, parent, turn, at, data, digest FROM records WHERE conversation = %s ORDER BY seq", number)
        older = self._rows("SELECT digests FROM older_digests WHERE conversation = %s", number)
        said = self._rows("SELECT number, data FROM said WHERE conversation = %s ORDER BY number", number)
        letters = self._rows("SELECT number, op FROM inbox WHERE conversation = %s ORDER BY number", number)
        return Moved(row, records, older[0][0] if older else b"", said, letters)

    def spending(self) -> Sequence[tuple[Any, ...]]:
        return self._rows(f"SELECT {SPENDING} FROM spending")

    def put_all(self, conversations: Iterator[Moved], spending: Sequence[tuple[Any, ...]]) -> None:
        with self._explained(), self._connection.transaction():
            self._connection.execute("DELETE FROM spending")
            self._copy("spending", SPENDING, ["text", "text", "int8", "float8", "int8"], spending)
            for one in conversations:
                self._put(one)
            self._connection.execute(
                "INSERT INTO workspaces SELECT DISTINCT host, folder FROM conversations"
                " WHERE host IS NOT NULL AND folder IS NOT NULL ON CONFLICT DO NOTHING"
            )

    def _put(self, one: Moved) -> None:
        number, last = one.row[0], max((letter for letter, _ in one.letters), default=0)
        try:
            row = (*one.row, last, self._host, _folder_of(one) if self._host else None)
            self._copy("conversations", f"{COLUMNS}, letters, host, folder", [*_CONVERSATION, "text", "text"], [row])
            rows = [(number, *row) for row in one.records]
            self._copy("records", "conversation, seq, parent, turn, at, data, digest", _RECORD, rows)
            if one.older:
                self._copy("older_digests", "conversation, digests", ["int8", "bytea"], [(number, one.older)])
            self._copy("said", "conversation, number, data", ["int8", "int4", "bytea"], [(number, *row) for row in one.said])
            letters = [(number, *row) for row in one.letters]
            self._copy("inbox", "conversation, number, op", ["int8", "int8", "bytea"], letters)
        except (TypeError, ValueError, psycopg.DataError) as error:
            raise StoreError(f"conversation {one.name} cannot be moved: a value of it is damaged ({error})") from error

    def _copy(self, table: str, columns: str, types: list[str], rows: Sequence[tuple[Any, ...]]) -> None:
        if not rows:
            return
        names = SQL(", ").join([Identifier(column.strip()) for column in columns.split(",")])
        what = SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(Identifier(table), names)
        with self._connection.cursor() as cursor, cursor.copy(what) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._explained():
            return self._connection.execute(query.encode(), values, binary=True).fetchall()

    @contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except (psycopg.Error, OSError) as error:
            raise explain(error, self.place) from error


def _folder_of(one: Moved) -> str | None:
    """The folder that the row for lists names; None if it cannot be read, which others report."""
    try:
        return msgspec.json.decode(one.row[SUMMARY], type=Summary).cwd or None
    except msgspec.MsgspecError:
        return None
