"""How a command ends before its time: by Ctrl-C, or by a signal of whoever runs it."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130  # as a shell tells Ctrl-C


class Ended(SystemExit):
    """Told to end by a signal; what was begun is cleared away on the way out."""


@contextmanager
def ending_tidily() -> Generator[None]:
    """SIGTERM and SIGHUP end the program by way of its clean-up, as Ctrl-C does anyway."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise Ended(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
