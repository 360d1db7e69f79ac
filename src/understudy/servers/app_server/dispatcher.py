"""The app server for one client: a message in; its answer, and whatever follows from it, out through a sink."""

import asyncio
import logging

from understudy.engine.engine import Engine
from understudy.errors import AgentError
from understudy.protocol.callers import Caller
from understudy.protocol.jsonrpc import Incoming, Malformed, Notification, Request, RequestId, Response
from understudy.servers.app_server import handshake
from understudy.servers.app_server.client import Client
from understudy.servers.app_server.methods import METHODS
from understudy.servers.app_server.requests import Answer, Handler
from understudy.servers.app_server.wire import error_line, result_line
from understudy.servers.failures import InvalidRequest, MethodNotFound, to_rpc_fault
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
                self._request(message)
            case Response():
                try:
                    self._client.answer(message)
                except Exception:
                    logger.exception("bug in handling %r", message)
            case Notification(method=method):
                logger.debug("notification %.100s is not acted upon", method)
            case Malformed(code=code, reason=reason, id=request_id, answers=answers):
                logger.info("malformed message: %s", reason)
                if answers is None or not self._client.answer(Response(answers, None, unreadable=True)):
                    self._sink.send(error_line(request_id, code, reason), request_id)

    @property
    def busy(self) -> bool:
        """Whether a request has no answer yet."""
        return bool(self._open)

    def close(self) -> None:
        """The server ends: whoever still waits is told so."""
        for number, request_id in tuple(self._open.items()):
            self._fail(number, request_id, AgentError(_SERVER_ENDED))
        self._client.close()

    # -- requests

    def _request(self, request: Request) -> None:
        self._count += 1
        number = self._count
        self._open[number] = request.id
        self._tasks.run(self._serve(number, request))

    async def _serve(self, number: int, request: Request) -> None:
        then = None
        try:
            returned = await self._handler(request.method)(self._client, request.params)
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
        if method == "initialize":
            return handshake.initialize
        if not self._client.initialized:
            raise InvalidRequest("Not initialized")
        handler = METHODS.get(method)
        if handler is None:
            raise MethodNotFound(method)
        return handler

    def _fail(self, number: int, request_id: RequestId, error: BaseException) -> None:
        if self._open.pop(number, None) is None:
            logger.info("request %.100r failed after its answer: %s", request_id, error)
            return
        fault = to_rpc_fault(request_id, error)
        try:
            line = error_line(request_id, fault.code, fault.message, fault.data)
        except Exception as second:  # the error's own text may be what cannot be written
            fault = to_rpc_fault(request_id, second)
            line = error_line(request_id, fault.code, fault.message)
        self._sink.send(line, request_id)
