"""What the server and the helper tell the process above a command.

Orders come over descriptors that the command does not have, never by signals, which a command could send or forge.
"""

import os
import select

TERM = b"T"  # ask everything to stop; the server sends END later
BEGIN = b"B"  # a held command may begin
END = b"E"  # end everything now; closing the socket means the same
ORPHANED = b"O"  # the helper is gone

READABLE, CHANGED = select.POLLIN, select.POLLPRI


class Orders:
    def __init__(self, status: int, alive: int, recall: int) -> None:
        """`status`: the socket to the server; `alive`, `recall`: become readable when the helper is gone, or wants us to end."""
        self._status = status
        self._alive = alive
        self._recall = recall
        self.ready: list[int] = []  # after each wait: the descriptors that are ready
        self._poll = select.poll()
        for descriptor in (status, alive, recall):
            self._poll.register(descriptor, select.POLLIN)

    def also(self, descriptor: int, event: int = READABLE) -> None:
        """Also wake up for this descriptor."""
        self._poll.register(descriptor, event)

    def without(self, descriptor: int) -> None:
        self._poll.unregister(descriptor)

    def wait(self, seconds: "float | None") -> "bytes | None":
        """The order that comes within this time, or None. May return sooner."""
        waited = self._poll.poll(None if seconds is None else max(0.0, seconds * 1000))
        self.ready = ready = [descriptor for descriptor, _ in waited]
        if self._recall in ready:
            return END
        if self._status in ready:
            return _read_order(self._status)
        return ORPHANED if self._alive in ready else None


def _read_order(status: int) -> bytes:
    try:
        orders = os.read(status, 64)
    except OSError:
        orders = b""
    if not orders or END in orders:
        return END
    return TERM if TERM in orders else BEGIN
