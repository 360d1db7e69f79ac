"""The app server for one client: a message in; its answer, and whatever follows from it, out through a sink."""

from typing import Any

from understudy.engine.engine import Engine
from understudy.protocol.callers import Caller
from understudy.protocol.jsonrpc import Request, RequestId
from understudy.servers.app_server import handshake
from understudy.servers.app_server.app_peer import AppPeer
from understudy.servers.app_server.introduction import Handshake
from understudy.servers.app_server.methods import METHODS
from understudy.servers.app_server.requests import Handler
from understudy.servers.app_server.wire import error_line, result_line
from understudy.servers.failures import InvalidRequest, MethodNotFound
from understudy.servers.line_dispatcher import LineDispatcher
from understudy.servers.sink import Sink


class Dispatcher(LineDispatcher):
    def __init__(self, engine: Engine, caller: Caller, sink: Sink, met: Handshake | None = None) -> None:
        """`met`: what `initialize` said, where it was answered already."""
        self._client = AppPeer(engine, caller, sink)
        if met is not None:
            self._client.meet(met.name, met.opted_out)
        super().__init__(engine.tasks, self._client, sink)

    async def serve(self, request: Request) -> Any:
        return await self._handler(request.method)(self._client, request.params)

    def _handler(self, method: str) -> Handler:
        if method == "initialize":
            return handshake.initialize
        if not self._client.initialized:
            raise InvalidRequest("Not initialized")
        handler = METHODS.get(method)
        if handler is None:
            raise MethodNotFound(method)
        return handler

    def result_line(self, request_id: RequestId, result: Any) -> bytes:
        return result_line(request_id, result)

    def error_line(self, request_id: RequestId | None, code: int, message: str, data: Any = None) -> bytes:
        return error_line(request_id, code, message, data)
