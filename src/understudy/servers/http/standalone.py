"""The stream of a session for what belongs to none of its open requests: events of `conversationStream`, and its questions.

It has at most one connection at a time. Without one it counts as congested, so that viewers wait and read on from the log.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from understudy.protocol.jsonrpc import RequestId
from understudy.servers.http.event_ids import BEGINNING, MOST_STREAMS
from understudy.servers.http.stream_sink import SKIP, Skip, StreamSink

RETRY_MS = 2000  # official clients try to come back twice, after this long: a server that is started again has to be there by then


class Watched(Protocol):
    """A conversation that the session watches."""

    def place(self) -> bytes: ...

    @property
    def skips(self) -> bool: ...


class StandaloneSink:
    """A `Sink` for as long as the session lives. Its events have ids that say where each conversation of the session stands."""

    def __init__(self, loop: asyncio.AbstractEventLoop, streams: Callable[[], Iterable[Watched]]) -> None:
        """`streams`: what the session watches now."""
        self._loop = loop
        self._streams = streams
        self.sender: Watched | None = None  # whose message is being sent
        self.primes = False  # the client knows what an event without data means
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
        stream.mark = self._mark
        self.prime()
        to_call, self._to_call = self._to_call, []
        for callback in to_call:
            stream.drained(callback)
        return stream

    def prime(self) -> None:
        """Tell the client from where it can resume, before there is anything to show."""
        event_id = self._event_id() if self.primes else None
        if event_id is not None and self._stream is not None:
            self._stream.prime(event_id, RETRY_MS)

    def _mark(self) -> bytes | Skip | None:
        sender = self.sender
        if sender is None:
            return None
        return SKIP if sender.skips else self._event_id()

    def _event_id(self) -> bytes | None:
        places = [stream.place() for stream in self._streams()]
        if not 0 < len(places) <= MOST_STREAMS:
            return None  # an id in every event would be longer than the events
        between = BEGINNING.encode()
        return between + between.join(places)

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
