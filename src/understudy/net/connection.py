"""One HTTP/1.1 connection: writes a request, reads its answer as it arrives, and decides whether an answer is complete."""

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from typing import cast

import httptools

from understudy.net.failures import AnswerCut, AnswerSilent, BadAnswer, HttpFailure

HEAD_LIMIT = 64 * 1024


class Phase(Enum):
    UNTOUCHED = auto()  # nothing has come
    HEAD = auto()  # something has come; includes interim answers (1xx)
    BODY = auto()  # status and headers are known
    COMPLETE = auto()  # all has come, and another exchange may follow on this connection
    CLOSING = auto()  # all has come, and nothing may follow
    FAILED = auto()  # `failure` says why


_WHOLE = (Phase.COMPLETE, Phase.CLOSING)
_WITH_HEAD = (Phase.BODY, *_WHOLE)


class ParsedAnswer:
    def __init__(self) -> None:
        self.phase = Phase.UNTOUCHED
        self.failure: HttpFailure | None = None
        self.status = 0
        self.reason = ""
        self.headers: dict[str, str] = {}
        self.chunks: list[bytes] = []  # of the body; the reader takes them out
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)  # None once the answer is over
        self._fed = 0  # bytes of an unfinished head
        self._fields: list[bytes] = []  # names and values of its headers

    @property
    def is_whole(self) -> bool:
        return self.phase in _WHOLE

    def feed(self, data: bytes) -> None:
        """Parse what has arrived; the result is in `phase`."""
        parser = self._parser
        if parser is None:
            if self.is_whole:  # nobody asked for more: it could be mistaken for the answer to the next request
                self.phase = Phase.CLOSING
            return
        if self.phase is Phase.UNTOUCHED:
            self.phase = Phase.HEAD
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail("the server switched to another protocol")
        except httptools.HttpParserError as error:
            if self.is_whole:
                self.phase = Phase.CLOSING
            else:
                self._fail(f"the server's answer is not valid HTTP ({error})")
        if self.phase is Phase.HEAD:
            self._fed += len(data)
            self._check_head_size(self._fed)
        elif self.phase is not Phase.BODY:
            self._parser = None  # breaks a reference cycle, so that neither waits for the garbage collector

    def end(self, error: Exception | None) -> None:
        """Nothing more will come: the connection was closed, or broken by `error`."""
        self._parser = None
        if self.is_whole or self.failure is not None:
            return
        if self.phase is Phase.BODY and error is None and not self.headers.keys() & {"content-length", "transfer-encoding"}:
            self.phase = Phase.CLOSING  # its length was not given, so this is its end
            return
        why = "the server reset the connection" if error else "the server closed the connection"
        self.failure = AnswerCut(why, untouched=self.phase is Phase.UNTOUCHED, by_force=error is not None)
        self.phase = Phase.FAILED

    def _check_head_size(self, size: int) -> None:
        if size > HEAD_LIMIT:
            self._fail(f"the server's answer has more than {HEAD_LIMIT} bytes of headers")

    def _fail(self, reason: str) -> None:
        if self.failure is None:
            self.failure = BadAnswer(reason)
            self.phase = Phase.FAILED

    # -- called by the parser, which continues with whatever follows the answer in the same data

    def on_message_begin(self) -> None:
        if self.phase is Phase.COMPLETE:
            self.phase = Phase.CLOSING

    def on_status(self, status: bytes) -> None:
        if self.phase is Phase.HEAD:
            self.reason += status.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.phase is Phase.HEAD:  # we ignore trailers
            self._fields += (name, value)

    def on_headers_complete(self) -> None:
        if self.phase is not Phase.HEAD:
            return
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status < 100:
            self._fail(f"the server's answer has the status {status:03}, which does not exist")
        elif status < 200:
            self.reason, self._fields = "", []
        else:
            self.status = status
            self._read_headers()
            self._begin_body()

    def _read_headers(self) -> None:
        """All at once: a large provider sends some thirty, which would otherwise take six calls each. None has a NUL in it."""
        fields = b"\0".join(self._fields).decode("latin-1").split("\0")
        self.headers = {name.lower(): value.strip() for name, value in zip(fields[::2], fields[1::2], strict=False)}

    def _begin_body(self) -> None:
        self.phase = Phase.BODY
        coding = self.headers.get("transfer-encoding", "chunked")
        if coding != "chunked" and coding.lower() != "chunked":
            self._fail(f"the server's answer has the transfer coding {coding[:40]!r}, which was not asked for")
        self._check_head_size(sum(map(len, self._fields)))

    def on_body(self, body: bytes) -> None:
        if self.phase is Phase.BODY:
            self.chunks.append(body)

    def on_message_complete(self) -> None:
        if self.phase is Phase.BODY:
            assert self._parser is not None
            self.phase = Phase.COMPLETE if self._parser.should_keep_alive() else Phase.CLOSING


HIGH_WATER = 256 * 1024  # unread bytes after which the peer has to wait
DRAIN_LIMIT = 64 * 1024  # if more than this remains of an unwanted answer, a new connection is cheaper
DRAIN_SECONDS = 1.0
SECOND_LOOK_SECONDS = 0.01  # lets the event loop look at its sockets once


