"""A table of tools that is filled by decorators, and the results that tools give."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from understudy.protocol.jsonrpc import Response, notification_line
from understudy.servers.mcp.call import Call, Handler
from understudy.servers.mcp.results import SESSION
from understudy.servers.mcp.tool_table import ClientTool

Json = dict[str, Any]
Serve = Callable[[Call], Awaitable[Any]]
NO_ARGUMENTS: Json = {"type": "object", "properties": {}}


class Tools(dict[str, ClientTool]):
    def add(self, name: str, description: str, schema: Json = NO_ARGUMENTS, *, turn: bool = False) -> Callable[[Serve], Serve]:
        """`turn`: a call of it is answered by the end of a turn."""
        members: dict[str, Json] = schema["properties"]
        in_headers = {member: held["x-mcp-header"] for member, held in members.items() if "x-mcp-header" in held}

        def keep(serve: Serve) -> Serve:
            described = {"name": name, "description": description, "inputSchema": schema}
            handler: Handler = serve
            self[name] = ClientTool(described, lambda: handler, SESSION, turn, in_headers)
            return serve

        return keep


def properties(*required: str, **more: Json) -> Json:
    """The schema of an object with these members; those that are not described are texts."""
    members = {name: {"type": "string"} for name in required} | more
    return {"type": "object", "properties": members, "required": list(required)}


def text(text: str) -> Json:
    return {"type": "text", "text": text}


def result(*content: Json) -> Json:
    return {"content": list(content)}


def notify(call: Call, method: str, **params: Any) -> None:
    call.sink.send(notification_line(method, params), call.id)


async def ask(call: Call, method: str, params: Json) -> Any:
    """A request to the client of the era with sessions, as part of this call: its result."""
    answered: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
    call.client.peer.request(method, params, answered.set_result, call.sink, call.id)
    return (await answered).result
