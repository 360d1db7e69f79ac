"""One life of this process as the database knows it: an id, a lease that is renewed, and the claims under that lease.

A lease that has ended never comes back, because others may have taken what was claimed under it. The process goes on under a new
id.
"""

import os
import time
from collections.abc import Callable
from threading import Lock
from typing import Any
from uuid import UUID, uuid4

from psycopg import Connection

from understudy.store.postgres.processes import identity

KEPT = 0.85  # share of a lease without renewal after which we hold nothing: earlier than the database gives the claims away


class Incarnation:
    """Used by the reader's and writer's threads, and by the event loop, which never waits for them."""

    def __init__(self, lease_seconds: float, host: str) -> None:
        self.lease_seconds = lease_seconds
        self.host = host
        self.worker = uuid4()
        self.is_registered = False
        self.is_over = False  # nothing is held under this id any more; the next write gets a new id
        self.last_group = 0
        self.on_registered: Callable[[], None] | None = None  # called when there is a lease to renew
        self.on_renewed: Callable[[float], None] | None = None  # called with the time until which the lease is valid
        self._renewed = time.monotonic()
        self._lock = Lock()

    def register(self, connection: Connection[Any]) -> UUID:
        """The id under which this process may write; made known to the database if it was not yet."""
        if self.is_registered and not self.is_over:
            return self.worker
        with self._lock:
            if self.is_over:
                connection.execute("SELECT u_leave(%s)", (self.worker,))
                self.worker, self.is_registered, self.is_over = uuid4(), False, False
            if not self.is_registered:
                asked = time.monotonic()
                what = self.worker, self.host, identity(), os.getpid(), float(self.lease_seconds)
                connection.execute("SELECT u_register(%s, %s, %s, %s, %s)", what)
                self.is_registered, self.last_group, self._renewed = True, 0, asked
                if self.on_registered is not None:
                    self.on_registered()
                self._tell()
            return self.worker

    def renew(self, connection: Connection[Any]) -> bool:
        """False if the lease has ended."""
        if not self.is_registered or self.is_over:
            return True
        asked = time.monotonic()
        renewing = "UPDATE workers SET seen = clock_timestamp() WHERE id = %s AND seen + lease > clock_timestamp()"
        if not connection.execute(renewing, (self.worker,)).rowcount:
            return False
        self._renewed = asked
        self._tell()
        return True

    def _tell(self) -> None:
        if self.on_renewed is not None:
            self.on_renewed(self.holds_until)

    @property
    def holds_until(self) -> float:
        """By our monotonic clock, which neither the network nor a time server can change."""
        return self._renewed + KEPT * self.lease_seconds

    def end(self) -> None:
        self.is_over = True

    @property
    def has_ended(self) -> bool:
        return self.is_registered and not self.is_over and time.monotonic() > self.holds_until
