"""Sends a sink's messages over a connection until there are no more or the client has left.

Also the way of a request's answer: JSON if nothing came before it, otherwise a stream.
"""

import asyncio
import logging

from understudy.servers.http import stream_sink
from understudy.servers.http.answers import Headers, Receive, Send, send_answer
from understudy.servers.http.stream_sink import StreamSink

logger = logging.getLogger(__name__)

PING_SECONDS = 25.0  # proxies wait for 30 or more; a ping is the only cost of an idle stream


async def send_json_or_stream(sink: StreamSink, receive: Receive, send: Send, headers: Headers = ()) -> int | None:
    """Sends a stream, or leaves a JSON answer to the caller, who chooses the status; see `take_json`.

    None: it was a stream, or the client has left. Otherwise nothing was sent, and the answer is in `sink.json`.
    """
    if sink.json is not None:
        return 200
    left = _Leaving(sink, receive)
    try:
        if not sink.begun:
            taken = await sink.take(PING_SECONDS)
            if left.happened:
                return None
            if sink.json is not None:
                return 200
        else:
            taken = b""
        await _stream(sink, left, send, headers, taken)
    finally:
        left.stop()
    return None


async def send_stream(sink: StreamSink, receive: Receive, send: Send, headers: Headers = ()) -> None:
    left = _Leaving(sink, receive)
    try:
        await _stream(sink, left, send, headers, b"")
    finally:
        left.stop()


async def _stream(sink: StreamSink, left: "_Leaving", send: Send, headers: Headers, taken: bytes) -> None:
    sink.begin()
    await send({"type": "http.response.start", "status": 200, "headers": [*stream_sink.HEADERS, *headers]})
    await send({"type": "http.response.body", "body": taken, "more_body": True})
    while not left.happened:
        taken = await sink.take(PING_SECONDS)
        if left.happened:
            return
        if not taken and sink.over:
            break
        await send({"type": "http.response.body", "body": taken or stream_sink.PING, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def send_json(sink: StreamSink, send: Send, status: int = 200, headers: Headers = ()) -> None:
    await send_answer(send, status, (sink.json or b"").rstrip(b"\n"), headers)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":  # a GET has a body too, which is empty
        pass


class _Leaving:
    """Whether the client has closed its connection."""

    def __init__(self, sink: StreamSink, receive: Receive) -> None:
        self._task = asyncio.ensure_future(_left(receive))
        self._task.add_done_callback(lambda _: sink.wake())

    @property
    def happened(self) -> bool:
        return self._task.done()

    def stop(self) -> None:
        self._task.cancel()


class Exchange:
    """Each era has its own subclass, which says what happens when the connection has its answer or is gone."""

    __slots__ = ("headers", "sink")

    def __init__(self, sink: StreamSink, headers: Headers = ()) -> None:
        self.sink = sink
        self.headers = headers

    @property
    def status(self) -> int:
        """The status of a JSON answer."""
        return 200

    async def run(self, receive: Receive, send: Send) -> None:
        try:
            if await send_json_or_stream(self.sink, receive, send, self.headers) is not None:
                await send_json(self.sink, send, self.status, self.headers)
        finally:
            self.finish()

    def finish(self) -> None:
        raise NotImplementedError
