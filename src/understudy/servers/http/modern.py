"""The era 2026-07-28 over HTTP: each POST stands alone, and a closed connection is the end of its request."""

import asyncio
from typing import Any, Literal, cast

import msgspec

from understudy.engine.engine import Engine
from understudy.protocol.jsonrpc import Incoming, Malformed, Notification, Request
from understudy.servers.http.answers import Refusal, Send, send_answer
from understudy.servers.http.asked import ROUTING, Asked
from understudy.servers.http.mirrored import mirroring_problem
from understudy.servers.http.principals import Principal, Principals
from understudy.servers.http.stream_sink import StreamSink
from understudy.servers.http.streaming import send_json, send_json_or_stream
from understudy.servers.mcp.dispatcher import Dispatcher
from understudy.servers.mcp.handshake import MODERN, PREFIX
from understudy.servers.mcp.modern import HEADER_MISMATCH, UNSUPPORTED_VERSION
from understudy.servers.mcp.task_board import TaskBoard
from understudy.servers.mcp.tool_table import Offer

_STATUS = {-32601: 404, -32600: 400, -32602: 400, -32020: 400, -32021: 400, -32022: 400}


class _Failed(msgspec.Struct):
    code: int


class _Answer(msgspec.Struct):
    error: _Failed | None = None


class _Open(msgspec.Struct, frozen=True, eq=False):
    principal: Principal
    sink: StreamSink
    dispatcher: Dispatcher


class Modern:
    def __init__(self, engine: Engine, on_disconnect: Literal["interrupt", "keep"], offer: Offer) -> None:
        self._engine = engine
        self._offer = offer
        self._board = TaskBoard()
        self._on_disconnect = on_disconnect
        self._loop = asyncio.get_running_loop()
        self._open: set[_Open] = set()

    async def post(self, asked: Asked, message: Incoming, principal: Principal, send: Send) -> None:
        if isinstance(message, Malformed):
            raise Refusal(400, message.reason, code=message.code, request_id=message.id)
        if isinstance(message, Notification):
            await send_answer(send, 202)
            return
        if not isinstance(message, Request):
            raise Refusal(400, "a response cannot be sent: no request of ours is open")
        _check_headers(asked, message, self._offer)
        sink = StreamSink(self._loop)
        dispatcher = Dispatcher(self._engine, principal.caller, sink, offer=self._offer, modern=True, board=self._board)
        dispatcher.speak_for(principal.caller, principal.limits)
        dispatcher.receive(message)
        served = _Open(principal, sink, dispatcher)
        self._open.add(served)
        try:
            if await send_json_or_stream(sink, asked.receive, send) is not None:
                await send_json(sink, send, _status_of(sink.json or b""))
        finally:
            self._open.discard(served)
            self._leave(served)

    def _leave(self, served: _Open) -> None:
        """The connection is over. What was not answered by then is what the client has left."""
        for call in served.dispatcher.open_calls:
            if self._on_disconnect == "keep" and call.result_at_end is not None:
                continue  # its turn goes on, and codex-reply can come back to it
            call.cancel()
        served.sink.close()

    def principals_changed(self, principals: Principals) -> None:
        for served in tuple(self._open):
            if principals.current(served.principal.name) != served.principal:
                served.sink.end()

    @property
    def open_calls(self) -> int:
        """Those that became tasks count for as long as they are at work."""
        return sum(len(served.dispatcher.open_calls) for served in self._open) + self._board.at_work

    def close(self) -> None:
        for served in tuple(self._open):
            served.dispatcher.close()


def _status_of(line: bytes) -> int:
    error = msgspec.json.decode(line, type=_Answer).error
    return 200 if error is None else _STATUS.get(error.code, 200)


def _check_headers(asked: Asked, request: Request, offer: Offer) -> None:
    """What a proxy reads in the headers must be what we read in the body. Raises `Refusal`."""

    def mismatch(reason: str) -> Refusal:
        return Refusal(400, reason, code=HEADER_MISMATCH, request_id=request.id)

    if asked.twice in ROUTING:
        raise mismatch(f"the header {(asked.twice or b'').decode()} is sent twice")
    version = asked.header(b"mcp-protocol-version")
    params = _decode_params(request)
    meta = params.get("_meta")
    stated = cast(dict[str, Any], meta).get(f"{PREFIX}protocolVersion") if isinstance(meta, dict) else None
    if isinstance(stated, str) and stated != version:
        raise mismatch("MCP-Protocol-Version is not the version in `_meta`")
    if version != MODERN:
        raise Refusal(
            400,
            "Unsupported protocol version",
            code=UNSUPPORTED_VERSION,
            request_id=request.id,
            data={"supported": [MODERN], "requested": version},
        )
    if not isinstance(stated, str):
        raise Refusal(400, "`_meta` of the request lacks the protocol version", code=-32602, request_id=request.id)
    if asked.header(b"mcp-method") != request.method:
        raise mismatch("the header Mcp-Method is missing, or is not the method of the request")
    if (problem := mirroring_problem(asked, request.method, params, offer)) is not None:
        raise mismatch(problem)


def _decode_params(request: Request) -> dict[str, Any]:
    try:
        params = msgspec.json.decode(request.params or b"{}")
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        params = None
    if not isinstance(params, dict):
        raise Refusal(400, "`params` should be an object", code=-32602, request_id=request.id)
    return cast(dict[str, Any], params)
