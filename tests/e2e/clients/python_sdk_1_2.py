"""The official Python SDK at 1.2.0, which ends at the first notification it does not know: call `codex`, then `codex-reply`."""

import asyncio
import importlib
from typing import Any

from task import read_task, tell

mcp: Any = importlib.import_module("mcp")  # of this script's environment, not of the one that checks its types
stdio: Any = importlib.import_module("mcp.client.stdio")


def texts(result: Any) -> list[str]:
    return [block.text for block in result.content]


async def main() -> None:
    task = read_task()
    cwd = task.pop("cwd")  # it starts servers where it is itself
    async with (
        stdio.stdio_client(mcp.StdioServerParameters(**task)) as (read, write),
        mcp.ClientSession(read, write) as session,
    ):
        await session.initialize()
        tools = await session.list_tools()
        first = texts(await session.call_tool("codex", {"prompt": "hello", "cwd": cwd}))
        thread = first[1].split()[1]
        second = texts(await session.call_tool("codex-reply", {"threadId": thread, "prompt": "and now?"}))
    tell(tools=[tool.name for tool in tools.tools], answers=[first, second])


asyncio.run(main())
