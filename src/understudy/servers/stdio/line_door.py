"""What the protocols on pipes share: each request gets exactly one answer, long histories are built one at a time, and one process
serves one client.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Raw

from understudy.engine.engine import Engine
from understudy.engine.steps import EagerTasks
from understudy.errors import AgentError
from understudy.protocol.callers import LOCAL, Caller, by_door
from understudy.protocol.jsonrpc import Incoming, Malformed, Notification, Request, RequestId, Response
from understudy.servers import pipes
from understudy.servers.failures import InvalidParams, InvalidRequest, RpcFault, to_rpc_fault
from understudy.servers.mcp.handshake import EarlyInput
from understudy.servers.pipes import PipeSink, read_message
from understudy.servers.process.process import Ending, hide_memory, run_server
from understudy.servers.sink import Sink

P = TypeVar("P", bound=msgspec.Struct)


def read_params(kind: type[P], given: Raw | None) -> P:
    """Raises `InvalidParams` that says what is wrong and where."""
    try:
        return msgspec.json.decode(given or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise InvalidParams(f"Invalid params: {_plain(str(error))}") from None
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise InvalidParams(f"Invalid params: {error}") from None


def _plain(reason: str) -> str:
    """`Object missing required field `cwd` - at `$.input`` is readable enough; the `$` stands for the params."""
    return reason.replace("`$.", "`params.").replace("`$`", "`params`").replace("`$[", "`params[")


logger = logging.getLogger(__name__)

_SERVER_ENDED = "the server ended before this was done"


class LineAnswer(msgspec.Struct, frozen=True):
    """`then` runs right after the answer was sent, whatever happens, for messages that must follow it."""

    result: Any
    then: Callable[[], None] | None = None


class AskedClient(Protocol):
    """The protocol's view of its client: our requests that it has not answered."""

    def answer(self, response: Response) -> bool: ...

    def close(self) -> None: ...


class LineDispatcher:
    """Serves one client in the name of one caller. A protocol defines how its lines look and what serves a request."""

    def __init__(self, tasks: EagerTasks, client: AskedClient, sink: Sink) -> None:
        self._asked = client
        self._sink = sink
        self._tasks = tasks
        self._open: dict[int, RequestId] = {}  # not answered yet, by order of arrival
        self._count = 0

    @property
    def busy(self) -> bool:
        """Whether a request has no answer yet."""
        return bool(self._open)

    def receive(self, message: Incoming) -> None:
        """Never raises: errors are answered, or logged if there is nobody to answer."""
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
        """The server ends: tell those who still wait."""
        for number, request_id in tuple(self._open.items()):
            self._fail(number, request_id, AgentError(_SERVER_ENDED))
        self._asked.close()

    # -- for the protocol to define

    async def serve(self, request: Request) -> Any:
        """The result, or a `LineAnswer`. Raises what the client should be told."""
        raise NotImplementedError

    def note(self, notification: Notification) -> None:
        """Never raises."""
        logger.debug("notification %.100s is not acted upon", notification.method)

    def result_line(self, request_id: RequestId, result: Any) -> bytes:
        raise NotImplementedError

    def error_line(self, request_id: RequestId | None, code: int, message: str, data: Any = None) -> bytes:
        raise NotImplementedError

    def fault(self, request_id: RequestId, error: BaseException) -> RpcFault:
        """The protocol's form of a failure."""
        return to_rpc_fault(request_id, error)

    # -- answering

    async def _serve(self, number: int, request: Request) -> None:
        then = None
        try:
            returned = await self.serve(request)
            answer = returned if isinstance(returned, LineAnswer) else LineAnswer(returned)
            then = answer.then
            line = self.result_line(request.id, answer.result)  # raises if it cannot be written
        except Exception as error:  # the one boundary: whatever happens, the client gets an answer
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


MOST_WAITING = 1_000


class Histories:
    """Builds one history at a time. A block keeps its turn until its answer is in the sink: nothing may be awaited in between."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def __aenter__(self) -> None:
        """Raises `InvalidRequest` if too many wait already."""
        if self._waiting >= MOST_WAITING:
            raise InvalidRequest(f"{MOST_WAITING} requests for a history wait already: read their answers first")
        self._waiting += 1
        try:
            await self._turn.acquire()
        finally:
            self._waiting -= 1
        try:
            await self.room()
        except BaseException:
            self._turn.release()
            raise

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._turn.release()

    async def room(self) -> None:
        """Wait for a client that reads slowly."""
        while self._sink.congested and not self._sink.closed:
            drained: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._sink.drained(lambda drained=drained: None if drained.done() else drained.set_result(None))
            await drained


LAST_WORDS_SECONDS = 0.3


MakeDispatcher = Callable[[Engine, Caller, Sink], LineDispatcher]


def run(what: str, door: str, make: MakeDispatcher, cli: Sequence[tuple[str, Any]] = (), early: EarlyInput | None = None) -> int:
    """Serve until the input ends or a signal comes. Returns the exit code. `door` is recorded with decisions."""
    hide_memory()
    early = early or EarlyInput(None, b"", ended=False)
    return run_server(f"{what} on standard input and output", partial(_serve, door, make, cli, early))


async def _serve(door: str, make: MakeDispatcher, cli: Sequence[tuple[str, Any]], early: EarlyInput, ending: Ending) -> int:
    engine = Engine(cli=cli)
    sink = PipeSink(asyncio.get_running_loop())
    dispatcher = make(engine, by_door(LOCAL, door), sink)
    await pipes.open_output(sink, ending)
    await pipes.open_input(
        lambda line: dispatcher.receive(read_message(line)), sink, ending, already_read=early.unanswered, at_end=early.ended
    )
    code = await ending.wait()
    await engine.close()
    dispatcher.close()
    sink.flush()
    await sink.taken(LAST_WORDS_SECONDS)  # a client that still reads gets what is left
    return code
