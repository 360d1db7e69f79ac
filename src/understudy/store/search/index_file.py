"""The index of words: a file of its own beside the store, which can be made anew from the log at any time.

A text has a place, a number that rises with the time at which it was said, so that FTS5 gives the newest first without sorting, and
goes on from any place. Each word stands there behind a mark: the role of what was said (`u` and `word`), and for an owner who has a
name the same again behind the owner's number. So whoever may see only their own looks among their own words, and a role costs
nothing. The folder and those above it are words too.

FTS5 keeps no copy of what it indexes, so `texts` has the words, packed: they are told again to forget a text.

It has no write-ahead log: nothing is read beside a commit that could not wait for it, and one file that is deleted, replaced or cut
short is one that can be seen to be.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from zlib import compress, decompress

import msgspec

from understudy.protocol.callers import LOCAL_NAME
from understudy.protocol.choices import SEARCH_ROLES, SearchRole
from understudy.store.search.words import Question, as_match, words_of

VERSION = 3
BUSY_SECONDS = 5.0
IN_ONE_MILLISECOND = 15  # bits of a place
FORGOTTEN_AT_ONCE = 500  # texts
MERGED_AT_ONCE = 200  # pages
MARK = 16  # bytes
MOST_FOLDERS = 64  # a folder and those above it

_MARKS: dict[SearchRole, str] = {"user": "u", "assistant": "a", "command": "c", "patch": "p", "tool": "t"}
_LOCAL = "local"  # stands for the owner of all that belongs to the user of the machine
_TABLES = (
    "CREATE TABLE facts(mark BLOB NOT NULL, steps INTEGER NOT NULL DEFAULT 0, holes INTEGER NOT NULL DEFAULT 0)",
    "CREATE TABLE owners(number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    "CREATE TABLE folders(number INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE)",
    "CREATE TABLE logs(conversation INTEGER PRIMARY KEY, upto INTEGER NOT NULL, digest BLOB NOT NULL, folder TEXT NOT NULL)",
    "CREATE TABLE texts(place INTEGER PRIMARY KEY, conversation INTEGER NOT NULL, seq INTEGER NOT NULL,"
    " mark TEXT NOT NULL, owner INTEGER NOT NULL, folder INTEGER NOT NULL, words BLOB NOT NULL)",
    "CREATE INDEX texts_of_one ON texts(conversation, seq)",
    # ASCII: what is not is a letter, and words have been made before. Texts are not ranked, so their lengths are not kept.
    "CREATE VIRTUAL TABLE words USING fts5(everyones, owners, folders, content = '', tokenize = 'ascii', columnsize = 0)",
)

_TOLD_AGAIN = (
    "SELECT place, mark, owner, (SELECT path FROM folders WHERE number = folder), words FROM texts WHERE conversation = ? LIMIT ?"
)


class Indexed(msgspec.Struct, frozen=True):
    """How much of one log is in the index."""

    upto: int = 0
    digest: bytes = b""  # of that record
    folder: str = ""


class Text(msgspec.Struct, frozen=True):
    seq: int
    at: float
    role: SearchRole
    text: str
    folder: str


class Place(msgspec.Struct, frozen=True):
    place: int
    conversation: int
    seq: int


class IndexFile:
    """Raises `sqlite3.Error`. Used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        path.touch(mode=0o600)
        self.path = path
        self._connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            self._prepare()
            found = path.stat()
        except BaseException:
            self._connection.close()
            raise
        self._identity = found.st_dev, found.st_ino
        self._size = found.st_size

    def _prepare(self) -> None:
        self._connection.execute("PRAGMA synchronous = FULL")  # the log trusts what is reported as indexed, so it must be on disk
        self._connection.execute("PRAGMA secure_delete = ON")
        if self._version() != 0:
            return
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            if self._version() == 0:
                for statement in _TABLES:
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA user_version = {VERSION}")
            self._connection.execute("COMMIT")
        finally:
            self._give_up()

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    @property
    def is_usable(self) -> bool:
        """False if another version of understudy has made the file, in a form that this one does not know."""
        return self._version() == VERSION

    @property
    def is_there(self) -> bool:
        """Whether the path still leads to this file, and the file was not cut short: it never gets smaller by itself."""
        try:
            found = self.path.stat()
        except OSError:
            return False
        before, self._size = self._size, max(self._size, found.st_size)
        return self.stands_there and found.st_size >= before

    @property
    def stands_there(self) -> bool:
        """Whether the path leads to this file, even if it was cut short."""
        try:
            found = self.path.stat()
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._identity

    def close(self) -> None:
        self._connection.close()

    # -- of which store it is

    @property
    def mark(self) -> bytes | None:
        row = self._connection.execute("SELECT mark FROM facts").fetchone()
        return None if row is None else row[0]

    def is_as_noted(self, noted: bytes | None) -> bool:
        """Whether the log knows this file, and it is no older copy. `noted`: what `reached` returned, perhaps some steps ago."""
        row = self._connection.execute("SELECT mark, steps FROM facts").fetchone()
        return row is not None and noted is not None and row[0] == noted[:MARK] and row[1] >= int.from_bytes(noted[MARK:])

    def reached(self) -> bytes:
        """Count one more step. Returns what the log is to note: the mark of the file and the number of steps."""
        self._connection.execute("UPDATE facts SET steps = steps + 1")
        mark, steps = self._connection.execute("SELECT mark, steps FROM facts").fetchone()
        return mark + steps.to_bytes(8)

    def empty(self, mark: bytes) -> None:
        was_used = self.mark is not None
        if was_used:
            for table in ("facts", "owners", "folders", "logs", "texts", "words"):
                self._connection.execute(f"DROP TABLE {table}")
            for statement in _TABLES:
                self._connection.execute(statement)
        self._connection.execute("INSERT INTO facts VALUES (?, 0, ?)", (mark, int(was_used)))

    # -- writing

    def begin(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def mark_place(self) -> None:
        self._connection.execute("SAVEPOINT place")

    def back_to_place(self) -> None:
        self._connection.execute("ROLLBACK TO place")

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def _give_up(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    roll_back = _give_up

    def indexed(self, conversation: int) -> Indexed:
        row = self._connection.execute("SELECT upto, digest, folder FROM logs WHERE conversation = ?", (conversation,)).fetchone()
        return Indexed() if row is None else Indexed(*row)

    def note(self, conversation: int, indexed: Indexed) -> None:
        values = conversation, indexed.upto, indexed.digest, indexed.folder
        self._connection.execute("INSERT OR REPLACE INTO logs VALUES (?, ?, ?, ?)", values)

    def add(self, conversation: int, owner: str, texts: Sequence[Text]) -> None:
        own = 0 if owner == LOCAL_NAME else self._number_of("owners", "name", owner)
        for text in texts:
            place, mark = self._free_place(text.at), _MARKS[text.role]
            words = " ".join(words_of(text.text))
            row = conversation, text.seq, mark, own, self._number_of("folders", "path", text.folder), compress(words.encode(), 1)
            self._connection.execute("INSERT INTO texts VALUES (?, ?, ?, ?, ?, ?, ?)", (place, *row))
            columns = _columns(mark, own, text.folder, words)
            self._connection.execute("INSERT INTO words(rowid, everyones, owners, folders) VALUES (?, ?, ?, ?)", (place, *columns))

    def _number_of(self, table: str, column: str, name: str) -> int:
        name = _storable(name)
        self._connection.execute(f"INSERT OR IGNORE INTO {table}({column}) VALUES (?)", (name,))
        return int(self._connection.execute(f"SELECT number FROM {table} WHERE {column} = ?", (name,)).fetchone()[0])

    def _find_owner(self, owner: str) -> int | None:
        row = self._connection.execute("SELECT number FROM owners WHERE name = ?", (_storable(owner),)).fetchone()
        return None if row is None else row[0]

    def _free_place(self, at: float) -> int:
        """The next free place of the millisecond, or of a later one if that is full."""
        begin = first_place(at)
        while True:
            end = begin + (1 << IN_ONE_MILLISECOND)
            query = "SELECT max(place) FROM texts WHERE place >= ? AND place < ?"
            last: int | None = self._connection.execute(query, (begin, end)).fetchone()[0]
            if last is None or last + 1 < end:
                return begin if last is None else last + 1
            begin = end

    def forget(self, conversation: int) -> bool:
        """Forget some of the texts. False when none is left."""
        rows = self._connection.execute(_TOLD_AGAIN, (conversation, FORGOTTEN_AT_ONCE)).fetchall()
        for place, mark, own, folder, words in rows:
            columns = _columns(mark, own, folder, decompress(words).decode())
            forget = "INSERT INTO words(words, rowid, everyones, owners, folders) VALUES ('delete', ?, ?, ?, ?)"
            self._connection.execute(forget, (place, *columns))
            self._connection.execute("DELETE FROM texts WHERE place = ?", (place,))
        if rows:
            self._connection.execute("UPDATE facts SET holes = 1")
        else:
            self._connection.execute("DELETE FROM logs WHERE conversation = ?", (conversation,))
        return bool(rows)

    @property
    def has_holes(self) -> bool:
        """Whether the file may still hold words of deleted texts."""
        return self._connection.execute("SELECT 1 FROM facts WHERE holes").fetchone() is not None

    def close_holes(self) -> bool:
        """Rewrite some of the pages that hold words of deleted texts. False when all are rewritten."""
        before = self._connection.total_changes
        self._connection.execute("INSERT INTO words(words, rank) VALUES ('merge', ?)", (-MERGED_AT_ONCE,))
        if self._connection.total_changes - before >= 2:  # FTS5's own sign that there was something to do
            return True
        self._connection.execute("UPDATE facts SET holes = 0")
        return False

    # -- finding

    def places(
        self, question: Question, role: SearchRole | None, owner: str | None, folder: str | None, newest: int, oldest: int
    ) -> Iterator[Place]:
        """Places of matching texts, newest first. Each is looked for only when the caller asks for it."""
        match = self._match(question, SEARCH_ROLES if role is None else (role,), owner, folder)
        if match is None:
            return
        found = "SELECT rowid FROM words WHERE words MATCH ? AND rowid >= ? AND rowid < ? ORDER BY rowid DESC"
        query = "SELECT conversation, seq FROM texts WHERE place = ?"
        with closing(self._connection.execute(found, (match, oldest, newest))) as places:  # an open query blocks writers
            for (place,) in places:
                row: tuple[int, int] | None = self._connection.execute(query, (place,)).fetchone()
                if row is not None:
                    yield Place(place, *row)

    def _match(self, question: Question, roles: Sequence[SearchRole], owner: str | None, folder: str | None) -> str | None:
        """The query for FTS5; None if nothing can match."""
        if owner is None or owner == LOCAL_NAME:
            match = f"everyones : ({as_match(question, [_MARKS[role] for role in roles])})"
            if owner is not None:  # words of the owner of nearly everything are indexed only once
                match = f'folders : "{_LOCAL}" AND ({match})'
        elif (number := self._find_owner(owner)) is not None:
            match = f"owners : ({as_match(question, [f'{number}{_MARKS[role]}' for role in roles])})"
        else:
            return None
        return match if folder is None else f'folders : "{_folder_word(_clean(folder))}" AND ({match})'


def _columns(mark: str, own: int, folder: str, words: str) -> tuple[str, str, str]:
    """The columns of a text for FTS5. FTS5 forgets a text only if it is given the same columns again, so a change here needs a new
    `VERSION`.
    """
    split = words.split()
    everyones = " ".join([mark + word for word in split])
    owners = " ".join([f"{own}{mark}{word}" for word in split]) if own else ""
    return everyones, owners, " ".join([*map(_folder_word, _folder_and_above(folder)), *([] if own else [_LOCAL])])


def first_place(at: float) -> int:
    return max(0, int(at * 1000)) << IN_ONE_MILLISECOND


def _storable(name: str) -> str:
    """SQLite cannot store half a character. The owner is checked again against the log."""
    return name.encode(errors="backslashreplace").decode()


def _clean(folder: str) -> str:
    return folder.rstrip("/") or "/"


def _folder_and_above(folder: str) -> list[str]:
    if not folder:
        return []
    path = _clean(folder)
    found = [path]
    while path != "/" and "/" in path and len(found) < MOST_FOLDERS:
        path = _clean(path.rpartition("/")[0])
        found.append(path)
    return found


def _folder_word(folder: str) -> str:
    return "f" + blake2b(folder.encode(errors="surrogatepass"), digest_size=8).hexdigest()
