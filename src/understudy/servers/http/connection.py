"""One connection: uvicorn's, with bounds on how long and how large the head of a request may be."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS = 10.0  # from its first byte, or from the beginning of the connection
HEAD_BYTES = 64 * 1024
REST_SECONDS = 5.0  # for the rest of a request that is answered already, perhaps because it had no token


class Connection(HttpToolsProtocol):
    """A client that sends its head a byte at a time or without an end, or goes on sending what is refused, is let go."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._in_head = True
        self._head_bytes = 0
        self._in_request = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._timer = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def on_message_complete(self) -> None:
        self._in_request = False
        self._stop_timer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self._in_request and self.cycle.response_complete and self._timer is None:  # not the one that follows
            self._timer = self.loop.call_later(REST_SECONDS, self._give_up)
        super().on_response_complete()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes, self._in_request = True, 0, True
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_timer()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self.send_400_response("The head of the request is too large.")

    def _give_up(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
