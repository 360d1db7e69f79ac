"""Sends requests over pooled connections; the bodies of answers are read as they come."""

import asyncio
import os
import resource
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from understudy.net.addresses import Url, proxy_authorization, proxy_for
from understudy.net.connect import open_connection
from understudy.net.connection import Connection
from understudy.net.failures import AnswerCut, BadAnswer, HttpFailure

if TYPE_CHECKING:
    import ssl

    from understudy.net.unpacking import Unpacker


class HttpResponse:
    def __init__(self, connection: Connection) -> None:
        self.status = connection.answer.status
        self.reason = connection.answer.reason
        self.headers = connection.answer.headers
        self._connection: Connection | None = connection
        coding = self.headers.get("content-encoding")
        self._unpacker = _unpacker(coding.lower()) if coding else None

    async def read(self, seconds: float) -> bytes:
        """More of the body, `b""` at its end. Raises HttpFailure."""
        if self._connection is None:
            return b""
        if self._unpacker is None:
            return await self._connection.read(seconds)
        while True:
            data = b""
            if self._unpacker.more:
                await asyncio.sleep(0)  # a few bytes may unpack to a great many, so let others run meanwhile
            elif not (data := await self._connection.read(seconds)):
                return b""
            if unpacked := self._unpacker.unpack(data):
                return unpacked

    async def read_text(self, seconds: float, limit: int) -> str:
        """The body as text, cut at `limit` bytes; as much as came within `seconds`, or before it broke off."""
        pieces: list[bytes] = []
        size = 0
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        try:
            while size < limit and (piece := await self.read(max(deadline - loop.time(), 0.0))):
                pieces.append(piece)
                size += len(piece)
        except HttpFailure:
            self.abort()
        else:
            self.finish()
        return b"".join(pieces)[:limit].decode("utf-8", "replace")

    def finish(self) -> None:
        """The caller wants no more; the connection may be used again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.finish()

    def abort(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()


def _unpacker(coding: str) -> "Unpacker | None":
    """For servers that compress although we ask them not to."""
    if coding == "identity":
        return None
    if coding in ("gzip", "x-gzip", "deflate"):
        from understudy.net.unpacking import Unpacker

        return Unpacker()
    raise BadAnswer(f"the server's answer is encoded as {coding[:40]!r}, which was not asked for")


CONNECT_SECONDS = 15.0
KEEP_SECONDS = 55.0  # servers and balancers commonly close a silent connection after 60
KEEP_PER_PLACE = 256  # about as many as conversations that one process may have at once
KEPT_SHARE = 4  # divisor of the number of files that may be open

# Also counts time asleep where the system offers that: a machine that wakes has connections that nobody else remembers.
_elapsed = partial(time.clock_gettime, time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic

Place = tuple[Url | None, str, str, int]  # proxy, scheme, host, port: where a connection leads


class _Route(NamedTuple):
    """How to reach an address."""

    proxy: Url | None
    place: Place
    head: str


class HttpClient:
    def __init__(
        self,
        env: Mapping[str, str] | None = None,
        *,
        connect_seconds: float = CONNECT_SECONDS,
        elapsed: Callable[[], float] = _elapsed,
    ) -> None:
        self._env = os.environ if env is None else env
        self._connect_seconds = connect_seconds
        self._elapsed = elapsed
        self._idle: dict[Place, list[Connection]] = {}
        self._open: set[Connection] = set()
        self._routes: dict[Url, _Route] = {}  # few, one per provider
        self._most_kept = _most_kept()
        self._context: ssl.SSLContext | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    def post(
        self, url: Url, headers: Sequence[tuple[str, str]], body: Sequence[bytes], *, seconds: float
    ) -> Coroutine[Any, Any, HttpResponse]:
        """Send `body`, whose pieces are sent as one. Returns the answer once its head has come, within `seconds`.

        Raises HttpFailure. If cancelled, closes the connection.
        """
        route = self._routes.get(url) or self._find_route(url)
        return self._ask(url, route, _request(route, headers, body), seconds)

    async def get(self, url: Url, headers: Sequence[tuple[str, str]], *, seconds: float) -> HttpResponse:
        """Like `post`, for GET."""
        route = self._route("GET", url)
        return await self._ask(url, route, _request(route, headers, ()), seconds)

    async def delete(self, url: Url, headers: Sequence[tuple[str, str]], *, seconds: float) -> HttpResponse:
        route = self._route("DELETE", url)
        return await self._ask(url, route, _request(route, headers, ()), seconds)

    async def _ask(self, url: Url, route: "_Route", request: bytes, seconds: float) -> HttpResponse:
        proxy, place = route.proxy, route.place
        connection = self._take_idle(place)
        if connection is not None:
            try:
                return await _exchange(connection, request, seconds)
            except AnswerCut as cut:
                if not cut.untouched:  # otherwise the pooled connection was stale, and the server never saw the request
                    raise
        connection = Connection(lambda free: self._keep(place, free), self._open.discard)
        self._open.add(connection)
        try:
            await open_connection(connection, url, proxy=proxy, tls=self._tls, seconds=self._connect_seconds)
        except BaseException:
            self._open.discard(connection)
            raise
        return await _exchange(connection, request, seconds)

    async def aclose(self) -> None:
        """Close every connection, even those in use."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self._idle.clear()
        for connection in tuple(self._open):
            connection.abort()
        await asyncio.sleep(0)  # lets the transports close their sockets

    def _find_route(self, url: Url) -> "_Route":
        """Raises HttpFailure."""
        route = self._routes[url] = self._route("POST", url)
        return route

    def _route(self, method: str, url: Url) -> "_Route":
        proxy = proxy_for(url, self._env)
        return _Route(proxy, (proxy, url.scheme, url.host, url.port), _head(method, url, proxy))

    def _tls(self) -> "ssl.SSLContext":
        if self._context is None:
            from understudy.net.tls import client_context

            self._context = client_context(self._env)
        return self._context

    def _take_idle(self, place: Place) -> Connection | None:
        connections = self._idle.get(place)
        while connections:
            connection = connections.pop()
            if connection.usable and connection.freed_at > self._elapsed() - KEEP_SECONDS:
                return connection
            connection.close()
        return None

    def _keep(self, place: Place, connection: Connection) -> None:
        loop = connection.loop
        connections = self._idle.setdefault(place, [])
        if len(connections) >= self._most_kept:
            connection.close()
            return
        connection.freed_at = self._elapsed()
        connections.append(connection)
        if self._sweeper is None:
            self._sweeper = loop.call_later(KEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Closes connections that were unused for a while; runs only as long as there are any."""
        self._sweeper = None
        loop = asyncio.get_running_loop()
        oldest = self._elapsed() - KEEP_SECONDS
        for place, connections in list(self._idle.items()):
            kept = [connection for connection in connections if connection.usable and connection.freed_at > oldest]
            for connection in connections:
                if connection not in kept:
                    connection.close()
            if kept:
                self._idle[place] = kept
            else:
                del self._idle[place]
        if self._idle:
            self._sweeper = loop.call_later(KEEP_SECONDS / 4, self._sweep)


def _most_kept() -> int:
    """If few files may be open, idle connections must leave enough for the store and for commands."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return KEEP_PER_PLACE if most == resource.RLIM_INFINITY else min(KEEP_PER_PLACE, most // KEPT_SHARE)


async def _exchange(connection: Connection, request: bytes, seconds: float) -> HttpResponse:
    try:
        connection.send(request)
        await connection.wait_for_head(seconds)
        return HttpResponse(connection)
    except BaseException:
        connection.abort()
        raise


def _head(method: str, url: Url, proxy: Url | None) -> str:
    """The lines that are equal in every request to this address."""
    absolute = proxy is not None and url.scheme == "http"
    target = f"http://{url.authority}{url.target}" if absolute else url.target
    lines = [f"{method} {target} HTTP/1.1", f"Host: {url.authority}"]
    if absolute and proxy is not None and (authorization := proxy_authorization(proxy)):
        lines.append(f"Proxy-Authorization: {authorization}")
    return "\r\n".join([*lines, "Accept-Encoding: identity"])


def _request(route: _Route, headers: Sequence[tuple[str, str]], body: Sequence[bytes]) -> bytes:
    lines = [route.head, *[f"{name}: {value}" for name, value in headers], f"Content-Length: {sum(map(len, body))}\r\n\r\n"]
    return b"".join(("\r\n".join(lines).encode("latin-1"), *body))
