"""The thread that writes: all waiting jobs become one transaction, sent in one round trip.

A connection may be lost during a transaction, so that we never learn the outcome. So transactions are numbered, and each is valid
only after the one before it: sent again, it takes effect at most once, and the database's last number says whether it did.
"""

import logging
import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

import msgspec
import psycopg
from psycopg import Connection
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8

from understudy.errors import Fenced, StoreError, Unavailable, UnknownConversation
from understudy.protocol.ids import ConversationId
from understudy.store.log import Committed
from understudy.store.postgres import schema
from understudy.store.postgres.connecting import AWAY, connect, cut, explain
from understudy.store.postgres.incarnation import Incarnation
from understudy.store.postgres.writes import Call, number_of

logger = logging.getLogger(__name__)

MOST_IN_ONE_COMMIT = 512
MOST_NAMED = 150  # conversations per hint, which can have 8,000 bytes
AGAIN_SECONDS = 0.2  # between two attempts to reach the database
MOST_CLASHES = 3  # retries after deadlocks with other transactions; more would be a bug

_DEADLOCK = "40P01"

Row = tuple[Any, ...]
Answer = tuple[Committed, BaseException | None]


class Job(msgspec.Struct):
    conversation_id: ConversationId
    calls: Callable[[UUID], list[Call]]  # makes the calls for the worker whose transaction it is
    done: Committed | None
    answered: Callable[[Row, UUID], None] | None = None  # writer's thread, after the commit: the last call's row
    hints: bool = True  # tell other processes to look
    since: float = 0.0


