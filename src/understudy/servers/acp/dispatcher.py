"""ACP for one editor: a message in; its answer, and whatever follows from it, out through a sink."""

import asyncio
import logging

import msgspec

from understudy.engine.engine import Engine
from understudy.errors import AgentError, UnknownConversation
from understudy.protocol.callers import Caller
from understudy.protocol.jsonrpc import (
    INTERNAL_ERROR,
    Incoming,
    Malformed,
    Notification,
    Request,
    RequestId,
    Response,
    error_line,
    result_line,
)
from understudy.servers.acp import params, prompting
from understudy.servers.acp.client import NOT_FOUND, Client
from understudy.servers.acp.methods import METHODS
from understudy.servers.acp.requests import Answer, Handler
from understudy.servers.failures import AGENT_ERROR, InvalidParams, InvalidRequest, MethodNotFound, RpcFault, to_rpc_fault
from understudy.servers.sink import Sink

logger = logging.getLogger(__name__)

_SERVER_ENDED = "the server ended before this was done"


class Dispatcher:
    """Serves one client, in the name of one caller. Every request gets exactly one answer, whatever its handler does."""

    def __init__(self, engine: Engine, caller: Caller, sink: Sink) -> None:
        self._client = Client(engine, caller, sink)
        self._sink = sink
        self._tasks = engine.tasks
        self._open: dict[int, RequestId] = {}  # not answered yet, by the order in which they came
        self._count = 0

    def receive(self, message: Incoming) -> None:
        """Never raises: what goes wrong is answered, or logged where there is nobody to answer."""
        match message:
            case Request():
                self._count += 1
                self._open[self._count] = message.id
                self._tasks.run(self._serve(self._count, message))
            case Response():
                try:
                    self._client.answer(message)
                except Exception:
                    logger.exception("bug in handling %r", message)
            case Notification():
                self._notified(message)
            case Malformed(code=code, reason=reason, id=request_id, answers=answers):
                logger.info("malformed message: %s", reason)
                if answers is None or not self._client.answer(Response(answers, None, unreadable=True)):
                    self._sink.send(error_line(request_id, code, reason), request_id)

    def close(self) -> None:
        """The server ends: whoever still waits is told so."""
        for number, request_id in tuple(self._open.items()):
            self._fail(number, request_id, AgentError(_SERVER_ENDED))
        self._client.close()

    def _notified(self, notification: Notification) -> None:
        try:
            match notification.method:
                case "session/cancel":
                    prompting.cancel(self._client, params.read(params.OneSession, notification.params).session_id)
                case "$/cancel_request":
                    prompting.cancel_request(self._client, params.read(params.CancelRequest, notification.params).request_id)
                case method:
                    logger.debug("notification %.100s is not acted upon", method)
        except InvalidParams as error:
            logger.info("notification %.100s: %s", notification.method, error)
        except Exception:
            logger.exception("bug in handling %r", notification)

    # -- requests

    async def _serve(self, number: int, request: Request) -> None:
        then = None
        try:
            returned = await self._handler(request.method)(self._client, request)
            answer = returned if isinstance(returned, Answer) else Answer(returned)
            then = answer.then
            line = result_line(request.id, answer.result)  # raises where it cannot be written
        except Exception as error:  # the one boundary: whatever it is, the client gets an answer
            self._fail(number, request.id, error)
        except asyncio.CancelledError:
            self._fail(number, request.id, AgentError(_SERVER_ENDED))
            raise
        else:
            if self._open.pop(number, None) is not None:
                self._sink.send(line, request.id)
        if then is not None:
            then()

    def _handler(self, method: str) -> Handler:
        handler = METHODS.get(method)
        if handler is None:
            raise MethodNotFound(method)
        if method != "initialize" and not self._client.initialized:
            raise InvalidRequest(f"{method} came before initialize; call that first")
        return handler

    def _fail(self, number: int, request_id: RequestId, error: BaseException) -> None:
        if self._open.pop(number, None) is None:
            logger.info("request %.100r failed after its answer: %s", request_id, error)
            return
        fault = _fault(request_id, error)
        try:
            line = error_line(request_id, fault.code, fault.message, fault.data)
        except Exception as second:  # the error's own text may be what cannot be written
            fault = _fault(request_id, second)
            line = error_line(request_id, fault.code, fault.message)
        self._sink.send(line, request_id)


def _fault(request_id: RequestId, error: BaseException) -> RpcFault:
    """-32000 means here that one has to log in, which is never so: failures of the agent are internal errors."""
    fault = to_rpc_fault(request_id, error)
    if isinstance(error, UnknownConversation):
        return msgspec.structs.replace(fault, code=NOT_FOUND)
    return msgspec.structs.replace(fault, code=INTERNAL_ERROR) if fault.code == AGENT_ERROR else fault
