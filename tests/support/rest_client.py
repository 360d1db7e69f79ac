"""A client of REST: with a token, or as a browser with a cookie."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.http_server import HttpClient, HttpServer, Json, Response
from understudy.testing import ScriptedModel
from understudy.testing.waiting import WAIT_SECONDS

_LINK = re.compile(r"(http\S+)/login\?code=([A-Z2-7]+)")


class RestClient:
    def __init__(self, port: int, token: str | None = None, *, cookie: str | None = None) -> None:
        self.port = port
        self._http = HttpClient(port, token)
        self.cookie = cookie

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str | None] | None = None) -> Response:
        """As our own page would send it, where there is a cookie; `headers` replace those that are usual."""
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        usual: dict[str, str | None] = {"Accept": "application/json", "Content-Type": None, "Content-Length": None}
        if body is not None or method != "GET":
            usual |= {"Content-Type": "application/json", "Content-Length": str(len(data))}
        if self.cookie is not None:
            usual |= {"Cookie": self.cookie, "Sec-Fetch-Site": "same-origin"}
            usual["Origin"] = None if method == "GET" else self.origin
        return await self._http.request(method, usual | dict(headers or {}), data, path)

    async def get(self, path: str, **headers: str) -> Json:
        return await self._ok(await self.request("GET", path, headers=headers))

    async def post(self, path: str, body: Any = None) -> Json:
        return await self._ok(await self.request("POST", path, body))

    async def delete(self, path: str) -> Json:
        return await self._ok(await self.request("DELETE", path))

    async def status(self, method: str, path: str, body: Any = None, **headers: str | None) -> tuple[int, str]:
        """And the code of the error."""
        response = await self.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        text = await response.body()
        told: Json = json.loads(text) if text.startswith(b"{") else {}
        return response.status, told.get("error", {}).get("code", "")

    async def create(self, cwd: Path, prompt: str = "", **more: Any) -> Json:
        return await self.post("/v1/conversations", {"prompt": prompt, "folder": str(cwd), **more})

    async def stream(self, conversation: str, query: str = "", last_event_id: str | None = None) -> Stream:
        headers = {"Accept": "text/event-stream"} | ({} if last_event_id is None else {"Last-Event-ID": last_event_id})
        response = await self.request("GET", f"/v1/conversations/{conversation}/events{query}", headers=headers)
        assert response.status == 200, await response.body()
        return Stream(response)

    async def changes(self) -> Stream:
        response = await self.request("GET", "/v1/changes", headers={"Accept": "text/event-stream"})
        assert response.status == 200, await response.body()
        return Stream(response)

    @staticmethod
    async def _ok(response: Response) -> Json:
        body = await response.body()
        assert 200 <= response.status < 300, (response.status, body)
        return json.loads(body) if body else {}


class Stream:
    """Events of a conversation, one after the other."""

    def __init__(self, response: Response) -> None:
        self.response = response
        self._events: AsyncIterator[Json] = response.events()
        self.seen: list[Json] = []  # each with its `id` and `data`
        self.last_id: str | None = None

    async def next(self) -> Json:
        event = await asyncio.wait_for(anext(self._events), WAIT_SECONDS)
        self.seen.append(event)
        self.last_id = event.get("id", self.last_id)
        return event["data"]

    async def until(self, kind: str) -> Json:
        return await self.until_it(lambda data: data["msg"]["type"] == kind)

    async def until_it(self, fits: Callable[[Json], bool]) -> Json:
        async with asyncio.timeout(WAIT_SECONDS):  # all of it: a ping now and then is no event
            while not fits(data := await self.next()):
                pass
            return data

    async def is_over(self) -> bool:
        """Whether it ends, after whatever is still on its way."""
        try:
            while True:
                await self.next()
        except StopAsyncIteration:
            return True

    def records(self) -> list[Json]:
        """Events that are of records: no deltas, and nothing about viewers."""
        return [event for event in self.seen if "id" in event["data"]]

    def close(self) -> None:
        self.response.close()


def link_of(server: HttpServer) -> str:
    """The code of the link that the server has printed."""
    found = _LINK.search(server.stderr)
    assert found is not None, server.stderr
    return found[2]


async def printed_link(server: HttpServer) -> str:
    async with asyncio.timeout(WAIT_SECONDS):
        while _LINK.search(server.stderr) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return link_of(server)


async def log_in(server: HttpServer) -> RestClient:
    """A browser that has opened the link."""
    client = RestClient(server.port)
    response = await client.request("POST", "/login", {"code": await printed_link(server)}, {"Origin": client.origin})
    assert response.status == 204, await response.body()
    return RestClient(server.port, cookie=response.headers["set-cookie"].partition(";")[0])


@asynccontextmanager
async def serving_rest(
    tmp_path: Path, model: ScriptedModel | str | None = None, *args: str, config: Mapping[str, Any] | None = None
) -> AsyncGenerator[tuple[HttpServer, RestClient]]:
    """A server, and a client with its first token."""
    async with HttpServer(tmp_path, model, args=args, config=config) as server:
        yield server, RestClient(server.port, server.token)
