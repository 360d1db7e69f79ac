"""Where messages to a client go. Each transport has its own kind of sink; what sends through one knows no transport."""

from collections.abc import Callable
from typing import Protocol

from understudy.protocol.jsonrpc import RequestId


class Sink(Protocol):
    """The way to one client. Messages leave in the order in which they were sent, and nobody waits for a slow client:
    whoever sees that it is `congested` stops sending, asks to be called once it has `drained`, and reads again from the log.
    """

    @property
    def closed(self) -> bool:
        """Nobody receives anything here any more; what is sent is dropped."""
        ...

    @property
    def congested(self) -> bool:
        """The client has fallen behind. A message that is sent all the same is kept, but a viewer should wait."""
        ...

    def send(self, message: bytes, related_to: RequestId | None) -> None:
        """Send a JSON-RPC message with the line end that closes it, or several of them. Never blocks.

        `related_to` is the client's request that it belongs to: the answer, events, progress and questions of a call. None
        where it belongs to none. Over pipes all messages take the same way; over HTTP each request has a stream of its own.
        """
        ...

    def answer(self, message: bytes, related_to: RequestId) -> None:
        """Like `send`, for the one answer to that request: a transport on which each request has a way of its own ends it here."""
        ...

    def drained(self, callback: Callable[[], None]) -> None:
        """Call back in a later step of the event loop, once there is room."""
        ...
