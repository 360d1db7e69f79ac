"""Log lines for people: what others wrote in them (names of folders, words of other programs) is text, whatever shows it."""

import logging
from types import TracebackType

_Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class PlainLines(logging.Formatter):
    """A terminal obeys nothing in them. What goes on in a further line is indented, so that it cannot pass for a line of ours."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        if not record.message.isprintable():
            from understudy.text import make_visible  # few lines need it

            record.message = _indented(make_visible(record.message, keep_newlines=True))
        return super().formatMessage(record)

    def formatException(self, ei: "_Raised") -> str:  # noqa: N802
        from understudy.text import strip_terminal_escapes

        return _indented(strip_terminal_escapes(super().formatException(ei)))


def log_warnings() -> None:
    """Of a command that a person has called, on standard error, unless they are written somewhere already."""
    handler = logging.StreamHandler()
    handler.setFormatter(PlainLines("understudy: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")
