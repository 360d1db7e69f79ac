"""Tools of other servers as tools of ours. They have no access to the server: they ask for a call, which is judged."""

from typing import Any, cast

import msgspec

from understudy.errors import ToolError
from understudy.protocol.items import FunctionCall
from understudy.tools.calls import ToolOutput
from understudy.tools.mcp.remote_tool import RESOURCE_METHODS, RemoteTool
from understudy.tools.tool import Tool, ToolContext


class OtherServersTool:
    def __init__(self, tool: RemoteTool) -> None:
        self.name = tool.name
        self.remote = tool

    async def run(self, call: FunctionCall, context: ToolContext) -> ToolOutput:
        return await context.call_other_server(self.remote, read_arguments(call))


class ResourceTool:
    def __init__(self, name: str) -> None:
        self.name = name

    async def run(self, call: FunctionCall, context: ToolContext) -> ToolOutput:
        arguments = read_arguments(call)
        for key in ("server", "cursor", "uri"):
            if not isinstance(arguments.get(key, ""), str):
                raise ToolError(f"failed to parse function arguments: `{key}` should be a string")
        return await context.use_resources(self.name, arguments)


def resource_tool(name: str) -> Tool | None:
    return ResourceTool(name) if name in RESOURCE_METHODS else None


def read_arguments(call: FunctionCall) -> dict[str, Any]:
    """Blank arguments count as none. Raises `ToolError`."""
    if not call.arguments.strip():
        return {}
    try:
        arguments = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ToolError(f"failed to parse function arguments: {error}") from None
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        raise ToolError("failed to parse function arguments: they should be a JSON object")
    return cast(dict[str, Any], arguments)
