"""ACP for one editor: a message in; its answer, and whatever follows from it, out through a sink."""

import logging
from typing import Any

import msgspec

from understudy.engine.engine import Engine
from understudy.errors import UnknownConversation
from understudy.protocol.callers import Caller
from understudy.protocol.jsonrpc import INTERNAL_ERROR, Notification, Request, RequestId, error_line, result_line
from understudy.servers.acp import params, prompting
from understudy.servers.acp.editor_peer import NOT_FOUND, EditorPeer
from understudy.servers.acp.methods import METHODS
from understudy.servers.failures import AGENT_ERROR, InvalidParams, InvalidRequest, MethodNotFound, RpcFault, to_rpc_fault
from understudy.servers.line_dispatcher import LineDispatcher
from understudy.servers.sink import Sink

logger = logging.getLogger(__name__)


class Dispatcher(LineDispatcher):
    def __init__(self, engine: Engine, caller: Caller, sink: Sink) -> None:
        self._client = EditorPeer(engine, caller, sink)
        super().__init__(engine.tasks, self._client, sink)

    async def serve(self, request: Request) -> Any:
        handler = METHODS.get(request.method)
        if handler is None:
            raise MethodNotFound(request.method)
        if request.method != "initialize" and not self._client.initialized:
            raise InvalidRequest(f"{request.method} came before initialize; call that first")
        return await handler(self._client, request)

    def note(self, notification: Notification) -> None:
        try:
            match notification.method:
                case "session/cancel":
                    prompting.cancel(self._client, params.read(params.OneSession, notification.params).session_id)
                case "$/cancel_request":
                    prompting.cancel_request(self._client, params.read(params.CancelRequest, notification.params).request_id)
                case _:
                    super().note(notification)
        except InvalidParams as error:
            logger.info("notification %.100s: %s", notification.method, error)
        except Exception:
            logger.exception("bug in handling the notification %.100s", notification.method)

    def result_line(self, request_id: RequestId, result: Any) -> bytes:
        return result_line(request_id, result)

    def error_line(self, request_id: RequestId | None, code: int, message: str, data: Any = None) -> bytes:
        return error_line(request_id, code, message, data)

    def fault(self, request_id: RequestId, error: BaseException) -> RpcFault:
        """-32000 means here that one has to log in, which is never so: failures of the agent are internal errors."""
        fault = to_rpc_fault(request_id, error)
        if isinstance(error, UnknownConversation):
            return msgspec.structs.replace(fault, code=NOT_FOUND)
        return msgspec.structs.replace(fault, code=INTERNAL_ERROR) if fault.code == AGENT_ERROR else fault
