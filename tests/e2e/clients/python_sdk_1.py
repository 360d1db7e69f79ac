"""The official Python SDK of the 1.x line: list tools, call `codex` with an approval, go on with `codex-reply`."""

import asyncio
import importlib
import logging
from typing import Any

from task import read_task, tell

mcp: Any = importlib.import_module("mcp")  # of this script's environment, not of the one that checks its types
stdio: Any = importlib.import_module("mcp.client.stdio")

questions: list[str] = []
steps: list[str] = []
warnings: list[str] = []


class Warnings(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        warnings.append(record.getMessage())


async def approve(context: Any, params: Any) -> Any:
    questions.append(params.message)
    return mcp.types.ElicitResult(action="accept", content={})


async def on_progress(progress: float, total: float | None, message: str | None) -> None:
    steps.append(message or "")


async def main() -> None:
    logging.getLogger().addHandler(Warnings(logging.WARNING))  # this line warns of every notification it does not know
    async with (
        stdio.stdio_client(mcp.StdioServerParameters(**read_task())) as (read, write),
        mcp.ClientSession(read, write, elicitation_callback=approve) as session,
    ):
        await session.initialize()
        tools = await session.list_tools()
        first = await session.call_tool("codex", {"prompt": "make a file"}, progress_callback=on_progress)
        thread = first.structuredContent["threadId"]
        second = await session.call_tool("codex-reply", {"threadId": thread, "prompt": "and now?"})
    tell(
        tools=[tool.name for tool in tools.tools],
        questions=questions,
        progress=steps,
        warnings=warnings,
        answers=[first.structuredContent, second.structuredContent],
    )


asyncio.run(main())
