"""The connection to one HTTP client: messages become events of a stream, or one JSON answer if nothing came before it.

Events are server-sent events, byte for byte.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from understudy.protocol.jsonrpc import RequestId

PING = b": ping\r\n\r\n"  # keeps proxies and clients from taking silence for the end
HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
EVENT = b"id: %b\r\nevent: message\r\ndata: %b\r\n\r\n"  # its id, and a line of JSON without its end


def event(message: bytes, event_id: bytes | None = None) -> bytes:
    """`message` is one line of JSON, with or without its end."""
    name = b"" if event_id is None else b"id: " + event_id + b"\r\n"
    return name + b"event: message\r\ndata: " + message.rstrip(b"\n") + b"\r\n\r\n"


def priming(event_id: bytes, retry_ms: int) -> bytes:
    """Tells a client where it can resume, before there is anything to show."""
    return b"id: %b\r\ndata: \r\nretry: %d\r\n\r\n" % (event_id, retry_ms)


CONGESTED_BYTES = 1024 * 1024  # waiting bytes from which a client counts as slow
MOST_BYTES = 64 * 1024 * 1024  # beyond this, a client that does not read is disconnected


class Skip:
    """The mark of a message that the client already has."""


SKIP: Final = Skip()

Mark = Callable[[], "bytes | Skip | None"]
"""Called for each message: the id that its event gets, if any."""


class StreamSink:
    """A `Sink` whose messages one connection takes in order. Without a connection they are dropped (`detach`)."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._frames: list[bytes] = []
        self._waiting = 0  # bytes in `_frames`
        self._taker: asyncio.Future[None] | None = None
        self._to_call: deque[Callable[[], None]] = deque()
        self._calling = False
        self._dropping = False
        self.closed = False
        self.congested = False
        self.over = False  # nothing more comes after the waiting messages
        self.begun = False  # something was sent as an event
        self.json: bytes | None = None  # the answer, if it was the first message
        self.mark: Mark | None = None
        self.when_lost: Callable[[], None] | None = None  # called when the client is no longer expected

    # -- as a sink

    def send(self, message: bytes, related_to: RequestId | None) -> None:
        if self.closed or self.over:
            return
        mark = self.mark
        for line in message.splitlines():
            event_id = None if mark is None else mark()
            if not isinstance(event_id, Skip):
                self._put(event(line, event_id))

    def send_event(self, line: bytes, event_id: bytes) -> None:
        """One line of JSON without its end, as an event with this id: a history has thousands of them."""
        if not (self.closed or self.over):
            self._put(EVENT % (event_id, line))

    def answer(self, message: bytes, related_to: RequestId) -> None:
        if self.closed or self.over:
            return
        if self.begun:
            self._put(event(message))  # without an id: a client that misses it comes back with the previous id
        else:
            self.json = message
        self.end()

    def drained(self, callback: Callable[[], None]) -> None:
        self._to_call.append(callback)
        self._call_soon()

    # -- for the owner of the stream

    def prime(self, event_id: bytes, retry_ms: int) -> None:
        if not (self.closed or self.over):
            self._put(priming(event_id, retry_ms))

    def begin(self) -> None:
        """Make it a stream, even before anything was sent."""
        self.begun = True

    def end(self) -> None:
        """End the stream once the waiting messages are taken."""
        self.over = True
        self.wake()

    def detach(self) -> None:
        """The connection is gone: drop messages until another sink takes the client over."""
        self._dropping = True
        self._frames.clear()
        self._settle()

    def give_back(self) -> list[Callable[[], None]]:
        """The callbacks that wait for room, which will never come."""
        waiting = list(self._to_call)
        self._to_call.clear()
        self.close()
        return waiting

    def close(self) -> None:
        """The client will not reconnect."""
        if self.closed:
            return
        self.closed = self.over = True
        self._frames.clear()
        self._to_call.clear()
        self.wake()
        lost, self.when_lost = self.when_lost, None
        if lost is not None:
            lost()

    # -- for the connection

    async def take(self, seconds: float) -> bytes:
        """The waiting bytes as soon as there are any; empty when the time or the stream is over."""
        if not self._frames and not self.over:
            taker = self._taker = self._loop.create_future()
            timer = self._loop.call_later(seconds, self.wake)
            try:
                await taker
            finally:
                timer.cancel()
                self._taker = None
        taken = b"".join(self._frames)
        self._frames.clear()
        self._settle()
        return taken

    def wake(self) -> None:
        taker, self._taker = self._taker, None
        if taker is not None and not taker.done():
            taker.set_result(None)

    def _put(self, frame: bytes) -> None:
        self.begun = True
        if self._dropping:
            return
        self._frames.append(frame)
        self._waiting += len(frame)
        if self._waiting > CONGESTED_BYTES:
            self.congested = True
        if self._waiting > MOST_BYTES:
            self.detach()
            self.end()
        if self._taker is not None:
            self.wake()

    def _settle(self) -> None:
        self._waiting = 0
        self.congested = False
        self._call_soon()

    def _call_soon(self) -> None:
        """One callback per step: each may fill the stream again."""
        if self._to_call and not self._calling and not self.congested:
            self._calling = True
            self._loop.call_soon(self._call_next)

    def _call_next(self) -> None:
        self._calling = False
        if self.congested or not self._to_call:
            return
        callback = self._to_call.popleft()
        self._call_soon()
        callback()
