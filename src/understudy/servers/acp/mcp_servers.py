"""The MCP servers that an editor names for a session, as keys of our configuration.

Their variables and headers never reach the log: `without_secrets` leaves them out of what is stored.
"""

import re
from collections.abc import Sequence
from typing import Any

from understudy.servers.acp.params import McpServer
from understudy.servers.failures import InvalidParams

MOST_SERVERS = 64
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]+")


def server_overrides(servers: Sequence[McpServer]) -> dict[str, Any]:
    """Keys of `Overrides.config`. Raises `InvalidParams`."""
    if len(servers) > MOST_SERVERS:
        raise InvalidParams(f"Invalid params: `mcpServers` has {len(servers)} entries; {MOST_SERVERS} are the most")
    found: dict[str, Any] = {}
    for number, server in enumerate(servers):
        name = _NOT_IN_NAMES.sub("-", server.name).strip("-") or f"server-{number + 1}"
        if f"mcp_servers.{name}" in found:
            raise InvalidParams(f"Invalid params: two entries of `mcpServers` are called {name!r}")
        found[f"mcp_servers.{name}"] = _table(server, f"mcpServers[{number}]")
    return found


def _table(server: McpServer, where: str) -> dict[str, Any]:
    match server.type:
        case None | "stdio":
            if not server.command:
                raise InvalidParams(f"Invalid params: `{where}` has no `command`")
            env = {variable.name: variable.value for variable in server.env or ()}
            return {"command": server.command, "args": list(server.args or ()), "env": env}
        case "http":
            if not server.url:
                raise InvalidParams(f"Invalid params: `{where}` has no `url`")
            return {"url": server.url, "http_headers": {header.name: header.value for header in server.headers or ()}}
        case other:
            raise InvalidParams(f"Invalid params: `{where}` has the type {other!r}; a server is a program (`stdio`) or `http`")
