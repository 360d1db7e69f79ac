"""What the tests of other servers' tools share."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

KINDS = str(Path(__file__).parent.parent / "golden" / "kinds_mcp.py")
PATIENT: dict[str, Any] = {"understudy.mcp.wait_seconds": 60}  # how long a busy machine takes is not what these tests are about


def server(name: str, mode: str = "kinds", **settings: Any) -> dict[str, Any]:
    """The configuration of a server that is our script in one of its modes."""
    return program(name, sys.executable, KINDS, mode, **settings)


def program(name: str, command: str, *args: str, **settings: Any) -> dict[str, Any]:
    prefix = f"mcp_servers.{name}"
    return {
        **PATIENT,
        f"{prefix}.command": command,
        f"{prefix}.args": list(args),
        **{f"{prefix}.{key}": value for key, value in settings.items()},
    }


def names_offered(request: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in request["tools"]]


def offered(request: dict[str, Any], name: str) -> dict[str, Any]:
    return next(tool["function"] for tool in request["tools"] if tool["function"]["name"] == name)


class HttpToolServer:
    """A server over streamable HTTP with the tool `ok`, made with the official SDK; it keeps the headers that it was sent."""

    def __init__(self) -> None:
        self.url = ""
        self.headers: list[dict[str, str]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await self.app(scope, receive, send)

    app: Any = None


@asynccontextmanager
async def tool_server_on_http() -> AsyncGenerator[HttpToolServer]:
    import uvicorn
    from mcp.server.mcpserver import MCPServer

    tools = MCPServer("web")

    async def ok(s: str) -> str:
        return "got " + json.dumps({"s": s})

    tools.add_tool(ok, structured_output=False)
    server = HttpToolServer()
    server.app = tools.streamable_http_app()
    listening = socket.create_server(("127.0.0.1", 0))
    running = uvicorn.Server(uvicorn.Config(server, log_level="critical", timeout_graceful_shutdown=1))
    running.install_signal_handlers = lambda: None  # pyright: ignore[reportAttributeAccessIssue]
    serving = asyncio.create_task(running.serve(sockets=[listening]))
    server.url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    try:
        yield server
    finally:
        running.should_exit = True
        await asyncio.wait_for(serving, 60)
        listening.close()
