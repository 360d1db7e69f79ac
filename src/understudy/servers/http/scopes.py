"""What a signed token lacks for a request of MCP: told before anything is done, so that a client can ask its issuer for more.

It is about scopes, not about conversations: whether the caller may touch the one that is meant, its handler decides.
"""

from typing import Any

import msgspec

from understudy.protocol.callers import Caller, Right
from understudy.protocol.jsonrpc import Request
from understudy.servers.mcp.tool_table import Offer

_METHODS: dict[str, tuple[Right, ...]] = {
    "tasks/get": ("read",),
    "tasks/update": ("approve", "read"),
    "tasks/cancel": ("run", "read"),
}


class _ToolCall(msgspec.Struct):
    name: str
    arguments: dict[str, Any] | None = None


def lacking_rights(caller: Caller, request: Request, offer: Offer) -> list[Right]:
    """Rights that the request needs, and that the caller has on no conversation at all."""
    return [right for right in _needed(request, offer) if right not in caller.rights and right not in caller.others]


def _needed(request: Request, offer: Offer) -> tuple[Right, ...]:
    if request.method != "tools/call":
        return _METHODS.get(request.method, ())
    try:
        called = msgspec.json.decode(request.params or b"{}", type=_ToolCall)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ()  # whoever serves it says what is wrong
    tool = offer.tools.get(called.name)
    if tool is None:
        return ()
    return (*tool.needs, *(right for name, right in tool.needs_with.items() if name in (called.arguments or {})))
