"""The one thread that writes; it commits all waiting jobs together."""

import asyncio
import errno
import logging
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

import msgspec

from understudy.errors import Fenced, StoreError, UnknownConversation, takes_no_more_files, what_is_lacking
from understudy.protocol.encodable import visible
from understudy.protocol.ids import ConversationId
from understudy.store.log import Committed
from understudy.store.sqlite.wal import extend_wal
from understudy.store.sqlite.writing import Row, is_fenced, is_gone, write

logger = logging.getLogger(__name__)

MOST_IN_ONE_COMMIT = 512
ENOUGH_FOR_A_COMMIT = 8  # so many are handed over before a long step ends: with 50 sessions, 5 to 10 % more replies a second
QUIET_SECONDS = 0.1
SMALLEST_ROOM = 64 * 1024  # bytes: with less, SQLite cannot create its files


class Job(msgspec.Struct, frozen=True):
    conversation_id: ConversationId
    rows: Callable[[], list[Row]]
    done: Committed | None


class Writer:
    """Owns the writing connection, which is prepared for `writing`, and calls `close_connection` when it is done.

    `deliver` brings outcomes back to the event loop; it is called from this thread.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        deliver: Callable[[list[tuple[Committed, BaseException | None]]], None],
        path: str,
        ring: Callable[[], None],
        looks: tuple[Callable[[], StoreError | None], Callable[[], StoreError | None]],
        not_written: Callable[[], None],
        close_connection: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._close_connection = close_connection
        self.timed: Callable[[float], None] | None = None  # called with the seconds that each commit took
        self.give_way: threading.Event | None = None  # set when something waits to be written, for whoever holds the write lock
        self._was_asked = False  # many processes only read, and never ask it to write
        self._wal_is_short = True
        self._ended = False
        self._at_work: list[Job] = []  # taken, but not answered
        self._deliver = deliver
        self._path = path
        self._ring = ring
        self._find_gone, self._check_commit = looks  # called before and after a commit: reasons not to make it, or not to report it
        self._not_written = not_written
        self._jobs: queue.SimpleQueue[Sequence[Job] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="understudy-store", daemon=True)
        self._thread.start()

    def submit(self, jobs: Sequence[Job]) -> None:
        """The jobs are committed together."""
        self._jobs.put(jobs)
        if (give_way := self.give_way) is not None:
            give_way.set()
        if self._ended:
            self._refuse_the_rest()

    def close(self, timeout: float) -> bool:
        """Write what is queued, then stop. False if the disk did not keep up within `timeout`."""
        self._jobs.put(None)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _work(self) -> None:
        try:
            self._serve()
        except BaseException:  # should not happen; but nobody must wait for a thread that is gone
            logger.critical("the thread that writes to %s has died; restart the server", self._path, exc_info=True)
        finally:
            with suppress(sqlite3.Error, OSError):
                self._close_connection()
            self._ended = True
            self._jobs.put(self._at_work)
            self._refuse_the_rest()

    def _serve(self) -> None:
        """Work until closed. If a group of jobs fails, its callers get the error, and the next group is taken."""
        closing = False
        while not closing:
            group = self._at_work = []
            try:
                closing = self._gather(group)
                outcomes = self._commit(group) if group else []
            except Exception as error:  # a bug, or no memory
                logger.exception("bug in writing to %s", self._path)
                outcomes = [_unexpected(error)] * len(group)
            self._answer(group, outcomes)
            self._at_work = []

    def _refuse_the_rest(self) -> None:
        """Refuse what was queued after the end. Called by this thread and by later callers; each job is taken once."""
        reason = StoreError(f"conversation store: {self._path} is not written to any more; restart the server")
        with suppress(queue.Empty):
            while True:
                jobs = self._jobs.get_nowait()
                if jobs:
                    self._answer(jobs, [reason] * len(jobs))

    def _gather(self, group: list[Job]) -> bool:
        """Collect the waiting jobs into `group`. True if there will be no more."""
        jobs = self._next()
        while jobs is not None:
            group += jobs
            if len(group) >= MOST_IN_ONE_COMMIT or self._jobs.empty():
                return False
            jobs = self._jobs.get()
        return True

    def _answer(self, group: Sequence[Job], outcomes: Sequence[BaseException | None]) -> None:
        answers = [(job.done, error) for job, error in zip(group, outcomes, strict=True) if job.done is not None]
        if answers:
            self._deliver(answers)

    def _next(self) -> Sequence[Job] | None:
        """Wait for work. After a moment without any, make the next commits cheaper."""
        while self._was_asked and self._wal_is_short:
            try:
                return self._jobs.get(timeout=QUIET_SECONDS)
            except queue.Empty:
                self._extend_wal()
        return self._jobs.get()

    def _extend_wal(self) -> None:
        try:
            while self._wal_is_short and self._jobs.empty():
                self._wal_is_short = self._find_gone() is None and extend_wal(self._connection, self._path)
        except Exception as error:
            logger.info("the write-ahead log of %s was not extended: %s", self._path, error)
            self._wal_is_short = False

    def _commit(self, group: list[Job]) -> list[BaseException | None]:
        """Commit all together, or one by one if that fails: one bad job must not spoil the others."""
        try:
            self._was_asked = True
            if (gone := self._find_gone()) is not None:
                self._not_written()
                return [gone] * len(group)
            rows = [row for job in group for row in job.rows()]
            self._ring()  # ring before the commit in case we crash in it, and after it for those who look meanwhile
            began = 0.0 if self.timed is None else time.perf_counter()
            write(self._connection, rows)
            if self.timed is not None:
                self.timed(time.perf_counter() - began)
            self._ring()
            gone = self._check_commit()
        except Exception as error:
            self._not_written()
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if (gone := self._find_gone()) is not None:  # whatever error SQLite gave for that
                return [gone] * len(group)
            if len(group) > 1 and not self._is_locked(error):
                return [outcome for job in group for outcome in self._commit([job])]
            if is_fenced(error):
                return [Fenced(f"conversation {group[0].conversation_id} has been taken over by another process")]
            if is_gone(error):
                return [UnknownConversation(f"no conversation {group[0].conversation_id}")]
            if not isinstance(error, sqlite3.Error):
                logger.error("a write to %s failed", self._path, exc_info=error)
                return [_unexpected(error)] * len(group)
            logger.error("a write to %s failed: %s", self._path, error)
            return [explain(error, self._path)] * len(group)
        return [gone] * len(group)

    @staticmethod
    def _is_locked(error: Exception) -> bool:
        """Locked by another program, for which we have waited already: do not wait again for each job."""
        return getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


J = TypeVar("J")
JobT = TypeVar("JobT", contravariant=True)


class TakesJobs(Protocol[JobT]):
    def submit(self, jobs: Sequence[JobT]) -> None: ...

    def close(self, timeout: float) -> bool: ...


class Handover(Generic[J]):
    """Collects the jobs of one step of the event loop, and hands them to the writer at its end, or once they are enough for a
    commit.

    A thread that wakes while the loop works competes with it for the interpreter's lock. That took a tenth of the processor time of
    a reply with 50 busy sessions, and two thirds of the wake-ups of a single one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None, writer: TakesJobs[J]) -> None:
        """Without a loop, jobs are handed over at once."""
        self._loop = loop
        self._writer = writer
        self._jobs: list[J] = []

    def add(self, job: J) -> None:
        self._jobs.append(job)
        number = len(self._jobs)
        if self._loop is None or number == ENOUGH_FOR_A_COMMIT:
            self._hand_over()
        elif number == 1:
            self._loop.call_soon(self._hand_over)

    def finish(self, timeout: float) -> bool:
        """Write what is queued, and accept no more. False if the disk did not keep up."""
        self._loop = None
        self._hand_over()
        return self._writer.close(timeout)

    def _hand_over(self) -> None:
        jobs, self._jobs = self._jobs, []
        if jobs:
            self._writer.submit(jobs)


