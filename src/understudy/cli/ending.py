"""How a command ends early: by Ctrl-C, or by a signal.

Also explains errors of the system that can happen to any command.
"""

import os
import signal
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from types import FrameType

from understudy.protocol.encodable import is_unicode, visible

FOLDER_GONE = "the folder that this was started in is gone: change to one that is there"


def explain(error: OSError | UnicodeEncodeError, words: Sequence[str]) -> str:
    """`words`: the command line."""
    if isinstance(error, UnicodeEncodeError):  # bytes that are not valid UTF-8, in a text to send or store
        odd = next((word for word in words if not is_unicode(word)), None)
        what = "a variable, or the name of a file or folder," if odd is None else f"the argument `{visible(odd[:200])}`"
        return f"{what} is not valid UTF-8: check how the terminal or the program that starts us encodes it"
    if error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, FileNotFoundError) and _folder_is_gone():
        return FOLDER_GONE
    return error.strerror or str(error)


def _folder_is_gone() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


INTERRUPTED = 130  # as shells report Ctrl-C


class Ended(SystemExit):
    """Ended by a signal, after cleaning up."""


@contextmanager
def ending_tidily() -> Generator[None]:
    """Makes SIGTERM and SIGHUP end the program with its clean-up, as Ctrl-C does anyway."""
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
