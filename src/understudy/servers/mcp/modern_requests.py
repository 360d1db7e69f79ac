"""Requests of the era without sessions. Each stands alone: it says of itself what its client is, and ends with its answer."""

import asyncio

from understudy.engine.engine import Engine
from understudy.errors import AgentError
from understudy.protocol.callers import Caller
from understudy.protocol.jsonrpc import Request
from understudy.servers.mcp.call import SERVER_ENDED, Call, ClientContext
from understudy.servers.mcp.modern_methods import find_modern_handler
from understudy.servers.mcp.peer import Peer
from understudy.servers.mcp.task_board import TaskBoard
from understudy.servers.mcp.tool_table import Offer
from understudy.servers.sink import Sink


def alone(engine: Engine, caller: Caller, board: TaskBoard, sink: Sink) -> ClientContext:
    """The client of one request."""
    client = ClientContext(engine, caller, Peer(), sink)
    client.board = board
    client.streams_answer_at_end = True
    return client


def serve_modern(request: Request, client: ClientContext, offer: Offer) -> Call:
    """Begun, and perhaps answered. Never raises: what goes wrong is answered."""
    engine = client.engine
    if (observer := engine.observer) is not None:
        observer.called(request.method, bytes(request.params or b""))
    call = Call(request.id, request.params, client.sink, client)
    engine.tasks.run(_serve(call, request.method, offer))
    return call


async def _serve(call: Call, method: str, offer: Offer) -> None:
    try:
        call.finish(await find_modern_handler(call, method, offer)(call))
    except Exception as error:  # the one boundary: whatever it is, the client gets an answer
        call.fail(error)
    except asyncio.CancelledError:
        call.fail(AgentError(SERVER_ENDED))
        raise
