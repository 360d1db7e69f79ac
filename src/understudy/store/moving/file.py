"""The store in a file, as source or target of a move."""

import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from understudy.store.moving.ends import COLUMNS, SPENDING, Moved
from understudy.store.place import DATABASE
from understudy.store.sqlite.event_log import BUSY_SECONDS, SqliteLog, number_of
from understudy.store.sqlite.writer import explain

_TABLES = ("conversations", "records", "said", "partials", "inbox", "spending")
_CHANGES = ("INSERT", "UPDATE", "DELETE")


class FileEnd:
    """Triggers in the database refuse writes after a move, so they bind every process that has the file open, of any version."""

    def __init__(self, folder: Path) -> None:
        self._log = SqliteLog(folder)  # creates the store, or upgrades it
        self.place = str(folder / DATABASE)
        self._connection = sqlite3.connect(self.place, timeout=BUSY_SECONDS, isolation_level=None)

    def close(self) -> None:
        self._connection.close()
        self._log.close()

    def held(self) -> Sequence[str]:
        return [name for name in self.names() if self._log.is_held(number_of(name))]

    def moved_to(self) -> str | None:
        with self._explained():
            if self._connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'moved_to'").fetchone() is None:
                return None
            row = self._connection.execute("SELECT place FROM moved_to").fetchone()
            return None if row is None else str(row[0])

    def mark(self, place: str) -> None:
        words = f"these conversations have moved to {place}; set `understudy.store.url`, and start this server again".replace(
            "'", "''"
        )
        with self._explained(), self._transaction():
            self._connection.execute("CREATE TABLE IF NOT EXISTS moved_to(place TEXT NOT NULL)")
            self._connection.execute("DELETE FROM moved_to")
            self._connection.execute("INSERT INTO moved_to VALUES (?)", (place,))
            for table in _TABLES:
                for change in _CHANGES:
                    what = f"moved_{table}_{change.lower()} BEFORE {change} ON {table}"
                    self._connection.execute(f"CREATE TRIGGER IF NOT EXISTS {what} BEGIN SELECT RAISE(ABORT, '{words}'); END")

    def unmark(self) -> None:
        with self._explained(), self._transaction():
            for table in _TABLES:
                for change in _CHANGES:
                    self._connection.execute(f"DROP TRIGGER IF EXISTS moved_{table}_{change.lower()}")
            self._connection.execute("DROP TABLE IF EXISTS moved_to")

    def count(self) -> int:
        with self._explained():
            return int(self._connection.execute("SELECT count(*) FROM conversations").fetchone()[0])

    def names(self) -> Sequence[str]:
        with self._explained():
            return [row[0] for row in self._connection.execute("SELECT id FROM conversations ORDER BY updated_at, number")]

    def take(self, name: str) -> Moved:
        number = number_of(name)
        with self._explained():
            row = self._connection.execute(f"SELECT {COLUMNS} FROM conversations WHERE number = ?", (number,)).fetchone()
            records = self._all(
                "SELECT seq, parent, turn, at, data, digest FROM records WHERE conversation = ? ORDER BY seq", number
            )
            older = self._all("SELECT digests FROM older_digests WHERE conversation = ?", number)
            said = self._all("SELECT number, data FROM said WHERE conversation = ? ORDER BY number", number)
            said = said or self._all("SELECT 1, data FROM partials WHERE conversation = ?", number)
            letters = self._all("SELECT number, op FROM inbox WHERE conversation = ? ORDER BY number", number)
        return Moved((*row[:6], bool(row[6]), *row[7:]), records, older[0][0] if older else b"", said, letters)

    def _all(self, query: str, number: int) -> list[Any]:
        return self._connection.execute(query, (number,)).fetchall()

    def spending(self) -> Sequence[tuple[Any, ...]]:
        with self._explained():
            return self._connection.execute(f"SELECT {SPENDING} FROM spending").fetchall()

    def put_all(self, conversations: Iterator[Moved], spending: Sequence[tuple[Any, ...]]) -> None:
        with self._explained(), self._transaction():
            self._connection.executemany("INSERT OR REPLACE INTO spending VALUES (?, ?, ?, ?, ?)", spending)
            for one in conversations:
                number = one.row[0]
                self._connection.execute(f"INSERT INTO conversations({COLUMNS}) VALUES ({', '.join('?' * len(one.row))})", one.row)
                self._connection.executemany(
                    "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?)", [(number, *row) for row in one.records]
                )
                if one.older:
                    self._connection.execute("INSERT INTO older_digests VALUES (?, ?)", (number, one.older))
                self._connection.executemany("INSERT INTO said VALUES (?, ?, ?)", [(number, *row) for row in one.said])
                letters = [(number, op) for _, op in one.letters]
                self._connection.executemany("INSERT INTO inbox(conversation, op) VALUES (?, ?)", letters)

    @contextmanager
    def _transaction(self) -> Generator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise explain(error, self.place) from error


def is_there(folder: Path) -> bool:
    return (folder / DATABASE).exists()


def moved_to(folder: Path) -> str | None:
    """Where the store was moved to. Does not create anything."""
    if not is_there(folder):
        return None
    with closing(FileEnd(folder)) as end:
        return end.moved_to()
