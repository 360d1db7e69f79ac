"""Standard input and output as a transport: turns bytes into lines, passes lines on, and writes what a sink gets.

It knows nothing of the lines' content.
"""

import asyncio
import logging
import os
import stat
import sys
from collections import deque
from collections.abc import Callable
from typing import cast

from understudy.protocol.jsonrpc import Incoming, RequestId, read_line, too_large_for_memory, too_long
from understudy.servers.process.process import Ending

MOST_BYTES = 128 * 1024 * 1024
KEPT_OF_OVERLONG = 2000  # enough to find the sender of the request


class OverlongLine(bytes):
    """The beginning of a line with too many bytes; the rest was not kept."""


class LineWithoutMemory(OverlongLine):
    """The beginning of a line that did not fit into memory."""


class LineSplitter:
    def __init__(self, limit: int = MOST_BYTES) -> None:
        self._pieces: list[bytes] = []
        self._length = 0
        self._limit = limit
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are now complete, without their ends; blank lines are left out."""
        size = len(chunk)
        if chunk.find(b"\n") == size - 1 and size <= self._limit and not self._pieces and not self._skipping:
            line = chunk.strip(b" \t\r\n")  # just one line, as from most clients
            return [line] if line else []
        first, *rest = chunk.split(b"\n")
        if not rest:
            self._keep(first)
            return []
        lines: list[bytes] = []
        self._keep(first)
        if self._skipping:
            lines.append(OverlongLine(b"".join(self._pieces)))
        else:
            try:
                self._emit(b"".join(self._pieces), lines)
            except MemoryError:
                lines.append(LineWithoutMemory(self._pieces[0][:KEPT_OF_OVERLONG]))
        self._pieces.clear()
        self._length, self._skipping = 0, False
        for line in rest[:-1]:
            self._emit(line, lines)  # lines within one chunk are never too long
        self._keep(rest[-1])
        return lines

    def rest(self) -> bytes:
        """A last line without a line end, at the end of the input."""
        rest = b"".join(self._pieces)
        return OverlongLine(rest) if self._skipping else rest.strip()

    def _keep(self, piece: bytes) -> None:
        if not piece or self._skipping:
            return
        self._length += len(piece)
        self._pieces.append(piece)
        if self._length > self._limit:  # keep enough to identify the sender, and continue with the next line
            self._skipping = True
            self._pieces = [b"".join(self._pieces)[:KEPT_OF_OVERLONG]]

    @staticmethod
    def _emit(line: bytes, lines: list[bytes]) -> None:
        line = line.strip(b" \t\r")
        if line:
            lines.append(line)


def read_message(line: bytes) -> Incoming:
    """The message of a line, even if only its beginning was kept."""
    if type(line) is OverlongLine:
        return too_long(line, MOST_BYTES)
    try:
        return too_large_for_memory(line) if type(line) is LineWithoutMemory else read_line(line)
    except MemoryError:
        return too_large_for_memory(line[:KEPT_OF_OVERLONG])


CONGESTED_BYTES = 1024 * 1024  # beyond this, new output is merged until the client has caught up
DRAINED_BYTES = 256 * 1024
OVERFULL_BYTES = 64 * 1024 * 1024


class PipeSink:
    """A `Sink` over one pipe. Viewers stop adding to it when the client falls behind, so memory stays bounded."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.WriteTransport | None = None
        self._messages: list[bytes] = []
        self._waiting = 0  # bytes in `_messages`
        self._scheduled = False
        self._paused = False
        self._to_call: deque[Callable[[], None]] = deque()  # once there is room
        self._calling = False
        self.closed = False
        self.congested = False

    def attach(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=CONGESTED_BYTES, low=DRAINED_BYTES)
        self.flush()

    def send(self, message: bytes, related_to: RequestId | None) -> None:
        if self.closed:
            return
        self._messages.append(message)
        self._waiting += len(message)
        if self._waiting > CONGESTED_BYTES:
            self.congested = True
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)

    answer = send  # over a pipe an answer is a message like any other

    def flush(self) -> None:
        self._scheduled = False
        if self._transport is None or not self._messages or self.closed:
            return
        messages, self._messages, self._waiting = self._messages, [], 0
        self.congested = self._paused
        self._transport.write(messages[0] if len(messages) == 1 else b"".join(messages))

    async def taken(self, seconds: float | None) -> None:
        """Wait until the client has taken everything, at most this long if a time is given."""
        if self.closed or self._transport is None or self._transport.get_write_buffer_size() == 0:
            return
        empty = self._loop.create_future()
        self._transport.set_write_buffer_limits(high=0, low=0)  # from here on "drained" means empty
        self._paused = self.congested = True
        self._to_call.appendleft(lambda: None if empty.done() else empty.set_result(None))
        await asyncio.wait([empty], timeout=seconds)

    @property
    def buffered(self) -> bool:
        """Whether the client has yet to take something."""
        return bool(self._messages) or (self._transport is not None and self._transport.get_write_buffer_size() > 0)

    @property
    def overfull(self) -> bool:
        """So much waits that a client which keeps asking and never reads should be ignored for a while."""
        buffered = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return self._waiting + buffered > OVERFULL_BYTES

    def drained(self, callback: Callable[[], None]) -> None:
        """One callback per step: each may fill the pipe again."""
        self._to_call.append(callback)
        self._call_soon()

    def close(self) -> None:
        """The client has closed its end."""
        self.closed = True
        self._messages.clear()
        self._to_call.clear()

    # -- called by the transport

    def pause(self) -> None:
        self._paused = self.congested = True

    def resume(self) -> None:
        self._paused = False
        self.congested = self._waiting > CONGESTED_BYTES
        self._call_soon()

    def _call_soon(self) -> None:
        if self._to_call and not self._calling and not self._paused:
            self._calling = True
            self._loop.call_soon(self._call_next)

    def _call_next(self) -> None:
        self._calling = False
        if self._paused or not self._to_call:
            return
        callback = None if self.congested else self._to_call.popleft()  # if it is congested, the pending flush settles it
        self._call_soon()
        if callback is not None:
            callback()


