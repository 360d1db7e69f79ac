"""fastmcp's client, or the OpenAI Agents SDK, over HTTP: `python python_http.py TASK`, as typescript_http.mjs has it."""

import asyncio
import importlib
import json
import sys
from typing import Any

TASK: dict[str, Any] = json.loads(sys.argv[1])
HEADERS = {"Authorization": f"Bearer {TASK['token']}"}


def tell(**happened: Any) -> None:
    print(json.dumps(happened), flush=True)


async def wait_to_leave(running: "asyncio.Task[Any]") -> None:
    await asyncio.to_thread(sys.stdin.readline)
    running.cancel()
    await asyncio.wait([running], timeout=60)


async def with_fastmcp() -> dict[str, Any]:
    fastmcp: Any = importlib.import_module("fastmcp")
    transports: Any = importlib.import_module("fastmcp.client.transports")
    questions: list[str] = []
    progress: list[str] = []

    async def approve(message: str, form: Any, params: Any, context: Any) -> Any:
        questions.append(message)
        return form(decision="approved") if form is not None else {}

    async def on_progress(count: float, total: float | None, message: str | None) -> None:
        if not progress:
            tell(word="progress")
        progress.append(message or "")

    transport = transports.StreamableHttpTransport(TASK["url"], headers=HEADERS)
    async with fastmcp.Client(transport, elicitation_handler=approve, progress_handler=on_progress) as client:
        tools = [tool.name for tool in await client.list_tools()]
        tell(word="connected")

        async def call(name: str, **given: Any) -> Any:
            return await client.call_tool(name, given, raise_on_error=False)

        happened: dict[str, Any] = {"answers": []}
        if TASK["scene"] == "reply":
            first = (await call("codex", prompt="make a file")).structured_content
            second = (await call("codex-reply", threadId=first["threadId"], prompt="and now?")).structured_content
            happened = {"answers": [first["content"], second["content"]]}
        elif TASK["scene"] == "cancel":
            await wait_to_leave(asyncio.create_task(call("codex", prompt="x")))
        else:
            result = await call("codex", prompt="x")
            happened = {"answers": [result.structured_content["content"]], "failed": result.is_error}
    return {"tools": tools, "questions": questions, "progress": progress, **happened}


async def with_agents() -> dict[str, Any]:
    mcp: Any = importlib.import_module("agents.mcp")
    params = {"url": TASK["url"], "headers": HEADERS, "timeout": 60, "sse_read_timeout": 600}
    async with mcp.MCPServerStreamableHttp(params=params, client_session_timeout_seconds=TASK.get("seconds", 600)) as server:
        tools = [tool.name for tool in await server.list_tools()]
        tell(word="connected")
        happened: dict[str, Any] = {"answers": []}
        if TASK["scene"] == "reply":
            first = (await server.call_tool("codex", {"prompt": "make a file", "approval-policy": "never"})).structured_content
            second = await server.call_tool("codex-reply", {"threadId": first["threadId"], "prompt": "and now?"})
            happened = {"answers": [first["content"], second.structured_content["content"]]}
        elif TASK["scene"] == "cancel":
            await wait_to_leave(asyncio.create_task(server.call_tool("codex", {"prompt": "x"})))
        else:
            result = await server.call_tool("codex", {"prompt": "x"})
            happened = {"answers": [result.structured_content["content"]], "failed": bool(result.is_error)}
    return {"tools": tools, "questions": [], "progress": [], **happened}


tell(**asyncio.run(with_fastmcp() if TASK["line"] == "fastmcp" else with_agents()))
