"""Clients that know tasks (`io.modelcontextprotocol/tasks`), over HTTP and on standard input and output."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any, Protocol

from tests.support.http_server import META, MODERN, HttpClient
from understudy.testing import LineProcess
from understudy.testing.waiting import WAIT_SECONDS

Json = dict[str, Any]
TASKS = f"{META}tasks"
KNOWS_TASKS: Json = {"extensions": {TASKS: {}}}
ASKABLE: Json = {"elicitation": {}, **KNOWS_TASKS}
BETWEEN_LOOKS_SECONDS = 0.02


class Door(Protocol):
    async def message(self, method: str, params: Json, capabilities: Json, **meta: Any) -> Json:
        """The answer to a request: its result or its error. `meta`: more for its `_meta`."""
        ...


class HttpDoor:
    def __init__(self, client: HttpClient) -> None:
        self.client = client

    async def message(self, method: str, params: Json, capabilities: Json, **meta: Any) -> Json:
        return (await (await self.client.modern(method, params, capabilities=capabilities, meta=meta)).messages())[-1]


class StdioDoor:
    def __init__(self, process: LineProcess) -> None:
        self._process = process
        self._ids = itertools.count(1)

    async def message(self, method: str, params: Json, capabilities: Json, **more: Any) -> Json:
        request_id = next(self._ids)
        meta = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": capabilities, **more}
        self._process.send(json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": {**params, "_meta": meta}}))
        while (answer := json.loads(await self._process.next_line())).get("id") != request_id:
            pass
        return answer


class TaskClient:
    def __init__(self, door: Door, capabilities: Json = ASKABLE) -> None:
        self._door = door
        self._capabilities = capabilities

    async def message(self, method: str, params: Json, **meta: Any) -> Json:
        return await self._door.message(method, params, self._capabilities, **meta)

    async def result(self, method: str, params: Json, **meta: Any) -> Json:
        answer = await self.message(method, params, **meta)
        assert "result" in answer, answer
        return answer["result"]

    async def call(self, tool: str, **arguments: Any) -> Json:
        return await self.result("tools/call", {"name": tool, "arguments": arguments})

    async def begin(self, prompt: str = "go", **arguments: Any) -> str:
        """The id of a task that `codex` has made."""
        made = await self.call("codex", prompt=prompt, **arguments)
        assert (made["resultType"], made["status"]) == ("task", "working"), made
        return made["taskId"]

    async def get(self, task: str) -> Json:
        return await self.result("tasks/get", {"taskId": task})

    async def update(self, task: str, answers: Json) -> Json:
        return await self.result("tasks/update", {"taskId": task, "inputResponses": answers})

    async def cancel(self, task: str) -> Json:
        return await self.result("tasks/cancel", {"taskId": task})

    async def until(self, task: str, *wanted: str) -> Json:
        """The task once it has one of these states. Polls, as clients do."""
        async with asyncio.timeout(WAIT_SECONDS):
            while (found := await self.get(task))["status"] not in wanted:  # noqa: ASYNC110
                await asyncio.sleep(BETWEEN_LOOKS_SECONDS)
        return found

    async def over(self, task: str) -> Json:
        return await self.until(task, "completed", "cancelled", "failed")

    async def asked(self, task: str) -> Json:
        return (await self.until(task, "input_required"))["inputRequests"]
