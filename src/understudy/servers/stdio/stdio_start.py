"""Starting a server on standard input and output: streams that are closed, and signals that come before it listens for them."""

import os

from understudy.config.home import page_path
from understudy.servers.stdio.start import Ended, end_quietly_on_signals, missing_stream, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

WAITING = "understudy: waiting for a program's messages on standard input; Ctrl-D ends it. {page} says which programs start this\n"


def start(serve: "Callable[[], int]", page: str = "app-server.md") -> int:
    """The exit code of `serve`, which is loaded and run here."""
    try:
        end_quietly_on_signals()
        closed = missing_stream()
        if closed is not None:
            return refuse(f"standard {closed} is closed, but a program talks to this server through it")
        if os.isatty(0):
            os.write(2, WAITING.format(page=page_path(page)).encode())  # a person started it
        return serve()
    except (KeyboardInterrupt, Ended):
        return 0
