"""The era 2026-07-28 over HTTP: each POST stands alone, and closing the connection ends its request.

Some headers repeat parts of the body for proxies that read only headers: both must agree.
"""

import asyncio
import binascii
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec

from understudy.engine.engine import Engine
from understudy.protocol.jsonrpc import ERROR_BEGINS, Incoming, Malformed, Notification, Request
from understudy.servers.http.answers import Refusal, Send, send_answer
from understudy.servers.http.asked import ROUTING, Asked
from understudy.servers.http.heads import Head
from understudy.servers.http.principals import Principal, Principals
from understudy.servers.http.stream_sink import StreamSink
from understudy.servers.http.streaming import Exchange
from understudy.servers.mcp.call import Call
from understudy.servers.mcp.handshake import MODERN, PREFIX
from understudy.servers.mcp.modern import HEADER_MISMATCH, UNSUPPORTED_VERSION
from understudy.servers.mcp.modern_requests import serve_modern
from understudy.servers.mcp.task_board import LoneClient, TaskBoard
from understudy.servers.mcp.tool_table import Offer
from understudy.servers.sealing import EndedIds

_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PARAM = "mcp-param-"


def mirroring_problem(asked: Asked, method: str, params: Mapping[str, Any], offer: Offer) -> str | None:
    """What is wrong with the mirrored headers of a request; None if they are fine."""
    member = _NAMED_BY.get(method)
    if member is not None and _plain(asked.header(b"mcp-name")) != params.get(member):
        return f"the header Mcp-Name is missing, or is not the `{member}` of the request"
    if method.startswith("tasks/") and asked.header(b"mcp-name") is not None:  # some clients never send the header for tasks
        return None if _plain(asked.header(b"mcp-name")) == params.get("taskId") else "the header Mcp-Name is not the `taskId`"
    return _argument_problem(asked, params, offer) if method == "tools/call" else None


def _argument_problem(asked: Asked, params: Mapping[str, Any], offer: Offer) -> str | None:
    """Checks the arguments that a tool's schema wants in headers (`x-mcp-header`)."""
    tool = offer.tools.get(str(params.get("name")))
    if tool is None or not tool.header_arguments:
        return None
    given = params.get("arguments")
    arguments = cast(dict[str, Any], given) if isinstance(given, dict) else {}
    for argument, header in tool.header_arguments.items():
        sent = asked.header(f"{_PARAM}{header}".lower().encode())
        value = arguments.get(argument)
        if (sent is not None or value is not None) and (sent is None or _plain(sent) != _spelled(value)):
            return f"the header Mcp-Param-{header} is missing, or is not the argument `{argument}`"
    return None


def _spelled(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def _plain(header: str | None) -> str | None:
    """The decoded value of `=?base64?…?=`; None if it cannot be read."""
    if header is None or not (header.startswith("=?base64?") and header.endswith("?=")):
        return header
    try:
        return b64decode(header[len("=?base64?") : -2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


_VERSION_KEY = f"{PREFIX}protocolVersion"
_STATUS = {-32601: 404, -32600: 400, -32602: 400, -32020: 400, -32021: 400, -32022: 400}


_decode_any = msgspec.json.Decoder().decode


class _Failed(msgspec.Struct):
    code: int


class _Answer(msgspec.Struct):
    error: _Failed | None = None


class Modern:
    def __init__(self, engine: Engine, on_disconnect: Literal["interrupt", "keep"], offer: Offer) -> None:
        self._engine = engine
        self._offer = offer
        self._board = TaskBoard()
        self._on_disconnect = on_disconnect
        self._loop = asyncio.get_running_loop()
        self._open: set[_LoneExchange] = set()

    async def post(self, asked: Asked, message: Incoming, principal: Principal, send: Send) -> None:
        if isinstance(message, Malformed):
            raise Refusal(400, message.reason, code=message.code, request_id=message.id)
        if isinstance(message, Notification):
            await send_answer(send, 202)
            return
        if not isinstance(message, Request):
            raise Refusal(400, "a response cannot be sent: no request of ours is open")
        _check_headers(asked, message, self._offer)
        await self._serve(message, principal).run(asked.receive, send)

    def begin(self, head: Head, request: Request, principal: Principal) -> Exchange | None:
        try:
            _check_headers(head.asked, request, self._offer)
        except Refusal:
            return None
        return self._serve(request, principal)

    def _serve(self, request: Request, principal: Principal) -> "_LoneExchange":
        sink = StreamSink(self._loop)
        client = LoneClient(self._engine, principal.caller, self._board, sink)
        exchange = _LoneExchange(self, principal, sink, serve_modern(request, client, self._offer))
        if sink.json is None:
            self._open.add(exchange)
        return exchange

    def leave(self, exchange: "_LoneExchange") -> None:
        """The connection is over: an unanswered request has been left by its client."""
        self._open.discard(exchange)
        call = exchange.call
        if not (call.answered or (self._on_disconnect == "keep" and call.result_at_end is not None)):
            call.cancel()  # if the turn is kept, it continues, and codex-reply can return to it
        exchange.sink.close()

    def principals_changed(self, principals: Principals) -> None:
        for exchange in tuple(self._open):
            if principals.current(exchange.principal.name) != exchange.principal:
                exchange.sink.end()
        self._board.principals_changed(principals.is_gone)

    @property
    def left_tasks(self) -> EndedIds:
        """Tasks that were cancelled while their turns continue."""
        return self._board.left_ones(self._engine)

    @property
    def open_calls(self) -> int:
        """Includes calls that became tasks, while the tasks run."""
        return sum(not exchange.call.answered for exchange in self._open) + self._board.at_work

    def close(self) -> None:
        for exchange in tuple(self._open):
            exchange.call.server_ends()


class _LoneExchange(Exchange):
    __slots__ = ("_era", "call", "principal")

    def __init__(self, era: Modern, principal: Principal, sink: StreamSink, call: Call) -> None:
        super().__init__(sink)
        self._era = era
        self.principal = principal
        self.call = call

    @property
    def status(self) -> int:
        line = self.sink.json or b""
        if not line.startswith(ERROR_BEGINS):
            return 200
        error = msgspec.json.decode(line, type=_Answer).error
        return 200 if error is None else _STATUS.get(error.code, 200)

    def finish(self) -> None:
        self._era.leave(self)


def _check_headers(asked: Asked, request: Request, offer: Offer) -> None:
    """What a proxy reads in the headers must be what we read in the body. Raises `Refusal`."""
    if asked.twice in ROUTING:
        raise _mismatch(request, f"the header {(asked.twice or b'').decode()} is sent twice")
    version = asked.header(b"mcp-protocol-version")
    params = _decode_params(request)
    meta = params.get("_meta")
    stated = cast(dict[str, Any], meta).get(_VERSION_KEY) if isinstance(meta, dict) else None
    if isinstance(stated, str) and stated != version:
        raise _mismatch(request, "MCP-Protocol-Version is not the version in `_meta`")
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
        raise _mismatch(request, "the header Mcp-Method is missing, or is not the method of the request")
    if (problem := mirroring_problem(asked, request.method, params, offer)) is not None:
        raise _mismatch(request, problem)


def _mismatch(request: Request, reason: str) -> Refusal:
    return Refusal(400, reason, code=HEADER_MISMATCH, request_id=request.id)


def _decode_params(request: Request) -> dict[str, Any]:
    try:
        params = _decode_any(request.params or b"{}")
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        params = None
    if not isinstance(params, dict):
        raise Refusal(400, "`params` should be an object", code=-32602, request_id=request.id)
    return cast(dict[str, Any], params)
