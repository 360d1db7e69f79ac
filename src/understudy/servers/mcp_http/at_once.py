"""Answers simple requests at once: they have arrived completely, are valid, and their answer waits for nothing.

Nearly every small request is of this kind, and a task, an event and messages between layers would cost more than its answer.
Anything unusual is left to `App`, which also words the errors.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter
from typing import Protocol

from understudy.errors import report_bug
from understudy.protocol.jsonrpc import Request, error_line, read_line
from understudy.servers.http.answers import Receive, Refusal, Send
from understudy.servers.http.asked import Asked
from understudy.servers.http.heads import Head
from understudy.servers.http.limiting import Limiter
from understudy.servers.http.measured import Application, Measured
from understudy.servers.http.principals import Principal, Principals
from understudy.servers.http.streaming import Exchange
from understudy.servers.process.request_scope import REQUEST, RequestScope

logger = logging.getLogger(__name__)

_REST = b"\r\ncontent-type: application/json\r\ncontent-length: %d\r\n%b\r\n%b"
_HEADS = {
    200: b"HTTP/1.1 200 OK" + _REST,
    400: b"HTTP/1.1 400 Bad Request" + _REST,
    404: b"HTTP/1.1 404 Not Found" + _REST,
    500: b"HTTP/1.1 500 Internal Server Error" + _REST,
}

RunGuarded = Callable[[Asked, Send, Callable[[Send], Awaitable[None]]], Awaitable[None]]
"""Runs the call and turns whatever goes wrong into an answer."""


class Era(Protocol):
    def begin(self, head: Head, request: Request, principal: Principal) -> Exchange | None:
        """None if the request is invalid or unusual; nothing has been done in that case."""
        ...


class AtOnce:
    def __init__(
        self, legacy: Era, modern: Era, principals: Principals, limiter: Limiter, measured: Measured, guarded: RunGuarded
    ) -> None:
        self._legacy = legacy
        self._modern = modern
        self._principals = principals
        self._limiter = limiter
        self._measured = measured
        self._guarded = guarded
        self.draining = False

    def serve(self, head: Head, body: bytes, peer: str) -> bytes | Application | None:
        """The whole answer; or the application that serves the rest of a begun request; or None if it has not begun.

        `peer`: the address at the other end of the connection.
        """
        message = read_line(body, marked=True)
        if type(message) is not Request or self.draining:
            return None
        began = perf_counter()
        scope = RequestScope("POST", head.asked.path, head.asked.headers)
        scope.peer = peer
        token = REQUEST.set(scope)  # inherited by tasks that are started from here on
        entered: str | None = None
        try:
            principal = self._principals.find(head.authorization)
            if principal is None or principal.issued or self._limiter.enter(principal.caller.name) is not None:
                return None
            entered = principal.caller.name
            exchange = (self._modern if head.modern else self._legacy).begin(head, message, principal)
            if exchange is None:
                self._limiter.take_back(entered)
                return None
            line = exchange.sink.json
            if line is None:
                rest = partial(self._rest, exchange, head.asked, entered)
                return partial(self._measured.go_on, scope, began, rest)
            status = exchange.status
            exchange.finish()
            self._limiter.leave(entered)
        except Refusal:  # for a token without any rights
            if entered is not None:
                self._limiter.take_back(entered)
            return None
        except Exception as error:
            if entered is not None:
                self._limiter.leave(entered)
            status, line = 500, error_line(None, -32603, report_bug(logger, error, "in serving POST %s", head.asked.path))
        finally:
            REQUEST.reset(token)
        self._measured.note(scope, status, began)
        line = line.rstrip(b"\n")
        return _HEADS[status] % (len(line), head.session_header, line)

    async def _rest(self, exchange: Exchange, asked: Asked, name: str, _: object, receive: Receive, send: Send) -> None:
        try:
            await self._guarded(asked, send, partial(exchange.run, receive))
        finally:
            self._limiter.leave(name)
