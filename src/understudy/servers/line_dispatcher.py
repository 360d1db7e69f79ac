"""What the protocols on pipes do alike: each request gets exactly one answer, whatever becomes of its handler."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from understudy.engine.eager import EagerTasks
from understudy.errors import AgentError
from understudy.protocol.jsonrpc import Incoming, Malformed, Notification, Request, RequestId, Response
from understudy.servers.failures import RpcFault, to_rpc_fault
from understudy.servers.sink import Sink

logger = logging.getLogger(__name__)

_SERVER_ENDED = "the server ended before this was done"


class LineAnswer(msgspec.Struct, frozen=True):
    """`then` is done right after the answer was sent, whatever becomes of it: messages that belong behind it."""

    result: Any
    then: Callable[[], None] | None = None


class AskedClient(Protocol):
    """What the protocol knows of its client: the requests of ours that it has not answered."""

    def answer(self, response: Response) -> bool: ...

    def close(self) -> None: ...


class LineDispatcher:
    """Serves one client, in the name of one caller. A protocol says how its lines look and what serves a request."""

    def __init__(self, tasks: EagerTasks, client: AskedClient, sink: Sink) -> None:
        self._asked = client
        self._sink = sink
        self._tasks = tasks
        self._open: dict[int, RequestId] = {}  # not answered yet, by the order in which they came
        self._count = 0

    @property
    def busy(self) -> bool:
        """Whether a request has no answer yet."""
        return bool(self._open)

    def receive(self, message: Incoming) -> None:
        """Never raises: what goes wrong is answered, or logged where there is nobody to answer."""
        match message:
            case Request():
                self._count += 1
                self._open[self._count] = message.id
                self._tasks.run(self._serve(self._count, message))
            case Response():
                try:
                    self._asked.answer(message)
                except Exception:
                    logger.exception("bug in handling a response")
            case Notification():
                self.note(message)
            case Malformed(code=code, reason=reason, id=request_id, answers=answers):
                logger.info("malformed message: %s", reason)
                if answers is None or not self._asked.answer(Response(answers, None, unreadable=True)):
                    self._sink.send(self.error_line(request_id, code, reason), request_id)

    def close(self) -> None:
        """The server ends: whoever still waits is told so."""
        for number, request_id in tuple(self._open.items()):
            self._fail(number, request_id, AgentError(_SERVER_ENDED))
        self._asked.close()

    # -- of the protocol

    async def serve(self, request: Request) -> Any:
        """Its result, or a `LineAnswer`. Raises what the client is to be told."""
        raise NotImplementedError

    def note(self, notification: Notification) -> None:
        """Never raises."""
        logger.debug("notification %.100s is not acted upon", notification.method)

    def result_line(self, request_id: RequestId, result: Any) -> bytes:
        raise NotImplementedError

    def error_line(self, request_id: RequestId | None, code: int, message: str, data: Any = None) -> bytes:
        raise NotImplementedError

    def fault(self, request_id: RequestId, error: BaseException) -> RpcFault:
        """How the protocol tells of a failure."""
        return to_rpc_fault(request_id, error)

    # -- answering

    async def _serve(self, number: int, request: Request) -> None:
        then = None
        try:
            returned = await self.serve(request)
            answer = returned if isinstance(returned, LineAnswer) else LineAnswer(returned)
            then = answer.then
            line = self.result_line(request.id, answer.result)  # raises where it cannot be written
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

    def _fail(self, number: int, request_id: RequestId, error: BaseException) -> None:
        if self._open.pop(number, None) is None:
            logger.info("request %.100r failed after its answer: %s", request_id, error)
            return
        fault = self.fault(request_id, error)
        try:
            line = self.error_line(request_id, fault.code, fault.message, fault.data)
        except Exception as second:  # the error's own text may be what cannot be written
            fault = self.fault(request_id, second)
            line = self.error_line(request_id, fault.code, fault.message)
        self._sink.send(line, request_id)
