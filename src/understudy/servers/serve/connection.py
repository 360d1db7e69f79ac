"""One connection: uvicorn's, with bounds on how long and how large the head of a request may be, and how long its body may take.

Room for new connections: when there are nearly as many as may be, those that are not being served are let go.

Each connection is an open file, and the server needs files for models, commands and its store as well. Whoever opens connections
and sends nothing, or reads nothing, would keep everybody else out.

The transport of a connection, by which the head of an answer and the first piece of its body leave in one system call.
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

STUCK_SECONDS = 10.0  # without a byte taken: a client that only lags for a moment is not let go
_SHARE = 20  # one in so many is let go together: looking for them then costs each new connection little


class Guest(Protocol):
    def waits_since(self) -> tuple[bool, float] | None:
        """Since when nothing is done for it, and whether that is because the client does not read. None: it is being served."""
        ...

    def let_go(self) -> None: ...


def make_room(connections: Collection[Guest], most: int | None, new: Guest, now: float) -> None:
    """Those that have waited longest go first, and before those whose client does not read. Where all are served, nobody goes."""
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
    """uvicorn writes head and body by themselves, and uvloop hands each to the kernel at once. Joined, a small call takes a quarter
    less time.
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
        """Nothing follows that could be joined to it."""
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
PARSED_AT_ONCE = 16 * 1024  # bytes: what belongs to a head that has not ended is known to within so many
BODY_SECONDS = 20.0  # for the whole body, however it drips; and more for what has come:
SLOWEST_BYTES = 64 * 1024  # a second, of a large one
LONGEST_BODY_SECONDS = 600.0
REST_SECONDS = 5.0  # for the rest of a request that is answered already, perhaps because it had no token
_TOO_SLOW = Refusal(408, "the body of the request did not come in time")


class Connection(HttpToolsProtocol):
    """A client that sends a byte at a time or without an end, or goes on sending what is refused, is let go.

    A request that comes whole, with a head that came before, is not parsed again, and is answered before the next one is read.
    """

    def __init__(self, config: Config, state: ServerState, heads: Heads, at_once: AtOnce) -> None:
        super().__init__(config, state, {})
        self._heads = heads
        self._at_once = at_once
        self._between = True  # no part of a request has come that was not answered or handed on
        self._begun = 0  # requests, by the parser
        self._used = 0.0  # when it was opened, or last answered
        self._stuck_since: float | None = None  # the client does not take what it is sent
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
        """See `room.Guest`."""
        if self._stuck_since is not None:
            return True, self._stuck_since
        return None if self.cycle and not self.cycle.response_complete else (False, self._used)

    def let_go(self) -> None:
        self.connections.discard(self)  # it counts no more, although it is closed only in the next step of the event loop
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
        """The target is a whole address, as clients send it to a proxy. Its host counts, and not what the header says (RFC 9112):
        what is judged is what a proxy before us has followed. Raises `ValueError`, by which the parser refuses the request.
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
        if self._in_request and self.cycle.response_complete:  # not the one that follows
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
        """The parser has just read one whole request with it, and nothing else."""
        scope = self.cycle.scope
        plain = scope["method"] == "POST" and scope["http_version"] == "1.1" and self.cycle.keep_alive
        if plain and self.url == ENDPOINT.encode():
            self._heads.learn(raw, scope, self._body_bytes)

    def _answer_at_once(self, head: Head, body: bytes) -> bool:
        """False: it goes the ordinary way, and nothing was done."""
        if self.cycle and not self.cycle.response_complete:  # whose answer comes first
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
        """Of a request that has begun; as if the parser had read it."""
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
        """Requests that are answered at once leave the timer alone, so it may be too early."""
        left = self._used + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self.timeout_keep_alive_task = self.loop.call_later(left, self.timeout_keep_alive_handler)
        else:
            super().timeout_keep_alive_handler()

    def _parse(self, data: bytes) -> None:
        """A client may send many requests at once, of which each has a head."""
        if len(data) <= PARSED_AT_ONCE:
            self._parse_piece(data)
            return
        for begin in range(0, len(data), PARSED_AT_ONCE):
            if self.transport.is_closing():
                return
            self._parse_piece(data[begin : begin + PARSED_AT_ONCE])

    def _parse_piece(self, data: bytes) -> None:
        super().data_received(data)
        if self._between:  # it may have been only an empty line, of which the parser says nothing
            self._keep_alive_no_longer()
        elif self._in_head:
            if not self.transport.is_closing():
                self._head_bytes += len(data)
                if self._head_bytes > HEAD_BYTES:
                    self.send_400_response("The head of the request is too large.")
        elif self._in_request and self._timer is None:  # most bodies come with their head, and need no timer
            self._body_begun = self.loop.time()
            self._timer = self.loop.call_later(BODY_SECONDS, self._look_at_body)

    def _keep_alive_no_longer(self) -> None:
        """uvicorn has stopped the timer, because something came. It goes on where that has not begun a request."""
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
