"""What sessions keep in memory: nothing for long, once their clients have no connection."""

import asyncio
import json
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from understudy.engine.engine import Engine
from understudy.protocol.callers import LOCAL
from understudy.protocol.jsonrpc import read_line
from understudy.servers.http.asked import Asked
from understudy.servers.http.principals import Principal
from understudy.servers.mcp.tool_table import OFFER
from understudy.servers.mcp_http.ids import SessionIds
from understudy.servers.mcp_http.legacy import Legacy
from understudy.testing import CodexHome

Json = dict[str, Any]


class Door:
    """Requests to the legacy era, without a network between."""

    def __init__(self, legacy: Legacy) -> None:
        self._legacy = legacy
        self._sent: list[MutableMapping[str, Any]] = []
        self.session = ""

    async def post(self, method: str, params: Json) -> Json:
        async def receive() -> MutableMapping[str, Any]:
            await asyncio.Event().wait()  # the client stays
            return {}

        async def send(message: MutableMapping[str, Any]) -> None:
            self._sent.append(message)

        headers = [(b"mcp-session-id", self.session.encode())] if self.session else []
        asked = Asked({"method": "POST", "path": "/mcp", "headers": headers}, receive)
        message = read_line(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode(), marked=True)
        self._sent.clear()
        await self._legacy.post(asked, message, Principal(LOCAL), send)
        self.session = dict(self._sent[0]["headers"]).get(b"mcp-session-id", b"").decode()
        return json.loads(self._sent[1]["body"])["result"]


async def test_a_session_that_watches_a_conversation_without_a_connection_leaves_memory(tmp_path: Path) -> None:
    home = CodexHome(tmp_path / "home", "http://127.0.0.1:9/v1")
    engine = Engine(env=home.environment())
    try:
        legacy = Legacy(engine, SessionIds(tmp_path), OFFER)
        door = Door(legacy)
        info = {"name": "x", "version": "0"}
        await door.post("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
        made = await door.post("tools/call", {"name": "conversationCreate", "arguments": {"cwd": str(tmp_path)}})
        one = {"conversation_id": made["structuredContent"]["conversation_id"]}
        await door.post("tools/call", {"name": "conversationStream", "arguments": one})
        legacy.forget_idle(60)
        assert legacy.in_memory == 1
        legacy.forget_idle(0)
        assert legacy.in_memory == 0
        assert await door.post("ping", {}) == {}  # it is there again by its id
        assert legacy.in_memory == 1
    finally:
        await engine.close()
