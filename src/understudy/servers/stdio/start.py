"""The start of servers on standard input and output: handles closed streams, and signals before the event loop listens for them.

`understudy mcp-server` answers `initialize` first, and loads everything else after that.
"""

import os
import signal

from understudy.servers.mcp.handshake import answer_early

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


def serve(cli: "Sequence[tuple[str, Any]]" = ()) -> int:
    """An MCP server on standard input and output, until the input ends or a signal comes. Returns the exit code."""
    try:
        end_quietly_on_signals()
        closed = missing_stream()
        if closed is not None:
            return refuse(f"standard {closed} is closed, but an MCP client talks to this server through it")
        return _serve(cli)
    except (KeyboardInterrupt, Ended):
        return 0


def _serve(cli: "Sequence[tuple[str, Any]]") -> int:
    try:
        early = answer_early()
    except BrokenPipeError:
        return 0
    except OSError as error:
        return refuse(f"standard input or output failed: {error.strerror}")
    if early.said_nothing:
        return 0
    from understudy.servers.process.process import hide_memory

    hide_memory()
    import gc

    gc.disable()  # `main` has done it before, and the server enables it; without these settings the first result takes 9 % longer
    from understudy.servers.mcp.stdio import run

    gc.freeze()
    gc.set_threshold(10_000, 5, 5)  # the garbage of a turn is mostly freed without a collection
    return run(early, cli)


class Ended(BaseException):
    """A signal asked us to end before the event loop could listen for it."""


def end_quietly_on_signals() -> None:
    """For the time until the event loop listens: a client may end us while we are still being loaded."""

    def end(number: int, frame: object) -> None:
        raise Ended

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)


def missing_stream() -> str | None:
    """Which of standard input and output is closed: the next opened file would be mistaken for it."""
    for fd, name in enumerate(("input", "output", "error")):
        try:
            os.fstat(fd)
        except OSError:
            if name != "error":
                return name
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, so that messages go nowhere
    return None


def refuse(reason: str) -> int:
    os.write(2, f"understudy: {reason}\n".encode())
    return 1


WAITING = "understudy: waiting for a program's messages on standard input; Ctrl-D ends it. {page} says which programs start this\n"


def start(serve: "Callable[[], int]", page: str = "app-server.md") -> int:
    """The exit code of `serve`, which is loaded and run here."""
    try:
        end_quietly_on_signals()
        closed = missing_stream()
        if closed is not None:
            return refuse(f"standard {closed} is closed, but a program talks to this server through it")
        if os.isatty(0):
            from understudy.config.home import page_path

            os.write(2, WAITING.format(page=page_path(page)).encode())  # a person started it
        return serve()
    except (KeyboardInterrupt, Ended):
        return 0
