"""One connection: uvicorn's, with bounds on how long and how large the head of a request may be, and how long its body may take."""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from understudy.servers.http.answers import Refusal
from understudy.servers.http.app import refusal_body
from understudy.servers.http.joined_writes import JoinedWrites

HEAD_SECONDS = 10.0  # from its first byte, or from the beginning of the connection
HEAD_BYTES = 64 * 1024
BODY_SECONDS = 20.0  # for the whole body, however it drips; and more for what has come:
SLOWEST_BYTES = 64 * 1024  # a second, of a large one
LONGEST_BODY_SECONDS = 600.0
REST_SECONDS = 5.0  # for the rest of a request that is answered already, perhaps because it had no token
_TOO_SLOW = Refusal(408, "the body of the request did not come in time")


class Connection(HttpToolsProtocol):
    """A client that sends a byte at a time or without an end, or goes on sending what is refused, is let go."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._in_head = True
        self._head_bytes = 0
        self._in_request = False
        self._body_begun = 0.0
        self._body_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self.transport = cast(asyncio.Transport, JoinedWrites(transport, self.loop))
        self._timer = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes, self._in_request, self._body_bytes = True, 0, True, 0
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_request = False
        self._stop_timer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self._in_request and self.cycle.response_complete:  # not the one that follows
            self._stop_timer()
            self._timer = self.loop.call_later(REST_SECONDS, self._give_up)
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            if not self.transport.is_closing():
                self._head_bytes += len(data)
                if self._head_bytes > HEAD_BYTES:
                    self.send_400_response("The head of the request is too large.")
        elif self._in_request and self._timer is None:  # most bodies come with their head, and need no timer
            self._body_begun = self.loop.time()
            self._timer = self.loop.call_later(BODY_SECONDS, self._look_at_body)

    def _look_at_body(self) -> None:
        allowed = min(BODY_SECONDS + self._body_bytes / SLOWEST_BYTES, LONGEST_BODY_SECONDS)
        left = self._body_begun + allowed - self.loop.time()
        if left > 0:
            self._timer = self.loop.call_later(left, self._look_at_body)
            return
        if not (self.cycle.response_started or self.transport.is_closing()):
            body = refusal_body(_TOO_SLOW, self.scope["path"])
            length = b"content-length: %d\r\n" % len(body)
            head = b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\nconnection: close\r\n" + length
            self.transport.write(head + b"\r\n" + body)
        self._give_up()

    def _give_up(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
