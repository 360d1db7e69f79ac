"""One HTTP/1.1 connection: writes a request, parses the answer as it arrives, stops reading while the reader is behind.

Knows nothing of pools, proxies or TLS; `client` decides where a connection leads and what becomes of it afterwards.
"""

import asyncio
from collections.abc import Callable
from typing import cast

import httptools

from understudy.models.http.failures import AnswerCut, AnswerSilent, BadAnswer, HttpFailure

HEAD_LIMIT = 64 * 1024
HIGH_WATER = 256 * 1024  # unread bytes at which the peer is made to wait
DRAIN_LIMIT = 64 * 1024  # what may still follow an answer we are done with before the connection is worth less than a new one
DRAIN_SECONDS = 1.0


class Connection(asyncio.Protocol):
    """At most one exchange at a time. `on_free` is called when it can carry another, `on_lost` when it never will."""

    def __init__(self, on_free: Callable[["Connection"], None], on_lost: Callable[["Connection"], None]) -> None:
        self.freed_at = 0.0
        self.status = 0
        self.reason = ""
        self.headers: dict[str, str] = {}
        self._on_free = on_free
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._chunks: list[bytes] = []
        self.on_body: Callable[[bytes], None] = self._chunks.append  # called by the parser, once per chunk of the hot path
        self._parser: httptools.HttpResponseParser | None = None  # there is one while an exchange is under way
        self._waiter: asyncio.Future[None] | None = None
        self._failure: HttpFailure | None = None
        self._touched = self._head_done = self._complete = False
        self._draining = self._reusable = self._paused = self._lost = False
        self._until_close = False
        self._head_size = self._unread = self._drained = 0
        self._surplus: int | None = None  # chunks from here on came after the answer
        self._deadline = self._timer_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    # the exchange, as its owner sees it

    @property
    def usable(self) -> bool:
        return not (self._lost or self._transport is None or self._transport.is_closing())

    def send(self, request: bytes) -> None:
        if self._transport is None or self._lost:
            raise AnswerCut("the connection is closed", untouched=True)
        self.status, self.reason, self.headers = 0, "", {}
        self._chunks.clear()
        self._failure = None
        self._touched = self._head_done = self._complete = self._draining = self._reusable = self._until_close = False
        self._head_size = self._unread = self._drained = 0
        self._surplus = None
        self._parser = httptools.HttpResponseParser(self)
        self._transport.write(request)

    async def wait_for_head(self, seconds: float) -> None:
        """Until status and headers are known. Raises HttpFailure."""
        deadline = self._loop.time() + seconds
        while not self._head_done:
            if self._failure:
                raise self._failure
            await self._wait(deadline)

    async def read(self, seconds: float) -> bytes:
        """What has come of the body since the last call, or `b""` at its end. Raises HttpFailure; AnswerSilent after `seconds`."""
        chunks = self._chunks
        deadline: float | None = None
        while not chunks:
            if self._failure:
                raise self._failure
            if self._complete:
                return b""
            deadline = deadline or self._loop.time() + seconds  # bytes that are no part of the body do not put it off
            await self._wait(deadline)
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        self._unread = 0
        if self._paused:
            self._resume()
        return data

    def finish(self) -> None:
        """The owner has all it wants. Keeps the connection if what is left of the answer comes at once."""
        if self._complete or self._failure or self._lost:
            self._leave_exchange()
            return
        self._draining = True
        self._chunks.clear()
        self._resume()
        self._arm(self._loop.time() + DRAIN_SECONDS)

    def abort(self) -> None:
        """Now, so that the server notices and stops working for us."""
        self._disarm()
        if self._transport and not self._lost:
            self._transport.abort()

    def close(self) -> None:
        self._disarm()
        if self._transport and not self._lost:
            self._transport.close()

    def _resume(self) -> None:
        if self._paused and self.usable and self._transport:
            self._transport.resume_reading()
        self._paused = False

    def _leave_exchange(self) -> None:
        if self._draining:  # else it stands for the next exchange: firing when nobody waits does nothing
            self._disarm()
        self._parser = None
        if self._reusable and self.usable:
            self._on_free(self)
        else:
            self.close()

    # waiting: one timer a connection, re-armed only when it fires, since deltas arrive far more often than they stop

    async def _wait(self, deadline: float) -> None:
        self._deadline = deadline
        if self._timer is None or self._timer_at > deadline:
            self._arm(deadline)
        waiter = self._waiter = self._loop.create_future()
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
        self._timer = self._loop.call_at(at, self._timer_fired)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _timer_fired(self) -> None:
        self._timer = None
        if self._draining:
            self.abort()
        elif self._waiter is None or self._waiter.done():
            return
        elif self._loop.time() + 0.001 < self._deadline:
            self._arm(self._deadline)
        else:
            self._waiter.set_exception(AnswerSilent("the server has sent nothing for too long"))

    # called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        if parser is None or self._complete:
            self._reusable = False  # nobody asked: what follows could be taken for the answer to the next request
            self.abort()
            return
        self._touched = True
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(BadAnswer("the server switched to another protocol"))
            return
        except httptools.HttpParserError as error:
            if not self._complete:
                self._fail(BadAnswer(f"the server's answer is not valid HTTP ({error})"))
                return
            self._surplus = len(self._chunks) if self._surplus is None else self._surplus
        if self._surplus is not None:
            del self._chunks[self._surplus :]
            self._reusable = False
        if not self._head_done:
            self._head_size += len(data)
            if self._head_size > HEAD_LIMIT:
                self._fail(BadAnswer(f"the server's answer has more than {HEAD_LIMIT} bytes of headers"))
            return
        if self._draining:
            self._drain(len(data))
            return
        self._unread += len(data)
        if self._unread > HIGH_WATER and not self._paused and not self._complete and self.usable and self._transport:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def _drain(self, size: int) -> None:
        self._chunks.clear()
        self._drained += size
        if self._complete:
            self._leave_exchange()
        elif self._drained > DRAIN_LIMIT:
            self.abort()

    def eof_received(self) -> None:
        return None  # the transport then closes itself

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._disarm()
        if self._parser is not None and not self._complete:
            if self._head_done and self._until_close and exc is None:
                self._complete = True
            elif self._failure is None:
                why = "the server reset the connection" if exc else "the server closed the connection"
                self._failure = AnswerCut(why, untouched=not self._touched, by_force=exc is not None)
        self._wake()
        self._on_lost(self)

    def _fail(self, failure: HttpFailure) -> None:
        self._failure = failure
        self._wake()
        self.abort()

    # called by the parser

    def on_message_begin(self) -> None:
        if self._complete and self._surplus is None:
            self._surplus = len(self._chunks)

    def on_status(self, status: bytes) -> None:
        if not self._head_done:
            self.reason += status.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_done:  # trailers mean nothing to us
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        if self._complete:
            return
        assert self._parser is not None
        self.status = self._parser.get_status_code()
        if self.status < 200:
            self.reason, self.headers = "", {}
            return
        self._head_done = True
        bodiless = self.status in (204, 304)
        self._until_close = not (bodiless or "content-length" in self.headers or "transfer-encoding" in self.headers)
        self._wake()

    def on_message_complete(self) -> None:
        if not self._head_done or self._complete:
            return  # an interim answer (1xx); the real one follows
        assert self._parser is not None
        self._complete = True
        self._reusable = self._parser.should_keep_alive() and not self._until_close
        self._wake()
