"""A server as a process: its event loop, its log on standard error, and its end by a signal. Every transport runs in this."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from understudy import __version__

logger = logging.getLogger(__name__)

LOG_LEVELS = ("debug", "info", "warning", "error")

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Ending:
    """The server is to end, with this exit code: by a signal, or because its client is gone. The first reason counts."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._code: asyncio.Future[int] = loop.create_future()

    def end(self, code: int = 0) -> None:
        if not self._code.done():
            self._code.set_result(code)

    async def wait(self) -> int:
        return await self._code


def run_server(what: str, serve: Callable[[Ending], Coroutine[Any, Any, int]], log_format: str = "") -> int:
    """Run `serve`, which is to end soon after `Ending` says so. Returns the exit code."""
    log_to_stderr(log_format=log_format)
    logger.info("understudy %s serves %s, process %d", __version__, what, os.getpid())
    with asyncio.Runner(loop_factory=new_loop) as runner:
        ending = _ended_by_signals(runner.get_loop())
        code = runner.run(serve(ending))
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)  # we are leaving already
    return code


def new_loop() -> asyncio.AbstractEventLoop:
    """The faster one, where it is there."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def log_to_stderr(default: str = "warning", log_format: str = "") -> None:
    """`log_format` is of the configuration; without it, that of the environment holds."""
    level = os.environ.get("UNDERSTUDY_LOG") or default
    known = level.lower() in LOG_LEVELS
    logging.basicConfig(
        stream=sys.stderr, level=level.upper() if known else "WARNING", format="understudy: %(levelname)s: %(message)s"
    )
    if (log_format or os.environ.get("UNDERSTUDY_LOG_FORMAT")) == "json":
        from understudy.servers.json_log import JsonLines  # few servers write them

        logging.getLogger().handlers[0].setFormatter(JsonLines())
    if not known:
        logger.warning("UNDERSTUDY_LOG is %r; it can be %s", level, ", ".join(LOG_LEVELS))


def _ended_by_signals(loop: asyncio.AbstractEventLoop) -> Ending:
    """Before the runner starts: it would install its own SIGINT handler, which costs time to replace."""
    ending = Ending(loop)
    for number in _ENDING:
        loop.add_signal_handler(number, _end, ending)
    return ending


def _end(ending: Ending) -> None:  # a plain function: for a method the event loop would load `inspect`
    ending.end()
