"""A log that goes into a pipe or a socket.

A program that starts a server may never read its log, and a full pipe would stop the event loop.
"""

import logging
import os
import select

logger = logging.getLogger(__name__)


class LogStream:
    """Leaves out what does not fit, and says later how many lines that were."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._lost = 0  # lines
        self._cut = False  # the last line was written in part

    def write(self, text: str) -> None:
        if not self._poll.poll(0):
            self._lost += 1
            return
        if self._lost:
            lost, self._lost = self._lost, 0
            logger.warning("%d lines of this log were left out, because nobody read it", lost)
        data = (b"\n" if self._cut else b"") + text.encode(errors="backslashreplace")
        for start in range(0, len(data), select.PIPE_BUF):  # as much as surely fits
            if not self._poll.poll(0):
                self._lost += 1
                return
            try:
                os.write(self._descriptor, data[start : start + select.PIPE_BUF])
            except OSError:  # nobody reads it any more
                return
            self._cut = start + select.PIPE_BUF < len(data)

    def flush(self) -> None:
        """Nothing is held back."""
