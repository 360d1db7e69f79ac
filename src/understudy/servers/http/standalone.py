"""The stream of a session for what belongs to none of its open requests: events of `conversationStream`, and its questions.

It has at most one connection at a time. Without one it counts as congested, so that viewers wait and read on from the log.
"""

import asyncio
from collections.abc import Callable

from understudy.protocol.jsonrpc import RequestId
from understudy.servers.http.stream_sink import StreamSink


class StandaloneSink:
    """A `Sink` for as long as the session lives."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._stream: StreamSink | None = None
        self._to_call: list[Callable[[], None]] = []  # once there is a connection
        self._ended = False

    @property
    def attached(self) -> bool:
        return self._stream is not None and not self._stream.over

    @property
    def closed(self) -> bool:
        """Nobody can be asked anything here, at the moment."""
        return self._ended or not self.attached

    @property
    def congested(self) -> bool:
        return self._stream is None or self._stream.over or self._stream.congested

    def send(self, message: bytes, related_to: RequestId | None) -> None:
        if self._stream is not None:
            self._stream.send(message, related_to)

    def answer(self, message: bytes, related_to: RequestId) -> None:
        self.send(message, related_to)

    def drained(self, callback: Callable[[], None]) -> None:
        if self._ended:
            return
        if self._stream is not None and not self._stream.over:
            self._stream.drained(callback)
        else:
            self._to_call.append(callback)

    def attach(self) -> StreamSink:
        """A connection has come. The one before it ends: a client has one, and may not have noticed that it broke."""
        if self._stream is not None:
            self._stream.end()
        stream = self._stream = StreamSink(self._loop)
        stream.begin()
        to_call, self._to_call = self._to_call, []
        for callback in to_call:
            stream.drained(callback)
        return stream

    def leave(self, stream: StreamSink) -> None:
        """That connection is gone."""
        if self._stream is stream:
            self._to_call += stream.give_back()
            self._stream = None

    def detach(self) -> None:
        if self._stream is not None:
            self._stream.end()

    def close(self) -> None:
        self._ended = True
        self._to_call.clear()
        self.detach()
