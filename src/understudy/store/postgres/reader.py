"""The thread that reads: runs queries in order on one connection, which also receives hints and renews the lease."""

import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.sql import SQL, Identifier

from understudy.errors import StoreError, Unavailable
from understudy.store.postgres.claims import PostgresClaim
from understudy.store.postgres.connecting import AWAY, connect, cut, explain
from understudy.store.postgres.incarnation import Incarnation
from understudy.store.postgres.tables import check_version

logger = logging.getLogger(__name__)

RENEWALS = 5  # per lease
AGAIN_SECONDS = 0.2
LEFT = "left"  # the first word of a hint that there is work for this host
WITHOUT_WORK_SECONDS = 60.0

Rows = Sequence[tuple[Any, ...]]


class Question:
    """A query. Answered once, on the reader's thread, with rows or an error."""

    def __init__(self, query: str, values: Sequence[Any], answered: Callable[[Rows | StoreError], None]) -> None:
        self.query = query
        self.values = values
        self.answered = answered
        self.since = time.monotonic()


class Reader:
    """Calls these on its thread: `hinted` with the ids of conversations that others may have changed (None: perhaps any) and
    whether there may be new work for this host; `lease_ended`; `ticked` with the database's time whenever it was read; `renewed`
    with the claims that `claims_there` gave before the lease was renewed, and the numbers of those that the database has.
    """

    def __init__(
        self,
        url: str,
        place: str,
        incarnation: Incarnation,
        hinted: Callable[[Sequence[str] | None, bool], None],
        lease_ended: Callable[[], None],
        ticked: Callable[[float], None],
        claims_there: Callable[[], Sequence[PostgresClaim]],
        renewed: Callable[[Sequence[PostgresClaim], Collection[int]], None],
        patience: float,
    ) -> None:
        self._url = url
        self._place = place
        self._incarnation = incarnation
        self._hinted = hinted
        self._lease_ended = lease_ended
        self._ticked = ticked
        self._claims_there = claims_there
        self._renewed = renewed
        self._patience = patience
        self._connection: Connection[Any] | None = None
        self._was_connected = False
        self._is_away = False  # we cannot reach the database, and have logged it
        self._wants_hints = self._listens = False
        self._questions: deque[Question] = deque()
        self._at_work_since: float | None = None  # None: it waits for work
        self._renew_at = 0.0
        self._ending = False
        self._wake_end, self._waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK) if hasattr(os, "pipe2") else _pipe()
        self._thread = threading.Thread(target=self._work, name="understudy-store-reader", daemon=True)
        self._thread.start()

    def ask(self, question: Question) -> None:
        self._questions.append(question)
        self.wake()
        if not self._thread.is_alive():
            self._refuse_the_rest()

    def listen(self) -> None:
        """Receive hints from now on."""
        if not self._wants_hints:
            self._wants_hints = True
            self.wake()

    def close(self, timeout: float) -> None:
        self._ending = True
        self.wake()
        if self._at_work_since is not None and (connection := self._connection) is not None:
            cut(connection)
        self._thread.join(timeout)

    def look(self) -> None:
        """Called by the event loop now and then: cuts the connection if the database has not answered for too long."""
        since, connection = self._at_work_since, self._connection
        if since is not None and connection is not None and time.monotonic() - since > self._patience:
            cut(connection)

    def wake(self) -> None:
        with suppress(OSError):  # a full pipe wakes the thread anyway; a closed one need not
            os.write(self._waker, b"!")

    # -- the thread

    def _work(self) -> None:
        try:
            while not self._ending:
                try:
                    self._serve()
                except (*AWAY, StoreError) as error:
                    self._lose(error)
        except BaseException:  # should not happen; but nobody must wait for a thread that is gone
            logger.critical("the thread that reads from %s has died; restart the server", self._place, exc_info=True)
        finally:
            self._disconnect()
            self._ending = True
            self._refuse_the_rest()
            os.close(self._wake_end)
            waker, self._waker = self._waker, -1
            os.close(waker)

    def _serve(self) -> None:
        """Work until the connection is lost. Raises one of `AWAY`."""
        if not (self._questions or self._wants_hints or self._incarnation.is_registered):
            self._sleep(None)
            return
        self._at_work_since = time.monotonic()
        connection = self._connected()
        while not self._ending:
            self._at_work_since = time.monotonic()
            if self._wants_hints and not self._listens:
                self._begin_to_listen(connection)
            now = time.monotonic()
            if now >= self._renew_at:
                self._renew(connection)
            while self._questions and not self._ending:
                self._answer(connection, self._questions.popleft())
                if time.monotonic() >= self._renew_at:
                    break
            if not self._questions:
                self._sleep(connection)

    def _sleep(self, connection: Connection[Any] | None) -> None:
        """Sleep until there is a query or a hint."""
        timeout = max(0.0, self._renew_at - time.monotonic()) if connection is not None else WITHOUT_WORK_SECONDS
        watched = select.poll()  # unlike `select`, it works with descriptors above 1024
        watched.register(self._wake_end, select.POLLIN)
        if connection is not None:
            watched.register(connection.fileno(), select.POLLIN)
        self._at_work_since = None
        for ready, _ in watched.poll(timeout * 1000):
            if ready == self._wake_end:
                with suppress(BlockingIOError):
                    os.read(self._wake_end, 4096)
            elif connection is not None:
                self._hear(connection)

    def _connected(self) -> Connection[Any]:
        connection = self._connection
        if connection is None or connection.closed:
            connection = connect(self._url, "read", made=self._keep)
            connection.add_notify_handler(lambda notice: self._take(notice.payload))
            self._listens = False
            if not self._was_connected:
                try:
                    check_version(connection, self._place)
                except psycopg.Error as error:
                    raise explain(error, self._place) from error
            self._was_connected, self._is_away = True, False
            self._renew_at = 0.0
        return connection

    def _keep(self, connection: Connection[Any]) -> None:
        self._connection = connection

    def _begin_to_listen(self, connection: Connection[Any]) -> None:
        self._incarnation.register(connection)
        found = connection.execute("SELECT u_channel(%s)", (self._incarnation.host,)).fetchone()
        assert found is not None
        connection.execute(SQL("LISTEN {}").format(Identifier(found[0])))
        self._listens = True
        self._hinted(None, True)  # hints may have been missed while we did not listen

    def _renew(self, connection: Connection[Any]) -> None:
        self._renew_at = time.monotonic() + self._incarnation.lease_seconds / RENEWALS
        before = self._claims_there()
        if not self._incarnation.renew(connection):
            logger.error("the lease of this process at %s has ended", self._place)
            self._lease_ended()
        if (self._wants_hints and not self._incarnation.is_registered) or self._incarnation.is_over:
            self._incarnation.register(connection)  # only if hints are wanted
        found = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        if found is not None:
            self._ticked(found[0])
        if before:
            mine = connection.execute("SELECT conversation FROM claims WHERE worker = %s", (self._incarnation.worker,))
            self._renewed(before, {row[0] for row in mine})

    def _hear(self, connection: Connection[Any]) -> None:
        connection.pgconn.consume_input()
        while (notice := connection.pgconn.notifies()) is not None:
            self._take(notice.extra.decode())

    def _take(self, payload: str) -> None:
        worker, *names = payload.split(" ")
        if worker != str(self._incarnation.worker):
            self._hinted(names, worker == LEFT)

    def _answer(self, connection: Connection[Any], question: Question) -> None:
        self._at_work_since = time.monotonic()
        try:
            rows = connection.execute(question.query.encode(), question.values, binary=True).fetchall()
        except psycopg.Error as error:
            if connection.closed or connection.broken:
                self._questions.appendleft(question)
                raise psycopg.OperationalError(str(error)) from error
            question.answered(explain(error, self._place))
        else:
            question.answered(rows)

    def _lose(self, error: Exception) -> None:
        """The connection was lost or cannot be opened. Fails the queries that have waited for too long."""
        self._disconnect()
        self._at_work_since = None
        if self._ending:
            return
        first = not self._was_connected
        now = time.monotonic()
        for _ in range(len(self._questions)):
            question = self._questions.popleft()
            if first or now - question.since > self._patience:
                question.answered(explain(error, self._place))
            else:
                self._questions.append(question)
        if first and not self._questions:
            self._wants_hints = False  # until somebody listens again
            return
        if not self._is_away:
            self._is_away = True
            logger.warning("%s", explain(error, self._place))
        time.sleep(AGAIN_SECONDS)

    def _refuse_the_rest(self) -> None:
        reason = Unavailable(f"conversation store: {self._place} is not read any more")
        with suppress(IndexError):
            while True:
                self._questions.popleft().answered(reason)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self._listens = False
        if connection is not None:
            with suppress(Exception):
                connection.close()


def _pipe() -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return ends
