"""Where messages to a client go. Each transport has its own kind of sink; senders know no transport."""

from collections.abc import Callable
from typing import Protocol

from understudy.protocol.jsonrpc import RequestId


class Sink(Protocol):
    """The connection to one client. Messages leave in the order of sending, and nobody waits for a slow client: a sender that sees
    `congested` stops, asks to be called once the sink has `drained`, and reads again from the log.
    """

    @property
    def closed(self) -> bool:
        """Nobody receives anything here any more; messages are dropped."""
        ...

    @property
    def congested(self) -> bool:
        """The client has fallen behind. Messages are still kept, but a viewer should wait."""
        ...

    def send(self, message: bytes, related_to: RequestId | None) -> None:
        """Send one or several JSON-RPC messages, each with its line end. Never blocks.

        `related_to` is the client's request to which the message belongs: the answer, events, progress and questions of a call.
        None if it belongs to no request. Over pipes all messages take the same way; over HTTP each request has a stream of its own.
        """
        ...

    def answer(self, message: bytes, related_to: RequestId) -> None:
        """Like `send`, for the one answer to that request: a transport with a separate stream for each request ends it here."""
        ...

    def drained(self, callback: Callable[[], None]) -> None:
        """Call back in a later step of the event loop, once there is room."""
        ...