class Writer:
    """`deliver` brings outcomes back to the event loop; it is called from this thread. `patience`: how many seconds a job waits for
    a database that cannot be reached.
    """

    def __init__(
        self,
        url: str,
        place: str,
        incarnation: Incarnation,
        deliver: Callable[[list[Answer]], None],
        not_written: Callable[[], None],
        lease_ended: Callable[[UUID], None],
        patience: float,
    ) -> None:
        self.timed: Callable[[float], None] | None = None  # called with the seconds that each commit took
        self._url = url
        self._place = place
        self._incarnation = incarnation
        self._deliver = deliver
        self._not_written = not_written
        self._lease_ended = lease_ended
        self._patience = patience
        self._connection: Connection[Any] | None = None
        self._was_connected = False
        self._closing_since: float | None = None
        self._ended = False
        self._at_work: list[Job] = []
        self._jobs: queue.SimpleQueue[Sequence[Job] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="understudy-store", daemon=True)
        self._thread.start()

    def submit(self, jobs: Sequence[Job]) -> None:
        now = time.monotonic()
        for job in jobs:
            job.since = now
        self._jobs.put(jobs)
        if self._ended:
            self._refuse_the_rest()

    def close(self, timeout: float) -> bool:
        """Write what is queued, then stop. False if the database did not keep up within `timeout`."""
        self._closing_since = self._closing_since or time.monotonic()
        self._jobs.put(None)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def look(self) -> None:
        """Called by the event loop now and then: cuts the connection if the database has not answered for too long."""
        at_work, connection = self._at_work, self._connection
        if at_work and connection is not None and time.monotonic() - at_work[0].since > self._patience:
            cut(connection)

    @property
    def connection(self) -> Connection[Any]:
        """The connection, for this thread. Raises one of `AWAY`."""
        if self._connection is None or self._connection.closed:
            connect(self._url, "write", prepares=False, made=self._keep)
            self._was_connected = True
        assert self._connection is not None
        return self._connection

    def _keep(self, connection: Connection[Any]) -> None:
        self._connection = connection

    # -- the thread

    def _work(self) -> None:
        try:
            closing = False
            while not closing:
                group = self._at_work = []
                closing = self._gather(group)
                if group:
                    self._answer(group, self._write(group))
                self._at_work = []
            self._leave()
        except BaseException:  # should not happen; but nobody must wait for a thread that is gone
            logger.critical("the thread that writes to %s has died; restart the server", self._place, exc_info=True)
        finally:
            self._disconnect()
            self._ended = True
            self._jobs.put(self._at_work)
            self._refuse_the_rest()

    def _gather(self, group: list[Job]) -> bool:
        """Collect the waiting jobs into `group`. True if there will be no more."""
        jobs = self._jobs.get()
        while jobs is not None:
            group += jobs
            if len(group) >= MOST_IN_ONE_COMMIT or self._jobs.empty():
                return False
            jobs = self._jobs.get()
        return True

    def _refuse_the_rest(self) -> None:
        reason = Unavailable(f"conversation store: {self._place} is not written to any more; restart the server")
        with suppress(queue.Empty):
            while True:
                jobs = self._jobs.get_nowait()
                if jobs:
                    self._answer(jobs, [reason] * len(jobs))

    def _answer(self, group: Sequence[Job], outcomes: Sequence[BaseException | None]) -> None:
        answers: list[Answer] = []
        for job, error in zip(group, outcomes, strict=True):
            if job.done is not None:
                answers.append((job.done, error))
            elif error is not None:
                logger.warning("of %s something was not written: %s", job.conversation_id, error)
        if answers:
            self._deliver(answers)

    def _write(self, group: list[Job]) -> list[BaseException | None]:
        """Write all together, or one by one if that fails: one bad job must not spoil the others."""
        try:
            began = time.perf_counter()
            self._commit_patiently(group)
            if self.timed is not None:
                self.timed(time.perf_counter() - began)
        except Exception as error:
            self._not_written()
            if len(group) > 1 and not isinstance(error, Unavailable) and getattr(error, "sqlstate", None) != schema.MOVED:
                return [outcome for job in group for outcome in self._write([job])]
            return [self._outcome(job, error) for job in group]
        return [None] * len(group)

    def _outcome(self, job: Job, error: Exception) -> StoreError | UnknownConversation:
        match getattr(error, "sqlstate", None):
            case schema.FENCED:
                return Fenced(f"conversation {job.conversation_id} has been taken over by another process")
            case schema.EXISTS:
                return StoreError(f"conversation {job.conversation_id} is there already")
            case schema.GONE:
                return UnknownConversation(f"no conversation {job.conversation_id}")
            case _:
                pass
        if not isinstance(error, psycopg.Error | StoreError | OSError):
            logger.error("a write to %s failed", self._place, exc_info=error)
        return explain(error, self._place)

    def _commit_patiently(self, group: list[Job]) -> None:
        """Raises the database's error about one of the jobs, or `Unavailable`."""
        mine, was_sent = _draw(), False
        until = group[0].since + self._patience
        leases = clashes = 0
        while True:
            try:
                connection = self.connection
                worker = self._incarnation.register(connection)
                calls = [job.calls(worker) for job in group]  # may run queries first
                was_sent = True
                rows = self._send(connection, group, calls, worker, mine)
            except psycopg.Error as error:
                if error.sqlstate == schema.OTHER_GROUP:
                    self._roll_back()
                    if self._find_last() == mine:  # the commit succeeded, but the answer was lost
                        self._redo_questions(group)
                        return
                    continue
                if error.sqlstate == schema.LEASE_ENDED and leases < 2:
                    leases += 1
                    self._roll_back()
                    self._lease_ended(self._incarnation.worker)
                    continue
                if error.sqlstate == _DEADLOCK and clashes < MOST_CLASHES:  # we were rolled back, so the other transaction went on
                    clashes += 1
                    self._not_written()
                    self._roll_back()
                    continue
                if not _is_away(error, self._connection):
                    self._roll_back()
                    raise
                self._wait(error, until, was_sent=was_sent)
            except OSError as error:
                self._wait(error, until, was_sent=was_sent)
            else:
                self._incarnation.last_group = mine
                for job, row in zip(group, rows, strict=True):
                    if job.answered is not None:
                        job.answered(row, worker)
                return

    def _wait(self, error: Exception, until: float, *, was_sent: bool) -> None:
        """Wait before the next attempt. Raises `Unavailable` if the jobs have waited for too long."""
        self._not_written()
        self._disconnect()
        closing = self._closing_since
        now = time.monotonic()
        if now >= until or not self._was_connected or (closing is not None and now - closing > 1.0):
            reason = explain(error, self._place)
            raise Unavailable(str(reason), "unknown" if was_sent else "not written") from error
        time.sleep(AGAIN_SECONDS)

    def _send(self, connection: Connection[Any], group: list[Job], calls: list[list[Call]], worker: UUID, mine: int) -> list[Row]:
        """Send all as one transaction. Returns the rows of each job's last call."""
        cursors: list[Any] = []
        numbers = {number_of(job.conversation_id) for job in group}
        names = dict.fromkeys(job.conversation_id for job in group if job.hints)
        with connection.pipeline():
            connection.execute("BEGIN")
            connection.execute("SELECT u_group(%s, %s, %s)", (worker, Int8(self._incarnation.last_group), Int8(mine)))
            if len(numbers) > 1:
                connection.execute("SELECT u_lock(%s)", ([Int8(number) for number in sorted(numbers)],))
            for of_job in calls:
                cursor: Any = None
                for query, values in of_job:
                    cursor = connection.execute(query.encode(), values, binary=True)
                cursors.append(cursor)
            some = list(names)
            for start in range(0, len(some), MOST_NAMED):
                connection.execute("SELECT u_tell(%s, %s)", (worker, " ".join(some[start : start + MOST_NAMED])))
            connection.execute("COMMIT")
        return [cursor.fetchone() for cursor in cursors]

    def _find_last(self) -> int | None:
        """The number of the last transaction; the next one continues from it."""
        found = self.connection.execute("SELECT last FROM groups WHERE worker = %s", (self._incarnation.worker,)).fetchone()
        if found is None:  # our row was deleted with the worker's
            self._lease_ended(self._incarnation.worker)
            return None
        self._incarnation.last_group = found[0]
        return found[0]

    def _redo_questions(self, group: list[Job]) -> None:
        """Queries of a transaction whose answer was lost are run again; they change nothing."""
        asked = [job for job in group if job.answered is not None]
        if asked:
            self._commit_patiently(asked)

    def _roll_back(self) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            if connection.info.transaction_status is not TransactionStatus.IDLE:
                connection.execute("ROLLBACK")
        except AWAY:
            self._disconnect()

    def _leave(self) -> None:
        """Give up what we hold, and tell others."""
        if not self._incarnation.is_registered or self._connection is None or self._connection.closed:
            return
        worker = self._incarnation.worker
        with suppress(*AWAY, psycopg.Error), self._connection.transaction():
            freed = self._connection.execute("SELECT u_leave(%s)", (worker,)).fetchone()
            names: list[str] = [] if freed is None else freed[0]
            for start in range(0, len(names), MOST_NAMED):
                self._connection.execute("SELECT u_tell(%s, %s)", (worker, " ".join(names[start : start + MOST_NAMED])))

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()


def _is_away(error: psycopg.Error, connection: Connection[Any] | None) -> bool:
    """Whether the connection failed, rather than a statement."""
    return isinstance(error, AWAY) and (connection is None or connection.closed or connection.broken or error.sqlstate is None)


def _draw() -> int:
    return random.getrandbits(62) + 1
