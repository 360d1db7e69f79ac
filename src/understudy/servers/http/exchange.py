"""A request that is at work, and the way its answer takes: JSON where nothing came before it, else a stream."""

from understudy.servers.http.answers import Headers, Receive, Send
from understudy.servers.http.stream_sink import StreamSink
from understudy.servers.http.streaming import send_json, send_json_or_stream


class Exchange:
    """One for each era, which says what is to be done when the connection has its answer or is gone."""

    __slots__ = ("headers", "sink")

    def __init__(self, sink: StreamSink, headers: Headers = ()) -> None:
        self.sink = sink
        self.headers = headers

    @property
    def status(self) -> int:
        """Of an answer that is JSON."""
        return 200

    async def run(self, receive: Receive, send: Send) -> None:
        try:
            if await send_json_or_stream(self.sink, receive, send, self.headers) is not None:
                await send_json(self.sink, send, self.status, self.headers)
        finally:
            self.finish()

    def finish(self) -> None:
        raise NotImplementedError
