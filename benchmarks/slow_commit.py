"""Our server on a slow disk: `python -P slow_commit.py MILLISECONDS mcp-server` makes every SQLite commit take that much longer.

The delay is put where the disk would put it, around the library's commit and outside the interpreter's lock; nothing of
the server itself is changed. For the benchmark only.
"""

import sqlite3
import sys
import time
from functools import partial
from typing import Any

DELAY = float(sys.argv.pop(1)) / 1000


class SlowConnection(sqlite3.Connection):
    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        statement = sql.lstrip().upper()
        if statement.startswith(("COMMIT", "END")) or (statement.startswith("INSERT") and not self.in_transaction):
            time.sleep(DELAY)  # a statement outside of a transaction is one itself
        return super().execute(sql, *parameters)

    def commit(self) -> None:
        time.sleep(DELAY)
        super().commit()


if __name__ == "__main__":
    sqlite3.connect = partial(sqlite3.connect, factory=SlowConnection)  # before the server's own modules look it up
    from understudy.cli.main import main

    sys.exit(main())
