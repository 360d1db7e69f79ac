"""Bare `understudy` at a terminal: whoever types it is offered a chat."""

import os
import sys
from collections.abc import Callable

from understudy import __version__
from understudy.cli.terminal import one_line

TEXT = """\
understudy {version}: a coding agent. `understudy --help` lists its commands.
You are in {folder}
Start a chat here? [Y/n] """


def at_terminal() -> bool:
    return os.isatty(0) and os.isatty(1)


def offer_chat(chat: Callable[[], int]) -> int:
    """The exit code of the chat; 0 where it is not wanted."""
    sys.stdout.write(TEXT.format(version=__version__, folder=one_line(os.getcwd())))
    sys.stdout.flush()
    answer = sys.stdin.readline()
    if not answer:
        sys.stdout.write("\n")
        return 0
    return chat() if answer.strip().lower() in ("", "y", "yes") else 0
