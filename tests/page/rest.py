"""What happens besides the page: another client, by REST with a token."""

import asyncio
import json
from typing import Any

from tests.support.http_server import HttpClient, HttpServer
from understudy.testing.waiting import WAIT_SECONDS


class Rest:
    def __init__(self, server: HttpServer) -> None:
        self._http = HttpClient(server.port, server.token)

    async def get(self, path: str) -> Any:
        return await self._request("GET", path)

    async def post(self, path: str, body: Any = None) -> Any:
        return await self._request("POST", path, {} if body is None else body)

    async def _request(self, method: str, path: str, body: Any = None) -> Any:
        data = b"" if body is None else json.dumps(body).encode()
        response = await self._http.request(method, {"Accept": "application/json"}, data, path)
        text = await response.body()
        response.close()
        assert response.status < 300, (path, response.status, text)
        return json.loads(text) if text else None

    async def until_idle(self, conversation_id: str) -> Any:
        """Until no turn runs in it. What it is then."""
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                row = await self.get(f"/v1/conversations/{conversation_id}")
                if row["state"] not in ("working", "waiting"):
                    return row
                await asyncio.sleep(0.02)

    async def until_asked(self, conversation_id: str) -> Any:
        """Until it asks something. The question."""
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                if questions := (await self.get(f"/v1/conversations/{conversation_id}"))["questions"]:
                    return questions[0]
                await asyncio.sleep(0.02)
