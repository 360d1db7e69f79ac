"""Standard input and output as a transport: lines in, what a sink was given out. It knows nothing of what the lines say."""

import asyncio
import logging
import os
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import cast

from understudy.servers.lines import LineSplitter
from understudy.servers.pipe_sink import PipeSink
from understudy.servers.process import Ending

logger = logging.getLogger(__name__)

LINES_IN_A_STEP = 16  # of the event loop: a call may cost a thousand calls of functions in the step that it comes in

AHEAD_BYTES = 256 * 1024  # of lines that wait: so far the input is read ahead, in search of those that go first

Receive = Callable[[bytes], None]
GoesFirst = Callable[[bytes], bool]  # whether a line may be handed over before those that came before it, and wait


async def open_output(sink: PipeSink, ending: Ending, *, poll_terminal: bool = True) -> None:
    """From here on what the sink is given goes to standard output. The server ends when nobody reads that any more.

    Polling makes standard output non-blocking, also for whoever shares a terminal with us: a server does not mind.
    """
    if _can_be_polled(1) and (poll_terminal or not os.isatty(1)):
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_write_pipe(lambda: _Output(sink, ending), sys.stdout)
        sink.attach(transport)
        ending.at_last(transport.abort)
    else:  # a plain file takes everything at once
        sink.attach(_FileOutput(sink, ending))


async def open_input(
    receive: Receive,
    sink: PipeSink,
    ending: Ending,
    *,
    already_read: bytes = b"",
    at_end: bool = False,
    goes_first: GoesFirst | None = None,
) -> None:
    """Give every line of standard input to `receive`, those that were read already first. The server ends with the input."""
    reader = _Input(receive, sink, ending, goes_first)
    reader.data_received(already_read)
    if at_end:
        reader.eof_received()
    elif _can_be_polled(0):
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: reader, sys.stdin)
        ending.at_last(transport.close)
    else:
        _read_in_thread(reader)


def _read_in_thread(reader: "_Input") -> None:
    """For a descriptor that the event loop cannot wait for."""
    loop = asyncio.get_running_loop()

    def read_all() -> None:
        while chunk := os.read(0, 65536):
            loop.call_soon_threadsafe(reader.data_received, chunk)
        loop.call_soon_threadsafe(reader.eof_received)

    loop.run_in_executor(None, read_all)


def _can_be_polled(fd: int) -> bool:
    """A plain file or /dev/null cannot: some event loops end the process over it."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


class _Input(asyncio.Protocol):
    """Hands over so many lines in one step of the event loop; the rest waits, and so does whoever writes them."""

    def __init__(self, receive: Receive, sink: PipeSink, ending: Ending, goes_first: GoesFirst | None = None) -> None:
        self._receive = receive
        self._goes_first = goes_first
        self._sink = sink
        self._ending = ending
        self._lines = LineSplitter()
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._is_ended = False
        self._paused = False
        self._transport: asyncio.ReadTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.ReadTransport, transport)  # uvloop transports don't subclass `ReadTransport`

    def data_received(self, data: bytes) -> None:
        lines = self._lines.feed(data)
        if self._waiting:
            self._keep(lines)
        else:
            self._hand_over(lines)

    def _hand_over(self, lines: Iterable[bytes]) -> None:
        rest = iter(lines)
        for line in islice(rest, LINES_IN_A_STEP):
            self._receive(line)
        self._keep(rest)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._go_on)
        elif self._sink.overfull and self._pause():
            self._sink.drained(self._resume)

    def _keep(self, lines: Iterable[bytes]) -> None:
        """For the steps after this one, but for a few that go first."""
        first = 0
        for line in lines:
            if self._goes_first is not None and first < LINES_IN_A_STEP and self._goes_first(line):
                first += 1
                self._receive(line)
            else:
                self._waiting.append(line)
                self._waiting_bytes += len(line)
        if self._waiting and (self._goes_first is None or self._waiting_bytes > AHEAD_BYTES):
            self._pause()

    def _go_on(self) -> None:
        some = [self._waiting.popleft() for _ in range(min(LINES_IN_A_STEP, len(self._waiting)))]
        for line in some:
            self._waiting_bytes -= len(line)
            self._receive(line)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._go_on)
        elif self._is_ended:
            self._ending.end()
        elif self._sink.overfull:
            if self._pause():
                self._sink.drained(self._resume)
        else:
            self._resume()

    def _pause(self) -> bool:
        if self._transport is None:
            return False
        if not self._paused:
            self._paused = True
            self._transport.pause_reading()
        return True

    def _resume(self) -> None:
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def eof_received(self) -> None:
        last = self._lines.rest()
        if self._waiting and last:
            self._waiting.append(last)
        elif last:
            self._receive(last)
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._end()

    def _end(self) -> None:
        """Once all that came was handed over."""
        self._is_ended = True
        if not self._waiting:
            self._ending.end()


class _Output(asyncio.BaseProtocol):
    def __init__(self, sink: PipeSink, ending: Ending) -> None:
        self._sink = sink
        self._ending = ending

    def pause_writing(self) -> None:
        self._sink.pause()

    def resume_writing(self) -> None:
        self._sink.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self._sink.close()
        self._ending.end()  # nobody reads us any more


class _FileOutput(asyncio.WriteTransport):
    def __init__(self, sink: PipeSink, ending: Ending) -> None:
        super().__init__()
        self._sink = sink
        self._ending = ending

    def write(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(1, view) :]
        except OSError as error:
            logger.error("standard output cannot be written: %s", error.strerror)
            self._sink.close()
            self._ending.end(1)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0
