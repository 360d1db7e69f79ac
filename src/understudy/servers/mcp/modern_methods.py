"""What the era without a handshake can be asked: methods, and how their results look."""

from collections.abc import Callable
from typing import Any

import msgspec

from understudy.protocol.jsonrpc import notification_line
from understudy.servers.failures import InvalidParams, MethodNotFound
from understudy.servers.mcp.call import LATER, METHOD_SHAPE, Call, Handler, Later
from understudy.servers.mcp.handshake import MODERN, PREFIX
from understudy.servers.mcp.modern import LIST_TTL_MS, ModernShape, discovered, read_meta
from understudy.servers.mcp.rounds import AskedAgain, Rounds

ASKING_TOOLS = frozenset({"codex", "codex-reply"})


class _ListenParams(msgspec.Struct):
    notifications: dict[str, Any]


def find_modern_handler(call: Call, method: str, find_tool: Callable[[Call, str], Handler], list_tools: Handler) -> Handler:
    """Also says how the answer looks. Raises what the client is to be told."""
    call.client.peer.meet(read_meta(call.arguments), MODERN)
    match method:
        case "tools/call":
            return _tool_handler(call, method, find_tool)
        case "tools/list":
            call.shape = ModernShape(METHOD_SHAPE, {"ttlMs": LIST_TTL_MS, "cacheScope": "public"})
            return list_tools
        case "server/discover":
            call.shape = ModernShape(METHOD_SHAPE)
            return _discover
        case "subscriptions/listen":
            call.shape = ModernShape(METHOD_SHAPE)
            return _listen
        case _:
            raise MethodNotFound(method)


def _tool_handler(call: Call, method: str, find_tool: Callable[[Call, str], Handler]) -> Handler:
    params = call.arguments
    try:
        asked = msgspec.json.decode(params, type=AskedAgain)
    except msgspec.MsgspecError as error:
        raise InvalidParams(f"Invalid params of tools/call: {error}") from None
    handler = find_tool(call, method)
    call.shape = ModernShape(call.shape)
    if asked.name not in ASKING_TOOLS:
        return handler
    rounds = Rounds(call, asked)
    call.client.call_viewer = rounds.make_viewer
    return handler if asked.request_state is None else rounds.take_up


async def _discover(call: Call) -> dict[str, Any]:
    return discovered()


async def _listen(call: Call) -> Later:
    """Open until the client leaves. Nothing that can be listened for changes while a server runs, so nothing is accepted."""
    try:
        msgspec.json.decode(call.arguments or b"{}", type=_ListenParams)
    except msgspec.MsgspecError as error:
        raise InvalidParams(f"Invalid params of subscriptions/listen: {error}") from None
    params = {"_meta": {f"{PREFIX}subscriptionId": call.id}, "notifications": {}}
    call.sink.send(notification_line("notifications/subscriptions/acknowledged", params), call.id)
    call.when_cancelled(lambda: call.answer({}))
    return LATER
