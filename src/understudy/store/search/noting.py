"""Notes in the log how far the index is, as rows for the writer. The triggers are made at a search, because few processes
search."""

import sqlite3
from collections.abc import Sequence

from understudy.store.search.index import Done
from understudy.store.sqlite.writing import Row

_KNOWN = "DELETE FROM unindexed WHERE conversation = NEW.conversation AND"
_STANDS = "EXISTS (SELECT 1 FROM conversations WHERE number = NEW.conversation"
_KINDS = {
    "index": "DELETE FROM search_index; INSERT INTO search_index VALUES (NEW.a);"
    " INSERT OR IGNORE INTO unindexed SELECT number FROM conversations;",
    # only if the conversation has not changed since it was read
    "indexed": f"{_KNOWN} {_STANDS} AND last_seq IS NEW.a AND digest IS NEW.b);",
    # keep the highest of what several processes report about the same index
    "reached": "UPDATE search_index SET mark = NEW.a WHERE substr(mark, 1, 16) = substr(NEW.a, 1, 16) AND mark < NEW.a;",
    "forgotten": f"{_KNOWN} NOT {_STANDS});",
}


def index(mark: bytes, writer: sqlite3.Connection) -> list[Row]:
    _prepare(writer)
    return [("index", 0, mark, 0, 0, 0, 0, 0, 0)]


def done(conversations: Sequence[Done], reached: bytes, writer: sqlite3.Connection) -> list[Row]:
    _prepare(writer)
    return [
        ("reached", 0, reached, 0, 0, 0, 0, 0, 0),
        *(
            ("forgotten", each.conversation, 0, 0, 0, 0, 0, 0, 0)
            if each.stood is None
            else ("indexed", each.conversation, each.stood.last_seq, each.stood.digest, 0, 0, 0, 0, 0)
            for each in conversations
        ),
    ]


def _prepare(writer: sqlite3.Connection) -> None:
    for kind, action in _KINDS.items():
        when = f"INSTEAD OF INSERT ON writing WHEN NEW.kind = '{kind}'"
        writer.execute(f"CREATE TEMP TRIGGER IF NOT EXISTS writing_{kind} {when} BEGIN {action} END")