logger = logging.getLogger(__name__)

LINES_IN_A_STEP = 16  # per step of the event loop: a call may take a thousand function calls in its first step

AHEAD_BYTES = 256 * 1024  # of waiting lines: the input is read ahead this far, in search of lines that may overtake

Receive = Callable[[bytes], None]
GoesFirst = Callable[[bytes], bool]  # whether a line may overtake earlier lines that wait


async def open_output(sink: PipeSink, ending: Ending, *, poll_terminal: bool = True) -> None:
    """From here on the sink writes to standard output. The server ends when nobody reads that any more.

    Polling makes standard output non-blocking, also for programs that share a terminal with us; a server does not mind.
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
    """Pass every line of standard input to `receive`, beginning with those already read. The server ends with the input."""
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
    """False for a plain file or /dev/null: some event loops end the process over them."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


class _Input(asyncio.Protocol):
    """Passes on a limited number of lines per step of the event loop; the rest waits, and so does their writer."""

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

    def _hand_over(self, lines: list[bytes]) -> None:
        for line in lines[:LINES_IN_A_STEP]:
            self._receive(line)
        if lines[LINES_IN_A_STEP:]:
            self._keep(lines[LINES_IN_A_STEP:])
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._go_on)
        elif self._sink.overfull and self._pause():
            self._sink.drained(self._resume)

    def _keep(self, lines: list[bytes]) -> None:
        """Keep lines for later steps, except a few that may overtake."""
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
        if self._sink.overfull and not self._is_ended and self._pause():
            self._sink.drained(self._go_on)  # the answers to what waits may be many times as long
        elif self._waiting:
            asyncio.get_running_loop().call_soon(self._go_on)
        elif self._is_ended:
            self._ending.end()
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
        """End once everything received was passed on."""
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
