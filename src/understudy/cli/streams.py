"""Standard input, output and error as commands find them: perhaps closed, perhaps unable to write every character."""

import codecs
import logging
import os
import select
import sys
from typing import TextIO

from understudy.servers.process.log_lines import PlainLines

_PLAIN = {
    "…": "...",
    "→": "->",
    "←": "<-",
    "❯": ">",
    "●": "*",
    "○": "o",
    "│": "|",
    "└": "`-",
    "├": "|-",
    "±": "+-",
    "⚙": "#",
    "≡": "=",
    "✓": "+",
    "✗": "x",
    "·": "-",
    "☑": "[x]",
    "▸": "[>]",
    "☐": "[ ]",
    "×": "x",
    "“": '"',
    "”": '"',
    "—": "-",
}
_INTERRUPTED = '{"type":"error","message":"interrupted"}\n{"type":"turn.failed","error":{"message":"interrupted"}}\n'


def prepare_streams() -> None:
    """Open closed streams onto nothing, and make characters that the encoding lacks harmless."""
    codecs.register_error("understudy.plain", _spell_out)
    for descriptor, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:  # otherwise the next file that is opened, for example the store, would get its number
            _open_nothing(descriptor, flags)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (these stay open)
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        _never_fail(stream)
    if logging.lastResort is not None:  # for commands that do not care where warnings go
        logging.lastResort.setFormatter(PlainLines())


def silence(descriptor: int) -> None:
    """Nothing more can be written there, so drop what Python still holds for it."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)


def write_interrupted() -> None:
    """Tell a program that reads events that `exec` was interrupted before a turn began."""
    sys.stdout.write(_INTERRUPTED)
    sys.stdout.flush()


def is_unread(descriptor: int) -> bool:
    """Whether it is a pipe that nobody has open for reading."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return bool(poll.poll(0))


def _open_nothing(descriptor: int, flags: int) -> None:
    null = os.open(os.devnull, flags)
    if null != descriptor:
        os.dup2(null, descriptor)
        os.close(null)


def _never_fail(stream: TextIO) -> None:
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="understudy.plain")


def _spell_out(error: UnicodeError) -> tuple[str, int]:
    """Our own symbols have a plain form; any other character is written as its number."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(_PLAIN.get(character) or rf"\u{{{ord(character):x}}}" for character in missing), error.end
