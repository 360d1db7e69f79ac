"""Reads from SQLite, and explains errors in words for people."""

import errno
import os
import sqlite3
from collections.abc import Sequence
from typing import Any

from understudy.errors import StoreError
from understudy.store.sqlite.still_there import StillThere
from understudy.store.sqlite.writer import explain


class Queries:
    """Owns the reading connection."""

    def __init__(self, connection: sqlite3.Connection, path: str, there: StillThere) -> None:
        self._connection = connection
        self._path = path
        self._there = there

    def row(self, query: str, *values: Any) -> tuple[Any, ...] | None:
        return next(iter(self.rows(query, *values)), None)

    def rows(self, query: str, *values: Any) -> Sequence[tuple[Any, ...]]:
        self._there.check_readable()
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.OperationalError as error:
            if "Could not decode" not in str(error):
                raise self.explain(error) from error
        except sqlite3.Error as error:
            raise self.explain(error) from error
        return self._damaged_rows(query, *values)

    def check_still_there(self) -> None:
        """Raises `StoreError` if the files are gone: a process that has them open can read them for ever without noticing."""
        gone = self._there.find_gone()
        if gone is not None:
            raise gone

    def explain(self, error: sqlite3.Error) -> StoreError:
        return self._there.find_gone() or explain(error, self._path)

    def _damaged_rows(self, query: str, *values: Any) -> Sequence[tuple[Any, ...]]:
        """Read row by row: a row whose text is not valid UTF-8 must not hide the others."""
        self._connection.text_factory = _decode_damaged
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise explain(error, self._path) from error
        finally:
            self._connection.text_factory = str

    def copy_to(self, target: str) -> None:
        """Raises `sqlite3.Error` or `OSError`."""
        os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        if os.path.getsize(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        copy = sqlite3.connect(target)
        try:
            self._connection.execute("BEGIN")  # a lasting snapshot, or each write by others would restart the copy
            self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            self._connection.backup(copy, pages=256)
            copy.execute("DELETE FROM search_index")  # if the copy is restored one day, the index will know later records
            copy.commit()
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            copy.close()


def _decode_damaged(text: bytes) -> str:
    return text.decode(errors="backslashreplace")
