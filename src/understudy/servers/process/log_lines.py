"""The log of a server or command: its lines, and the stream they go to.

Others' words in a line (names of folders, words of other programs) stay plain text, whatever shows it. A program that starts a
server may never read the log, and a full pipe would stop the event loop; so what does not fit is left out.
"""

import logging
import os
import select
from types import TracebackType

_Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class PlainLines(logging.Formatter):
    """A terminal obeys nothing in these lines. Further lines of a message are indented, so that they cannot pass for
    lines of ours.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        if not record.message.isprintable():
            from understudy.text import make_visible  # few lines need it

            record.message = _indented(make_visible(record.message, keep_newlines=True))
        return super().formatMessage(record)

    def formatException(self, ei: "_Raised") -> str:  # noqa: N802
        from understudy.text import strip_terminal_escapes

        return _indented(strip_terminal_escapes(super().formatException(ei)))


def log_warnings() -> None:
    """Log a command's warnings on standard error, unless they are already written somewhere."""
    handler = logging.StreamHandler()
    handler.setFormatter(PlainLines("understudy: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


logger = logging.getLogger(__name__)


class LogStream:
    """Leaves out what does not fit, and later says how many lines that were."""

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
        for start in range(0, len(data), select.PIPE_BUF):  # the size that surely fits
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
