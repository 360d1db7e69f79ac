"""The index of a store: updated from the log in steps of some milliseconds, to be run on a thread; and queried."""

import logging
import secrets
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec

from understudy.errors import StoreError
from understudy.store.log import LATEST
from understudy.store.place import SEARCH_INDEX
from understudy.store.search.asked import Found, Hit, Mask, Wanted, read_cursor, write_cursor
from understudy.store.search.index_file import MARK, Indexed, IndexFile, Place, Text, first_place
from understudy.store.search.log_reader import LogReader, Standing
from understudy.store.search.snippets import snippet_of, surroundings_of
from understudy.store.search.texts import folder_of, shortened, text_of
from understudy.store.search.words import Question, read_question
from understudy.store.sqlite.writer import explain

logger = logging.getLogger(__name__)

STEP_CHARACTERS = 256 * 1024  # characters of text per step, about 25 milliseconds
STEP_CONVERSATIONS = 64
MOST_LOOKED_AT = 2000  # texts per page
NEWEST = (1 << 63) - 1
_DAMAGES = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY")


class Done(msgspec.Struct, frozen=True):
    """A conversation that is in the index as it was then; None: it is deleted, and forgotten. For a damaged one, the row's
    values."""

    conversation: int
    stood: Standing | None = None


class Step(msgspec.Struct, frozen=True):
    done: tuple[Done, ...]
    more: bool  # whether there is more to do
    reached: bytes = b""  # the mark that the log should note


class NotOfThisStore(Exception):
    """The index is new, or belongs to another state of the store, so it lacks everything."""


class IndexLost(StoreError):
    """The index was damaged, replaced or removed; the next search rebuilds it."""


