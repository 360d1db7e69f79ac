"""A server as a process: its event loop, its log on standard error, and its end by a signal. Every transport runs in this.

Other programs of the same user cannot read this process: its environment and memory hold keys.
"""

import asyncio
import logging
import os
import signal
import stat
import sys
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, TextIO

from understudy import __version__
from understudy.servers.process.log_lines import LogStream, PlainLines  # at the top: they are needed if no file can be opened

_PR_SET_DUMPABLE = 4


def hide_memory() -> None:
    """From here on only root can read our environment, memory or descriptors, or trace us; no core is written."""
    if sys.platform != "linux":
        return
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    except (ImportError, AttributeError, OSError):
        pass  # an interpreter without this works otherwise


logger = logging.getLogger(__name__)

LOG_LEVELS = ("debug", "info", "warning", "error")

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Ending:
    """The request to end with this exit code, by a signal or because the client is gone. The first reason counts."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._code: asyncio.Future[int] = loop.create_future()
        self._open: list[Callable[[], None]] = []

    def end(self, code: int = 0) -> None:
        if not self._code.done():
            self._code.set_result(code)

    async def wait(self) -> int:
        return await self._code

    def at_last(self, close: Callable[[], None]) -> None:
        """Call `close` when everything is over. uvloop warns of a transport that is still open when the loop closes; if the
        environment turns warnings into errors, it waits for that transport for ever.
        """
        self._open.append(close)

    def close(self) -> None:
        for close in self._open:
            close()


def run_server(what: str, serve: Callable[[Ending], Coroutine[Any, Any, int]], log_format: str = "") -> int:
    """Run `serve`, which must end soon after `Ending` says so. Returns the exit code."""
    log_to_stderr(log_format=log_format)
    logger.info("understudy %s serves %s, process %d", __version__, what, os.getpid())
    with asyncio.Runner(loop_factory=new_loop) as runner:
        ending = _ended_by_signals(runner.get_loop())
        try:
            code = runner.run(serve(ending))
        finally:
            ending.close()
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)  # we are leaving already
    return code


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop, if it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def log_to_stderr(default: str = "warning", log_format: str = "") -> None:
    """`log_format`: the configured one; without it, the environment's applies."""
    level = os.environ.get("UNDERSTUDY_LOG") or default
    known = level.lower() in LOG_LEVELS
    handler = logging.StreamHandler(_log_stream())
    handler.setFormatter(PlainLines("understudy: %(levelname)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=level.upper() if known else "WARNING")
    if (log_format or os.environ.get("UNDERSTUDY_LOG_FORMAT")) == "json":
        from understudy.servers.process.request_scope import JsonLines  # few servers write them

        logging.getLogger().handlers[0].setFormatter(JsonLines())
    if not known:
        logger.warning("UNDERSTUDY_LOG is %r; it can be %s", level, ", ".join(LOG_LEVELS))


def _log_stream() -> TextIO | LogStream:
    """Standard error itself if writing to it never blocks: a file, a terminal."""
    try:
        mode = os.fstat(2).st_mode
    except OSError:
        return sys.stderr
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return sys.stderr
    return LogStream(2)


def _ended_by_signals(loop: asyncio.AbstractEventLoop) -> Ending:
    """Called before the runner starts, which would install its own SIGINT handler; replacing that costs time."""
    ending = Ending(loop)
    call_on_signals(loop, _ENDING, lambda _: ending.end())
    return ending


def call_on_signals(loop: asyncio.AbstractEventLoop, numbers: Iterable[signal.Signals], act: Callable[[int], object]) -> None:
    """Call back on the event loop, which need not run yet.

    Not with `loop.add_signal_handler`: if a signal comes before uvloop runs, uvloop notes it and then ignores it.
    """

    def note(number: int, _: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: we are leaving already
            loop.call_soon_threadsafe(act, number)

    for number in numbers:
        signal.signal(number, note)
        signal.siginterrupt(number, False)