class Use(Enum):
    """What a connection is doing. The transport knows whether it is still open."""

    FREE = auto()  # no exchange is in progress
    READ = auto()  # its owner reads the answer
    DRAINED = auto()  # its owner wants no more, so the rest of the answer is thrown away


class Connection(asyncio.Protocol):
    """One exchange at a time. `on_free` is called when it can carry another, `on_lost` when it cannot any more."""

    def __init__(self, on_free: Callable[["Connection"], None], on_lost: Callable[["Connection"], None]) -> None:
        self.freed_at = 0.0
        self.answer = ParsedAnswer()
        self._use = Use.FREE
        self._on_free = on_free
        self._on_lost = on_lost
        self.loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None  # set while it is connected
        self._unread = 0  # bytes since the owner last read, or since it stopped; above HIGH_WATER reading is paused
        self._waiter: asyncio.Future[None] | None = None
        self._deadline = self._timer_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    # the exchange, as its owner sees it

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def send(self, request: bytes) -> None:
        if self._transport is None:
            raise AnswerCut("the connection is closed", untouched=True)
        self.answer = ParsedAnswer()
        self._use = Use.READ
        self._unread = 0
        self._transport.write(request)

    async def wait_for_head(self, seconds: float) -> None:
        """Wait until status and headers are known. Raises HttpFailure."""
        deadline = self.loop.time() + seconds
        answer = self.answer
        while answer.phase not in _WITH_HEAD:
            if answer.failure:
                raise answer.failure
            await self._wait(deadline)

    async def read(self, seconds: float) -> bytes:
        """The part of the body that came since the last call, or `b""` at its end. Raises HttpFailure; AnswerSilent after
        `seconds`."""
        answer = self.answer
        chunks = answer.chunks
        deadline: float | None = None
        while not chunks:
            if answer.failure:
                raise answer.failure
            if answer.is_whole:
                return b""
            deadline = deadline or self.loop.time() + seconds  # bytes outside the body do not extend it
            await self._wait(deadline)
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        if self._unread > HIGH_WATER:
            self._forget_unread()
        self._unread = 0
        return data

    def finish(self) -> None:
        """The owner wants no more. Keeps the connection if the rest of the answer comes at once."""
        if self._unread:
            self._forget_unread()
        if self.answer.phase in _WHOLE or self.answer.failure:
            self._leave_exchange()
            return
        self._use = Use.DRAINED
        self._arm(self.loop.time() + DRAIN_SECONDS)

    def abort(self) -> None:
        """Close it now, so that the server notices and stops working for us."""
        self._disarm()
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        self._disarm()
        if self._transport is not None:
            self._transport.close()

    def _forget_unread(self) -> None:
        if self._unread > HIGH_WATER and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        self._unread = 0

    def _leave_exchange(self) -> None:
        if self._use is Use.DRAINED:  # otherwise the timer serves the next exchange; firing when nobody waits does nothing
            self._disarm()
        self._use = Use.FREE
        if self.answer.phase is Phase.COMPLETE and self.usable:
            self._on_free(self)
        else:
            self.close()

    # waiting: one timer per connection, renewed only when it fires, because deltas arrive far more often than they stop; a timer
    # for
    # each wait would cost 1.2 µs in addition to the 5 that a delta takes

    async def _wait(self, deadline: float) -> None:
        self._deadline = deadline
        if self._timer is None or self._timer_at > deadline:
            self._arm(deadline)
        waiter = self._waiter = self.loop.create_future()
        try:
            await waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _arm(self, at: float) -> None:
        self._disarm()
        self._timer_at = at
        self._timer = self.loop.call_at(at, self._timer_fired)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _timer_fired(self) -> None:
        self._timer = None
        if self._use is Use.DRAINED:
            self.abort()
        elif self._waiter is None or self._waiter.done():
            return
        elif self.loop.time() + 0.001 < self._deadline:
            self._arm(self._deadline)
        else:  # after a stop of the process a timer may be served before what came meanwhile
            self._timer = self.loop.call_later(SECOND_LOOK_SECONDS, self._give_up, self._waiter)

    def _give_up(self, waiter: asyncio.Future[None]) -> None:
        self._timer = None
        if not waiter.done():
            waiter.set_exception(AnswerSilent("the server has sent nothing for too long"))
        elif self._waiter is not None and not self._waiter.done():
            self._arm(self._deadline)

    # called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._use is Use.FREE:  # nobody asked, so it could be mistaken for the answer to the next request
            self.abort()
            return
        answer = self.answer
        answer.feed(data)
        if answer.failure:
            self._wake()
            self.abort()
        elif self._use is Use.DRAINED:
            self._drain(len(data))
        elif answer.phase is not Phase.HEAD:
            before, self._unread = self._unread, self._unread + len(data)
            if before <= HIGH_WATER < self._unread and self._transport is not None and not self._transport.is_closing():
                self._transport.pause_reading()
            self._wake()

    def _drain(self, size: int) -> None:
        self.answer.chunks.clear()
        self._unread += size
        if self.answer.is_whole:
            self._leave_exchange()
        elif self._unread > DRAIN_LIMIT:
            self.abort()

    def eof_received(self) -> None:
        return None  # then the transport closes itself

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._disarm()
        self.answer.end(exc)
        self._wake()
        self._on_lost(self)