class Index:
    """May be called from any thread. Raises `StoreError`."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._path = database.parent / SEARCH_INDEX
        self._lock = threading.Lock()
        self._file: IndexFile | None = None
        self._log: LogReader | None = None
        self._closed = False

    @property
    def exists(self) -> bool:
        return self._path.exists()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._let_go()

    # -- steps

    def begin_anew(self) -> bytes | None:
        """Empty the index; nobody sees the new content before `end_anew`. Meanwhile the log should note the returned mark, and that
        the index lacks all conversations. None if another process was first.
        """
        with self._lock:
            try:
                file, log = self._open()
                file.begin()
                if file.is_as_noted(log.mark()):
                    file.roll_back()
                    return None
                mark = secrets.token_bytes(MARK)
                file.empty(mark)
                return mark
            except sqlite3.Error as error:
                raise self._explain(error) from error

    def end_anew(self, *, noted: bool) -> None:
        with self._lock:
            try:
                file, _ = self._open()
                if noted:
                    file.commit()
                else:
                    file.roll_back()
            except sqlite3.Error as error:
                raise self._explain(error) from error

    def catch_up(self, *, only_deleted: bool = False) -> Step:
        """Also raises `NotOfThisStore`."""
        with self._lock:
            try:
                file, log = self._open()
                if not file.is_as_noted(log.mark()):
                    raise NotOfThisStore
                return self._step(file, log, only_deleted=only_deleted)
            except sqlite3.Error as error:
                raise self._explain(error) from error

    def _step(self, file: IndexFile, log: LogReader, *, only_deleted: bool) -> Step:
        missing = log.missing(STEP_CONVERSATIONS, only_deleted=only_deleted)
        if not missing:
            return Step((), more=False)
        done: list[Done] = []
        room = STEP_CHARACTERS
        file.begin()
        try:
            for conversation in missing:
                finished, used = self._bring_up(file, log, conversation, room)
                if finished is not None:
                    done.append(finished)
                room -= used
                if finished is None or room <= 0:
                    break
            reached = file.reached()
            file.commit()
        finally:
            file.roll_back()
        if not file.is_there:  # do not report as indexed what nobody can find
            raise self._lost()
        return Step(tuple(done), more=True, reached=reached)

    @staticmethod
    def _bring_up(file: IndexFile, log: LogReader, conversation: int, room: int) -> tuple[Done | None, int]:
        """A conversation with unexpected damage is left out: it must not hide the others."""
        standing = log.standing(conversation)
        file.mark_place()
        try:
            return _bring_up(file, log, conversation, standing, room)
        except sqlite3.Error:
            raise
        except Exception:
            logger.exception(
                "a conversation cannot be searched: %s", conversation if standing is None else standing.conversation_id
            )
            file.back_to_place()
            return Done(conversation, standing), 1

    def close_holes(self) -> bool:
        """Remove some words of forgotten texts from the file. False if none are left."""
        with self._lock:
            try:
                file, _ = self._open()
                return file.has_holes and file.close_holes()
            except sqlite3.Error as error:
                raise self._explain(error) from error

    # -- finding

    def find(self, wanted: Wanted, mask: Mask) -> Found:
        question = read_question(wanted.words)
        newest = NEWEST if wanted.cursor is None else read_cursor(wanted.cursor)
        oldest = 0 if wanted.since is None else first_place(min(max(wanted.since, 0.0), LATEST))
        with self._lock:
            try:
                file, log = self._open()
                places = file.places(question, wanted.role, wanted.owner, wanted.folder, newest, oldest)
                return _page(places, log, wanted, question, mask)
            except sqlite3.Error as error:
                raise self._explain(error) from error

    def progress(self) -> tuple[int, int]:
        with self._lock:
            try:
                return self._open()[1].progress()
            except sqlite3.Error as error:
                raise self._explain(error) from error

    # -- the files

    def _open(self) -> tuple[IndexFile, LogReader]:
        if self._closed:
            raise StoreError("conversation store: it is closed")
        if self._file is not None and not self._file.is_there:
            raise self._lost()
        if self._file is None:
            self._file = self._open_file()
        if self._log is None:
            self._log = LogReader(self._database)
        return self._file, self._log

    def _open_file(self) -> IndexFile:
        try:
            file = IndexFile(self._path)
            if file.is_usable:
                return file
            file.close()
        except PermissionError:
            pass  # we own the folder, so we can put another file in its place
        except sqlite3.DatabaseError as error:
            if not _is_damaged(error):
                raise
        except OSError as error:
            raise self._in_words(error) from error
        self._remove()
        try:
            return IndexFile(self._path)
        except OSError as error:
            raise self._in_words(error) from error

    def _remove(self) -> None:
        try:
            for end in ("", "-journal", "-wal", "-shm"):
                self._path.with_name(self._path.name + end).unlink(missing_ok=True)
        except OSError as error:
            raise self._in_words(error) from error

    def _in_words(self, error: OSError) -> StoreError:
        return StoreError(f"conversation store: {self._path}: {error.strerror}")

    def _lost(self, error: sqlite3.Error | None = None) -> IndexLost:
        """Stop using the file. Remove it if it is ours and was cut short; another process may have put a new one in its place."""
        cut = self._file is not None and self._file.stands_there
        self._let_go()
        if cut:
            self._remove()
        what = f"conversation store: {self._path} was damaged or removed" if error is None else explain(error, str(self._path))
        return IndexLost(f"{what}; search again, and it is made anew")

    def _let_go(self) -> None:
        for each in (self._file, self._log):
            if each is not None:
                each.close()
        self._file = self._log = None

    def _explain(self, error: sqlite3.Error) -> StoreError:
        if "fts5" in str(error) and "no such module" in str(error):
            return StoreError("conversation store: search needs SQLite with FTS5, and that of this Python has none")
        if _is_damaged(error):
            return self._lost(error)
        return explain(error, str(self._path))


def _is_damaged(error: sqlite3.Error) -> bool:
    """Whether the file is damaged, or so odd that it should be rebuilt, for example because somebody has emptied it."""
    name = getattr(error, "sqlite_errorname", "")
    return name.startswith(_DAMAGES) or (name == "SQLITE_ERROR" and "no such table" in str(error))


def _bring_up(file: IndexFile, log: LogReader, conversation: int, standing: Standing | None, room: int) -> tuple[Done | None, int]:
    """Returns None if more steps are needed, and how many characters this one took."""
    known = file.indexed(conversation)
    if standing is None or not _goes_on(log, conversation, known):
        if file.forget(conversation):
            return None, 0
        known = Indexed()
    return (Done(conversation), 0) if standing is None else _add(file, log, conversation, standing, known, room)


def _goes_on(log: LogReader, conversation: int, known: Indexed) -> bool:
    """Whether the log still has what was indexed: a store may have been replaced by an older one."""
    return known.upto == 0 or log.digest_of(conversation, known.upto) == known.digest


def _add(
    file: IndexFile, log: LogReader, conversation: int, standing: Standing, known: Indexed, room: int
) -> tuple[Done | None, int]:
    texts: list[Text] = []
    used = 0
    folder, upto, digest = known.folder, known.upto, known.digest
    while used < room and (some := list(log.records(conversation, upto))):
        for read in some:
            upto, digest = read.seq, read.digest
            used += 1
            if read.record is not None:
                folder = folder_of(read.record) or folder
                if (found := text_of(read.record)) is not None:
                    role, text = found[0], shortened(found[1])
                    texts.append(Text(read.seq, read.at, role, text, folder))
                    used += len(text)
            if used >= room:
                break
    file.add(conversation, standing.owner, texts)
    file.note(conversation, Indexed(upto, digest, folder))
    return (Done(conversation, standing) if used < room else None), used


def _page(places: Iterator[Place], log: LogReader, wanted: Wanted, question: Question, mask: Mask) -> Found:
    """A page is also limited by how many texts were looked at: if a filter matches few of them, the next page continues."""
    hits: list[Hit] = []
    last: Place | None = None
    for looked_at, place in enumerate(places):
        if last is not None and (len(hits) >= wanted.limit or looked_at >= MOST_LOOKED_AT):
            return Found(tuple(hits), write_cursor(last.place))
        last = place
        hit = _hit(place, log, wanted, question, mask)
        if hit is not None:
            hits.append(hit)
    return Found(tuple(hits), None)


def _hit(place: Place, log: LogReader, wanted: Wanted, question: Question, mask: Mask) -> Hit | None:
    """The shown text and the owner are read from the log; the index only says where to look."""
    standing = log.standing(place.conversation)
    if standing is None or (wanted.owner is not None and standing.owner != wanted.owner):
        return None
    read = log.record(place.conversation, place.seq)
    found = None if read is None or read.record is None else text_of(read.record)
    if read is None or found is None:
        return None
    around = surroundings_of(shortened(found[1]), question)
    return Hit(standing.conversation_id, read.seq, read.at, found[0], snippet_of(mask(around), question), standing.owner)
