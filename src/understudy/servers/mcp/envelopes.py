"""An event's way onto the wire: the same `params` under one method or two, put together from ready bytes."""

import msgspec

from understudy.protocol.jsonrpc import RequestId
from understudy.servers.event_codec import Encoded
from understudy.servers.mcp.peer import Methods

_encode = msgspec.json.Encoder().encode


class Envelope:
    """For one call. `codex/event` first, then the event's own name as the method."""

    def __init__(self, methods: Methods, *, request_id: RequestId, thread_id: str, plain_method: bool) -> None:
        meta = _encode({"requestId": request_id, "threadId": thread_id})
        self._before_turn = b'"params":{"_meta":' + meta + b',"id":"'
        self._both = methods == "both" and plain_method
        self.silent = methods == "none"  # the client is to get no events
        self._numbered = plain_method

    def wrap(self, event: Encoded, turn: str) -> bytes:
        if not self._numbered and turn == "0":
            turn = ""  # the modern face has no number for the configuration
        params = self._before_turn + turn.encode() + b'","msg":' + event.msg + b"}}\n"
        framed = b'{"jsonrpc":"2.0","method":"codex/event",' + params
        if not self._both:
            return framed
        return framed + b'{"jsonrpc":"2.0","method":"' + event.type + b'",' + params
