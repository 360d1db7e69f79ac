"""The server on standard input and output: reads lines, ends cleanly on the end of input or a signal."""

import asyncio
import logging
import os
import signal
import stat
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from understudy import __version__
from understudy.engine.engine import Engine
from understudy.servers.lines import LineSplitter
from understudy.servers.mcp.first import Beginning
from understudy.servers.mcp.outbox import Outbox
from understudy.servers.mcp.server import McpServer

logger = logging.getLogger(__name__)

LAST_WORDS_SECONDS = 0.3
LOG_LEVELS = ("debug", "info", "warning", "error")

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def run(beginning: Beginning, cli: Sequence[tuple[str, Any]]) -> int:
    _log_to_stderr()
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        ended = _ended_by_signals(runner.get_loop())
        code = runner.run(_serve(beginning, cli, ended))
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)  # we are leaving already
    return code


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _log_to_stderr() -> None:
    level = os.environ.get("UNDERSTUDY_LOG") or "warning"
    known = level.lower() in LOG_LEVELS
    logging.basicConfig(
        stream=sys.stderr, level=level.upper() if known else "WARNING", format="understudy: %(levelname)s: %(message)s"
    )
    if not known:
        logger.warning("UNDERSTUDY_LOG is %r; it can be %s", level, ", ".join(LOG_LEVELS))
    logger.info("understudy %s serves MCP on standard input and output, process %d", __version__, os.getpid())


def _ended_by_signals(loop: asyncio.AbstractEventLoop) -> asyncio.Future[int]:
    """Before the runner looks: it would put its own handler for SIGINT in place, which costs time to replace."""
    ended: asyncio.Future[int] = loop.create_future()
    for number in _ENDING:
        loop.add_signal_handler(number, _end, ended)
    return ended


def _end(ended: asyncio.Future[int], code: int = 0) -> None:
    if not ended.done():
        ended.set_result(code)


async def _serve(beginning: Beginning, cli: Sequence[tuple[str, Any]], ended: asyncio.Future[int]) -> int:
    loop = asyncio.get_running_loop()
    engine = Engine(cli=cli)
    outbox = Outbox(loop)
    server = McpServer(engine, outbox, beginning.hello)
    end = partial(_end, ended)
    reader = _Reader(server, outbox, end)
    await _open_output(loop, outbox, ended)
    reader.data_received(beginning.read)
    if beginning.ended:
        reader.eof_received()
    else:
        await _open_input(loop, reader)
    code = await ended
    await engine.close()
    server.close()
    outbox.flush()
    await outbox.sent(LAST_WORDS_SECONDS)  # a client that still reads gets what is left
    return code


class _Reader(asyncio.Protocol):
    def __init__(self, server: McpServer, outbox: Outbox, end: Callable[[], None]) -> None:
        self._server = server
        self._outbox = outbox
        self._end = end
        self._lines = LineSplitter()
        self._transport: asyncio.ReadTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.ReadTransport, transport)  # uvloop transports don't subclass `ReadTransport`

    def data_received(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            self._server.receive(line)
        if self._outbox.overfull and self._transport is not None:
            self._transport.pause_reading()
            self._outbox.when_drained(self._transport.resume_reading)

    def eof_received(self) -> None:
        last = self._lines.rest()
        if last:
            self._server.receive(last)
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()


class _Writer(asyncio.BaseProtocol):
    def __init__(self, outbox: Outbox, end: Callable[[], None]) -> None:
        self._outbox = outbox
        self._end = end

    def pause_writing(self) -> None:
        self._outbox.pause()

    def resume_writing(self) -> None:
        self._outbox.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self._outbox.close()
        self._end()  # nobody reads us any more


async def _open_input(loop: asyncio.AbstractEventLoop, reader: _Reader) -> None:
    if _can_be_waited_for(0):
        await loop.connect_read_pipe(lambda: reader, sys.stdin)
        return

    def read_all() -> None:  # in a thread: the loop cannot wait for such a descriptor
        while chunk := os.read(0, 65536):
            loop.call_soon_threadsafe(reader.data_received, chunk)
        loop.call_soon_threadsafe(reader.eof_received)

    loop.run_in_executor(None, read_all)


def _can_be_waited_for(fd: int) -> bool:
    """Not so a plain file or /dev/null, with which some event loops end the process."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


async def _open_output(loop: asyncio.AbstractEventLoop, outbox: Outbox, ended: asyncio.Future[int]) -> None:
    if _can_be_waited_for(1):
        transport, _ = await loop.connect_write_pipe(lambda: _Writer(outbox, partial(_end, ended)), sys.stdout)
        outbox.attach(transport)
    else:  # a plain file takes everything at once
        outbox.attach(_FileTransport(outbox, ended))


class _FileTransport(asyncio.WriteTransport):
    def __init__(self, outbox: Outbox, ended: asyncio.Future[int]) -> None:
        super().__init__()
        self._outbox = outbox
        self._ended = ended

    def write(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(1, view) :]
        except OSError as error:
            logger.error("standard output cannot be written, so the server ends: %s", error.strerror)
            self._outbox.close()
            _end(self._ended, 1)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0
