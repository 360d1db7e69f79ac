"""The sink of a client at the other end of a pipe: gathers what is sent in a step of the event loop, and writes it at its end."""

import asyncio
from collections import deque
from collections.abc import Callable

from understudy.protocol.jsonrpc import RequestId

CONGESTED_BYTES = 1024 * 1024  # what waits for an answer behind it: what comes then is merged until the client has caught up
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
        """Wait until the client has taken everything, at most this long if it is given."""
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
        """So much waits that a client which keeps asking and never reads should not be listened to for a while."""
        buffered = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return self._waiting + buffered > OVERFULL_BYTES

    def drained(self, callback: Callable[[], None]) -> None:
        """One callback in a step: each may fill the pipe again."""
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
