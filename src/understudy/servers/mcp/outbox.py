"""What goes to one client: gathered during a step of the event loop, written at its end, in order.

Nobody waits for a slow client. When it falls behind, viewers on this connection stop adding to what waits and read
again from the log once it has caught up, so memory stays bounded.
"""

import asyncio
from collections import deque
from collections.abc import Callable

CONGESTED_BYTES = 16 * 1024 * 1024  # more than a client that reads all the time lets wait, however fast the model
DRAINED_BYTES = 512 * 1024
OVERFULL_BYTES = 64 * 1024 * 1024


class Outbox:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.WriteTransport | None = None
        self._lines: list[bytes] = []
        self._waiting = 0  # bytes in `_lines`
        self._scheduled = False
        self._paused = False
        self._drained: deque[Callable[[], None]] = deque()
        self._telling = False
        self.closed = False

    def attach(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=CONGESTED_BYTES, low=DRAINED_BYTES)
        self.flush()

    def send(self, line: bytes) -> None:
        if self.closed:
            return
        self._lines.append(line)
        self._waiting += len(line)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        self._scheduled = False
        if self._transport is None or not self._lines or self.closed:
            return
        lines, self._lines, self._waiting = self._lines, [], 0
        self._transport.write(lines[0] if len(lines) == 1 else b"".join(lines))

    async def sent(self, seconds: float) -> None:
        """Wait until the client has taken everything, at most so long."""
        if self.closed or self._transport is None or self._transport.get_write_buffer_size() == 0:
            return
        taken = self._loop.create_future()
        self._transport.set_write_buffer_limits(high=0, low=0)  # from here on "drained" means empty
        self._paused = True
        self._drained.appendleft(lambda: None if taken.done() else taken.set_result(None))
        await asyncio.wait([taken], timeout=seconds)

    @property
    def congested(self) -> bool:
        return self._paused or self._waiting > CONGESTED_BYTES

    @property
    def overfull(self) -> bool:
        """So much waits that a client which asks on and never reads should not be listened to for a while."""
        buffered = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return self._waiting + buffered > OVERFULL_BYTES

    def when_drained(self, callback: Callable[[], None]) -> None:
        """Call back in a later step of the loop, once there is room: one at a time, for each may fill it again."""
        self._drained.append(callback)
        self._tell_soon()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._tell_soon()

    def close(self) -> None:
        self.closed = True
        self._lines.clear()
        self._drained.clear()

    def _tell_soon(self) -> None:
        if self._drained and not self._telling and not self._paused:
            self._telling = True
            self._loop.call_soon(self._tell_drained)

    def _tell_drained(self) -> None:
        self._telling = False
        if self._paused or not self._drained:
            return
        due = None if self.congested else self._drained.popleft()  # if it is, the flush that is due settles it
        self._tell_soon()
        if due is not None:
            due()
