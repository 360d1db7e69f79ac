"""Wraps the application: each request gets a scope that names it in log lines, is counted, and is logged."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Any, Protocol

from understudy.servers.http.answers import Message, Receive, Send
from understudy.servers.http.metrics import Metrics
from understudy.servers.process.request_scope import REQUEST, RequestScope, without_tokens

logger = logging.getLogger("understudy.requests")

Application = Callable[[Mapping[str, Any], Receive, Send], Awaitable[None]]


class TracesRequests(Protocol):
    def end(self, request: RequestScope, status: int | None, seconds: float) -> None: ...


class Measured:
    def __init__(self, app: Application, metrics: Metrics, traces: TracesRequests | None = None) -> None:
        self._app = app
        self._metrics = metrics
        self._traces = traces

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        by_name = dict(headers)
        request = RequestScope(scope["method"], scope["path"], by_name)
        request.peer = (scope.get("client") or ("",))[0]
        if request.forwarded and len(by_name) < len(headers):  # each proxy may have added a header of its own
            request.forwarded = b",".join(value for name, value in headers if name == b"x-forwarded-for").decode("latin-1")
        await self.go_on(request, perf_counter(), self._app, scope, receive, send)

    async def go_on(
        self, request: RequestScope, began: float, app: Application, scope: Mapping[str, Any], receive: Receive, send: Send
    ) -> None:
        """Serve a request, or the rest of one that already began."""
        REQUEST.set(request)
        answer = _Counted(send, self._metrics)
        try:
            await app(scope, receive, answer)
        finally:
            answer.leave()
            self.note(request, answer.status, began)

    def note(self, request: RequestScope, status: int | None, began: float) -> None:
        """The request is over. `status`: None if the client left before an answer."""
        self._metrics.count_request(request.method, 499 if status is None else status)
        seconds = perf_counter() - began
        if self._traces is not None:
            self._traces.end(request, status, seconds)
        if logger.isEnabledFor(logging.INFO):
            _tell(request, status, seconds)


class _Counted:
    """`send` for one request. After the head of the answer it only passes data on."""

    __slots__ = ("_metrics", "_send", "_streams", "status")

    def __init__(self, send: Send, metrics: Metrics) -> None:
        self._send = send
        self._metrics = metrics
        self._streams = False
        self.status: int | None = None

    def __call__(self, message: Message) -> Awaitable[None]:
        if self.status is None and message["type"] == "http.response.start":
            self.status = message["status"]
            if any(name == b"content-type" and value.startswith(b"text/event-stream") for name, value in message["headers"]):
                self._streams = True
                self._metrics.streams.value = (self._metrics.streams.value or 0) + 1
        return self._send(message)

    def leave(self) -> None:
        if self._streams:
            self._metrics.streams.value = (self._metrics.streams.value or 1) - 1


def _tell(request: RequestScope, status: int | None, seconds: float) -> None:
    told = "left" if status is None else str(status)
    path = without_tokens(request.path)  # in case somebody put one there by mistake
    fields = {"method": request.method, "path": path, "status": status, "seconds": round(seconds, 6)}
    logger.info("%s %.200r: %s in %.3f s", request.method, path, told, seconds, extra={"fields": fields})
