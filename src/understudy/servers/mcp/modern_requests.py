"""Requests of the era without sessions: what can be asked, how results look, and how each request is served on its own."""

import asyncio
from typing import Any

import msgspec

from understudy.errors import AgentError
from understudy.protocol.jsonrpc import Request
from understudy.servers.failures import InvalidParams, MethodNotFound
from understudy.servers.mcp.call import METHOD_SHAPE, SERVER_ENDED, Call, Handler, Later
from understudy.servers.mcp.handshake import MODERN
from understudy.servers.mcp.modern import LIST_TTL_MS, ModernShape, discovered, read_meta
from understudy.servers.mcp.rounds import AskedAgain, Rounds
from understudy.servers.mcp.task_board import LoneClient, declares_tasks
from understudy.servers.mcp.task_methods import METHODS as TASK_METHODS
from understudy.servers.mcp.task_methods import listen
from understudy.servers.mcp.tool_table import Offer, find_tool, list_of_tools

_decode_asked = msgspec.json.Decoder(AskedAgain).decode


def find_modern_handler(call: Call, method: str, offer: Offer) -> Handler:
    """Also sets the shape of the answer. Raises what the client should be told."""
    handshake, call.client.capabilities = read_meta(call.arguments)
    call.client.peer.meet(handshake, MODERN)
    call.shape = ModernShape(METHOD_SHAPE)

    if method == "tools/call":
        return _tool_handler(call, offer)

    async def list_tools(call: Call) -> dict[str, Any]:
        return list_of_tools(offer)

    async def discover(call: Call) -> dict[str, Any]:
        return discovered(offer.capabilities)

    async def subscribe(call: Call) -> Later:
        return await listen(call, offer.subscriptions)

    match method:
        case "tools/list":
            call.shape = ModernShape(METHOD_SHAPE, {"ttlMs": LIST_TTL_MS, "cacheScope": "public"})
            return list_tools
        case "server/discover":
            return discover
        case "subscriptions/listen":
            return subscribe
        case _ if (handler := offer.methods.get(method) or TASK_METHODS.get(method)) is not None:
            return handler
        case _:
            raise MethodNotFound(method)


def _tool_handler(call: Call, offer: Offer) -> Handler:
    params = call.arguments
    try:
        asked = _decode_asked(params)
    except msgspec.MsgspecError as error:
        raise InvalidParams(f"Invalid params of tools/call: {error}") from None
    try:
        handler = find_tool(call, offer.tools)
    finally:
        call.shape = ModernShape(call.shape)
    if isinstance(call.client, LoneClient):
        call.client.asked = asked
    if not offer.tools[asked.name].watches_turn:
        return handler
    rounds = Rounds(call, asked)
    call.client.call_viewer = rounds.make_viewer
    if asked.request_state is not None:
        return rounds.take_up
    if isinstance(call.client, LoneClient) and declares_tasks(call.client.capabilities):
        call.client.call_viewer = call.client.board.maker(rounds.make_viewer)
    return handler


def serve_modern(request: Request, client: LoneClient, offer: Offer) -> Call:
    """The begun call, perhaps already answered. Never raises: errors are answered."""
    engine = client.engine
    if (observer := engine.observer) is not None:
        observer.called(request.method, bytes(request.params or b""))
    call = Call(request.id, request.params, client.sink, client)
    engine.tasks.run(_serve(call, request.method, offer))
    return call


async def _serve(call: Call, method: str, offer: Offer) -> None:
    try:
        call.finish(await find_modern_handler(call, method, offer)(call))
    except Exception as error:  # the one boundary: whatever happens, the client gets an answer
        call.fail(error)
    except asyncio.CancelledError:
        call.fail(AgentError(SERVER_ENDED))
        raise
