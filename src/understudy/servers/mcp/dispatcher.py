"""MCP for one client, over any transport: takes a message, and sends its answer and the messages that belong to it
through a sink.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import msgspec

from understudy.engine.engine import Engine
from understudy.errors import AgentError
from understudy.protocol.callers import Caller
from understudy.protocol.jsonrpc import Incoming, Malformed, Notification, Request, RequestId, Response, error_line
from understudy.servers.failures import InvalidRequest, MethodNotFound
from understudy.servers.mcp.call import SERVER_ENDED, Call, ClientContext, Handler
from understudy.servers.mcp.handshake import Handshake, is_modern, negotiate, server_result
from understudy.servers.mcp.peer import Peer
from understudy.servers.mcp.tool_table import OFFER, Offer, WritableId, find_tool, list_of_tools
from understudy.servers.sink import Sink

if TYPE_CHECKING:
    from understudy.servers.mcp.task_board import TaskBoard

logger = logging.getLogger(__name__)

_FEWEST_LASTING = 64  # calls to collect before finished ones are removed


class _ClientInfo(msgspec.Struct):
    name: str
    version: str


class _InitializeParams(msgspec.Struct, rename="camel"):
    protocol_version: str
    capabilities: dict[str, Any]
    client_info: _ClientInfo


class _CancelledParams(msgspec.Struct, rename="camel"):
    request_id: WritableId
    reason: str | None = None


class Dispatcher:
    """Serves one client in the name of one caller. Every request gets exactly one answer, whatever its handler does.

    A process may have many of these on one engine. `sink` leads to the client; if a transport has a separate sink for each request,
    it passes that to `receive`. A handler that need not wait answers before `receive` returns.
    """

    def __init__(
        self,
        engine: Engine,
        caller: Caller,
        sink: Sink,
        handshake: Handshake | None = None,
        offer: Offer = OFFER,
        *,
        modern: bool = False,
        board: "TaskBoard | None" = None,
    ) -> None:
        """`modern`: also serve requests of the era without a handshake. `board`: shared by the dispatchers of a server."""
        self._board = board
        self._sink = sink
        self._offer = offer
        self._tools = offer.tools
        self._modern = modern
        self._peer = Peer()
        self._client = ClientContext(engine, caller, self._peer, sink)
        self._tasks = engine.tasks
        self._open: set[Call] = set()  # not answered yet
        self._cancellable: dict[RequestId, Call] = {}  # open or still at work; ids keep their type: 7 and "7" differ
        self._look_for_ended = _FEWEST_LASTING
        self._methods: dict[str, Handler] = {
            "initialize": self._initialize,
            "ping": _nothing,
            "tools/list": self._list_tools,
            "logging/setLevel": _nothing,
            **offer.methods,
            **offer.legacy_methods,
        }
        if handshake is not None:
            self._meet(handshake)

    def receive(self, message: Incoming, sink: Sink | None = None) -> None:
        """Never raises: errors are answered, or logged if there is nobody to answer."""
        match message:
            case Request():
                self._request(message, sink or self._sink)
            case Response() | Notification():
                try:
                    self._peer.answer(message) if isinstance(message, Response) else self._notification(message)
                except Exception:
                    logger.exception("bug in handling a %s", type(message).__name__)
            case Malformed(code=code, reason=reason, id=request_id, answers=answers):
                logger.info("malformed message: %s", reason)
                if answers is None or not self._peer.answer_unreadable(answers):
                    (sink or self._sink).send(error_line(request_id, code, reason), request_id)

    def goes_first(self, message: Incoming) -> bool:
        """Whether the message may overtake earlier ones: a ping, or the cancellation of an open call."""
        match message:
            case Request(method="ping"):
                return True
            case Notification(method="notifications/cancelled", params=params):
                try:
                    cancelled = msgspec.json.decode(params or b"{}", type=_CancelledParams)
                except msgspec.MsgspecError:
                    return False
                return self.find_open(cancelled.request_id) is not None
            case _:
                return False

    def speak_for(self, caller: Caller) -> None:
        """From here on the client speaks in the name of this caller."""
        self._client.caller = caller

    @property
    def peer(self) -> Peer:
        return self._peer

    @property
    def client(self) -> ClientContext:
        return self._client

    @property
    def open_calls(self) -> "tuple[Call, ...]":
        """Unanswered calls."""
        return tuple(self._open)

    def find_open(self, request_id: RequestId) -> Call | None:
        call = self._cancellable.get(request_id)
        return call if call is not None and not call.answered else None

    def take_up(self, call: Call) -> None:
        """Reopen a call that another process received, or whose answer nobody was there to read."""
        self._open.add(call)
        self._cancellable[call.id] = call
        call.when_answered(self._close_call)

    def close(self) -> None:
        """The server ends: tell those who still wait."""
        for call in tuple(self._open):
            call.server_ends()
        for stream in self._client.streams.values():
            stream.stop()
        self._client.streams.clear()

    # -- requests

    def _request(self, request: Request, sink: Sink) -> None:
        before = self._cancellable.get(request.id)
        if before is not None and before.answered:
            del self._cancellable[request.id]  # from here on the id means the new request
        if self._modern and not self._peer.initialized and is_modern(request.method, request.params):
            call = self._serve_modern(request, sink)
        else:
            if (observer := self._client.engine.observer) is not None:
                observer.called(request.method, bytes(request.params or b""))
            call = Call(request.id, request.params, sink, self._client)
            self._tasks.run(self._serve(call, request.method))
        if not call.answered:
            self._open.add(call)
            self._cancellable[call.id] = call
            call.when_answered(self._close_call)
        elif call.lasts is not None:
            self._keep_lasting(call)

    async def _serve(self, call: Call, method: str) -> None:
        try:
            call.finish(await self._find_handler(call, method)(call))
        except Exception as error:  # the one boundary: whatever happens, the client gets an answer
            call.fail(error)
        except asyncio.CancelledError:
            call.fail(AgentError(SERVER_ENDED))
            raise

    def _serve_modern(self, request: Request, sink: Sink) -> Call:
        from understudy.servers.mcp.modern_requests import serve_modern  # few clients need it
        from understudy.servers.mcp.task_board import LoneClient, TaskBoard

        if self._board is None:
            self._board = TaskBoard()
        client = LoneClient(self._client.engine, self._client.caller, self._board, sink)
        return serve_modern(request, client, self._offer)

    def _find_handler(self, call: Call, method: str) -> Handler:
        if method == "tools/call":
            return find_tool(call, self._tools)
        logger.debug("request %.100r: %.100r", call.id, method)
        handler = self._methods.get(method)
        if handler is None:
            raise MethodNotFound(method)
        return handler

    def _close_call(self, call: Call) -> None:
        self._open.discard(call)
        if self._cancellable.get(call.id) is call:
            del self._cancellable[call.id]
            if call.lasts is not None:
                self._keep_lasting(call)

    def _keep_lasting(self, call: Call) -> None:
        """Keep the call, which can still be cancelled. Finished ones are removed from time to time."""
        self._cancellable[call.id] = call
        if len(self._cancellable) > self._look_for_ended:
            for other in tuple(self._cancellable.values()):
                if other.answered and (other.lasts is None or not other.lasts()):
                    del self._cancellable[other.id]
            self._look_for_ended = max(_FEWEST_LASTING, 2 * len(self._cancellable))

    # -- notifications

    def _notification(self, notification: Notification) -> None:
        if notification.method != "notifications/cancelled":
            logger.debug("notification %s is not acted upon", notification.method)
            return
        try:
            cancelled = msgspec.json.decode(notification.params or b"{}", type=_CancelledParams)
        except msgspec.MsgspecError as error:
            logger.info("malformed cancellation: %s", error)
            return
        call = self._cancellable.get(cancelled.request_id)
        if call is None:
            logger.info("cancellation of %r, which is not running", cancelled.request_id)
        else:
            call.cancel()

    # -- methods

    async def _initialize(self, call: Call) -> Any:
        if self._peer.initialized:
            raise InvalidRequest("initialize called more than once")
        params = msgspec.json.decode(call.arguments or b"{}", type=_InitializeParams)
        who, can = params.client_info, params.capabilities
        self._meet(Handshake(params.protocol_version, "elicitation" in can, who.name, who.version, extended="extensions" in can))
        return server_result(self._peer.version, self._offer.capabilities)

    async def _list_tools(self, call: Call) -> Any:
        return list_of_tools(self._offer)

    def _meet(self, handshake: Handshake) -> None:
        self._peer.meet(handshake, negotiate(handshake.version))


async def _nothing(call: Call) -> Any:
    return {}
