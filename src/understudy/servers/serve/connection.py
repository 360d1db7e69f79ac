"""One connection: uvicorn's, with limits on the time and size of a request's head and on the time of its body.

It makes room for new connections: when nearly all places are taken, connections that are not being served are closed. Each
connection is an open file, and the server needs files for models, commands and its store too. Otherwise a client that opens
connections without sending or reading could keep everybody else out.

Its transport sends the head of an answer and the first piece of the body in one system call.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Protocol, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from understudy.servers.http.answers import Refusal
from understudy.servers.http.heads import Head, Heads
from understudy.servers.http.measured import Application
from understudy.servers.http.peers import PEER
from understudy.servers.mcp_http.at_once import AtOnce
from understudy.servers.serve.app import ENDPOINT, refusal_body
from understudy.servers.unix_sockets import peer_of

STUCK_SECONDS = 10.0  # without a byte taken: a client that only lags for a moment stays connected
_SHARE = 20  # one in so many is closed at the same time, so that the search costs each new connection little


class Guest(Protocol):
    def waits_since(self) -> tuple[bool, float] | None:
        """How long it has been idle, and whether because its client does not read. None: it is being served."""
        ...

    def let_go(self) -> None: ...


def make_room(connections: Collection[Guest], most: int | None, new: Guest, now: float) -> None:
    """Close the connections that have waited longest, first those whose client does not read. Connections being served stay."""
    if most is None or len(connections) <= most - most // _SHARE:
        return
    waiting: list[tuple[bool, float, int, Guest]] = []
    for each in connections:
        since = None if each is new else each.waits_since()
        if since is not None and (not since[0] or now - since[1] >= STUCK_SECONDS):
            waiting.append((*since, id(each), each))
    waiting.sort(key=lambda one: one[:3])
    for *_, each in waiting[: max(1, most // _SHARE)]:
        each.let_go()


_HEAD = b"HTTP/1.1 "


class JoinedWrites:
    """Joins writes: uvicorn writes head and body separately, and uvloop hands each to the kernel at once. Joined, a small call
    takes a quarter less time.
    """

    __slots__ = ("_held", "_loop", "_transport", "abort", "get_extra_info", "is_closing")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held = b""
        self.is_closing: Callable[[], bool] = transport.is_closing
        self.get_extra_info: Callable[..., Any] = transport.get_extra_info
        self.abort = transport.abort

    def write(self, data: bytes) -> None:
        if self._held:
            data, self._held = self._held + data, b""
        elif data.startswith(_HEAD):
            self._held = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def write_whole(self, answer: bytes) -> None:
        """Write an answer after which nothing follows that could be joined to it."""
        if self._held:
            self._flush()
        self._transport.write(answer)

    def _flush(self) -> None:
        if self._held:
            data, self._held = self._held, b""
            self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()


HEAD_SECONDS = 10.0  # from its first byte, or from the beginning of the connection
HEAD_BYTES = 64 * 1024
PARSED_AT_ONCE = 16 * 1024  # bytes: the size of an unfinished head is known to within this
BODY_SECONDS = 20.0  # for the whole body, however slowly it comes, and more for received bytes:
SLOWEST_BYTES = 64 * 1024  # a second, of a large body
LONGEST_BODY_SECONDS = 600.0
REST_SECONDS = 5.0  # for the rest of a request that is already answered, perhaps because it had no token
_TOO_SLOW = Refusal(408, "the body of the request did not come in time")


class Connection(HttpToolsProtocol):
    """Disconnects a client that sends a byte at a time, sends without end, or keeps sending what is refused.

    A request that arrives whole, with a head seen before, is not parsed again, and is answered before the next one is read.
    """

    def __init__(self, config: Config, state: ServerState, heads: Heads, at_once: AtOnce) -> None:
        super().__init__(config, state, {})
        self._heads = heads
        self._at_once = at_once
        self._between = True  # all received data belong to requests that were answered or passed on
        self._begun = 0  # requests seen by the parser
        self._used = 0.0  # when it was opened or last answered
        self._stuck_since: float | None = None  # since when the client has not taken its data
        self._in_head = True
        self._head_bytes = 0
        self._in_request = False
        self._body_begun = 0.0
        self._body_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._writes = JoinedWrites(transport, self.loop)
        self.transport = cast(asyncio.Transport, self._writes)
        if (peer := peer_of(transport.get_extra_info("socket"))) is not None:
            self.app_state[PEER] = peer
        self._timer = self.loop.call_later(HEAD_SECONDS, self._give_up)
        self._used = self.loop.time()
        make_room(cast("set[Connection]", self.connections), self.limit_concurrency, self, self._used)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stuck_since = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stuck_since = None

    def waits_since(self) -> tuple[bool, float] | None:
        """See `Guest`."""
        if self._stuck_since is not None:
            return True, self._stuck_since
        return None if self.cycle and not self.cycle.response_complete else (False, self._used)

    def let_go(self) -> None:
        self.connections.discard(self)  # it no longer counts, although it is closed only in the next step of the event loop
        self.transport.abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._between = False
        self._begun += 1
        self._in_head, self._head_bytes, self._in_request, self._body_bytes = True, 0, True, 0
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_timer()
        if not self.url.startswith(b"/"):
            self._take_host_from_target()
        super().on_headers_complete()

    def _take_host_from_target(self) -> None:
        """The target is a whole address, as clients send it to a proxy. Then its host counts, not the header's (RFC 9112), so that
        we judge what a proxy before us has followed. Raises `ValueError`, for which the parser refuses the request.
        """
        scheme, _, rest = self.url.partition(b"://")
        host, slash, path = rest.partition(b"/")
        if scheme.lower() not in (b"http", b"https") or not host or not slash:
            raise ValueError("the target of a request is a path, or an address with one")
        names = [name for name, _ in self.headers]
        if names.count(b"host") != 1:
            raise ValueError("a request has one Host")
        self.url = slash + path
        self.headers[names.index(b"host")] = (b"host", host)

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_request = False
        self._between = True
        self._stop_timer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self._in_request and self.cycle.response_complete:  # not the following request
            self._stop_timer()
            self._timer = self.loop.call_later(REST_SECONDS, self._give_up)
        self._used = self.loop.time()
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        if self._between:
            end = data.find(b"\r\n\r\n") + 4
            head = self._heads.find(data[:end])
            if head is not None and len(data) - end == head.length and self._answer_at_once(head, data[end:]):
                return
            begun = self._begun
            self._parse(data)
            if head is None and end > 3 and self._between and self._begun == begun + 1 and self._body_bytes == len(data) - end:
                self._learn_head(data[:end])
        else:
            self._parse(data)

    def _learn_head(self, raw: bytes) -> None:
        """The parser has just read one whole request with this head, and nothing else."""
        scope = self.cycle.scope
        plain = scope["method"] == "POST" and scope["http_version"] == "1.1" and self.cycle.keep_alive
        if plain and self.url == ENDPOINT.encode():
            self._heads.learn(raw, scope, self._body_bytes)

    def _answer_at_once(self, head: Head, body: bytes) -> bool:
        """False: nothing was done, and the request goes the ordinary way."""
        if self.cycle and not self.cycle.response_complete:  # the earlier answer comes first
            return False
        if self.flow.write_paused or self.transport.is_closing() or self._is_crowded():
            return False
        answer = self._at_once.serve(head, body, self.client[0] if self.client else "")
        if answer is None:
            return False
        if self._timer is not None:
            self._stop_timer()
        if isinstance(answer, bytes):
            self._writes.write_whole(answer)
            self.server_state.total_requests += 1
            self._used = self.loop.time()
            if self.timeout_keep_alive_task is None:
                self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
        else:
            self._serve_rest(head, answer)
        return True

    def _is_crowded(self) -> bool:
        most = self.limit_concurrency
        return most is not None and (len(self.connections) >= most or len(self.tasks) >= most)

    def _serve_rest(self, head: Head, app: Application) -> None:
        """Serve the rest of a begun request as if the parser had read it."""
        self._unset_keepalive_if_required()
        self.scope = cast(Any, {"type": "http", "method": "POST", "path": head.asked.path})
        self.cycle = RequestResponseCycle(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=True,
            on_response=self.on_response_complete,
        )
        self.cycle.more_body = False
        self._start_asgi_task(self.cycle, cast(Any, app))

    def timeout_keep_alive_handler(self) -> None:
        """The timer may fire too early, because requests that are answered at once do not reset it."""
        left = self._used + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self.timeout_keep_alive_task = self.loop.call_later(left, self.timeout_keep_alive_handler)
        else:
            super().timeout_keep_alive_handler()

    def _parse(self, data: bytes) -> None:
        """A client may send many requests at once, each with a head."""
        if len(data) <= PARSED_AT_ONCE:
            self._parse_piece(data)
            return
        for begin in range(0, len(data), PARSED_AT_ONCE):
            if self.transport.is_closing():
                return
            self._parse_piece(data[begin : begin + PARSED_AT_ONCE])

    def _parse_piece(self, data: bytes) -> None:
        super().data_received(data)
        if self._between:  # it may have been an empty line, which the parser does not report
            self._keep_alive_no_longer()
        elif self._in_head:
            if not self.transport.is_closing():
                self._head_bytes += len(data)
                if self._head_bytes > HEAD_BYTES:
                    self.send_400_response("The head of the request is too large.")
        elif self._in_request and self._timer is None:  # most bodies come with their head and need no timer
            self._body_begun = self.loop.time()
            self._timer = self.loop.call_later(BODY_SECONDS, self._look_at_body)

    def _keep_alive_no_longer(self) -> None:
        """uvicorn stopped the timer because data came. Restart it if no request has begun."""
        if self._timer is None and self.timeout_keep_alive_task is None and self.cycle and self.cycle.response_complete:
            self.timeout_keep_alive_handler()

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
