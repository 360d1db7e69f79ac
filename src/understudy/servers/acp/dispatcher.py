"""ACP for one editor on standard input and output: the table of methods, and the answer to each message."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from understudy import __version__
from understudy.engine.engine import Engine
from understudy.errors import UnknownConversation
from understudy.protocol.callers import Caller
from understudy.protocol.jsonrpc import INTERNAL_ERROR, Notification, Request, RequestId, error_line, result_line
from understudy.servers.acp import params, sessions
from understudy.servers.acp.content import Json
from understudy.servers.acp.session import NOT_FOUND, EditorPeer
from understudy.servers.failures import AGENT_ERROR, InvalidParams, InvalidRequest, MethodNotFound, RpcFault, to_rpc_fault
from understudy.servers.sink import Sink
from understudy.servers.stdio import line_door
from understudy.servers.stdio.line_door import LineDispatcher

Handler = Callable[[EditorPeer, Request], Awaitable[Any]]
"""Serves a request: returns its result (or a `LineAnswer`), or raises what the client should be told."""


VERSION = 1


async def initialize(client: EditorPeer, request: Request) -> Json:
    """A client with a later version is answered with ours; it then continues or disconnects."""
    if client.initialized:
        raise InvalidRequest("initialize was called before; it is called once")
    asked = params.read(params.Initialize, request.params)
    client.gives_texts = _gives_texts(asked.client_capabilities)
    client.has_forms = _has_forms(asked.client_capabilities)
    client.initialized = True
    return {
        "protocolVersion": VERSION,
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": False},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
        },
        "authMethods": [],
        "agentInfo": {"name": "understudy", "title": "Understudy", "version": __version__},
    }


def _has_forms(capabilities: Json | None) -> bool:
    match capabilities:
        case {"elicitation": {"form": form}} if form not in (None, False):
            return True
        case _:
            return False


def _gives_texts(capabilities: Json | None) -> bool:
    match capabilities:
        case {"fs": {"readTextFile": True}}:
            return True
        case _:
            return False


async def authenticate(client: EditorPeer, request: Request) -> Json:
    raise InvalidParams("Invalid params: there is nothing to log in to here; `understudy login` stores a provider's key")


METHODS: dict[str, Handler] = {
    "initialize": initialize,
    "authenticate": authenticate,
    "session/new": sessions.new,
    "session/load": sessions.load,
    "session/resume": sessions.resume,
    "session/list": sessions.list_sessions,
    "session/close": sessions.close,
    "session/delete": sessions.delete,
    "session/set_mode": sessions.set_mode,
    "session/set_config_option": sessions.set_config_option,
    "session/prompt": sessions.prompt,
}


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
                    sessions.cancel(self._client, params.read(params.OneSession, notification.params).session_id)
                case "$/cancel_request":
                    sessions.cancel_request(self._client, params.read(params.CancelRequest, notification.params).request_id)
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
        """In ACP, -32000 means that a log-in is needed. It never is, so failures of the agent become internal errors."""
        fault = to_rpc_fault(request_id, error)
        if isinstance(error, UnknownConversation):
            return msgspec.structs.replace(fault, code=NOT_FOUND)
        return msgspec.structs.replace(fault, code=INTERNAL_ERROR) if fault.code == AGENT_ERROR else fault


def run(cli: Sequence[tuple[str, Any]] = ()) -> int:
    """Serve until the input ends or a signal comes. Returns the exit code."""
    return line_door.run("ACP", "acp", Dispatcher, cli)