def _unexpected(error: BaseException) -> StoreError:
    """An error that is not SQLite's: a value that cannot be written, no memory, or a bug of ours."""
    return StoreError(f"conversation store: this could not be written ({type(error).__name__}: {visible(str(error))})")


def _full(path: str) -> str:
    if takes_no_more_files(os.path.dirname(path)):
        return f"the disk that holds {path} can hold no more files, though it may have space (`df -i`); delete some and try again"
    return f"the disk that holds {path} is full; free some space and try again"


def _find_lack(path: str) -> str | None:
    """Find out which resource SQLite lacks, when it says only that something failed."""
    try:
        os.close(os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC))
        disk = os.statvfs(os.path.dirname(path))
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return f"{path} cannot be used: {what_is_lacking(error)}"
        return None
    return _full(path) if takes_no_more_files(os.path.dirname(path)) or disk.f_bavail * disk.f_frsize < SMALLEST_ROOM else None


def explain(error: sqlite3.Error, path: str) -> StoreError:
    """Explain a failure of SQLite: what is wrong and what to do."""
    text = str(error)
    match getattr(error, "sqlite_errorname", ""):
        case "SQLITE_FULL":
            reason = _full(path)
        case name if name.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN")) and (lack := _find_lack(path)) is not None:
            reason = lack
        case name if name.startswith("SQLITE_READONLY"):
            reason = f"{path} cannot be written to (read-only); check the disk and the file's permissions"
        case name if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            reason = f"{path} is locked by another program; close what holds it and try again"
        case name if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            reason = f"{path} is damaged ({text}); `understudy doctor` checks it, and a backup can be put in its place"
        case name if name.startswith("SQLITE_CANTOPEN"):
            reason = f"{path} cannot be opened; check the folder's permissions, and how many files may be open (`ulimit -n`)"
        case name if name.startswith("SQLITE_IOERR"):
            reason = f"the disk that holds {path} reports an error ({text})"
        case _:
            reason = f"{path}: {text}"
    return StoreError(f"conversation store: {reason}")


def explain_system(error: OSError, path: str) -> StoreError:
    """The same for a failure of the system, in a file beside it."""
    full = _full(path) if error.errno == errno.ENOSPC else None
    return StoreError(f"conversation store: {full or f'{path}: {what_is_lacking(error) or error.strerror}'}")
