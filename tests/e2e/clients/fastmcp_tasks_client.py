"""fastmcp with `fastmcp-tasks`: a call that becomes a task unnoticed and has a question, a task in hand, and a cancelled one."""

import asyncio
import importlib
from typing import Any

from task import read_task, tell

fastmcp: Any = importlib.import_module("fastmcp")  # of this script's environment, not of the one that checks its types
transports: Any = importlib.import_module("fastmcp.client.transports")
tasks: Any = importlib.import_module("fastmcp_tasks.client")

questions: list[str] = []


async def approve(message: str, response_type: Any, params: Any, context: Any) -> Any:
    questions.append(message)
    return importlib.import_module("fastmcp.client.elicitation").ElicitResult(action="accept", content={"decision": "approved"})


async def main() -> None:
    server = read_task()
    if "url" in server:
        way = transports.StreamableHttpTransport(server["url"], headers={"Authorization": f"Bearer {server['token']}"})
    else:
        way = transports.StdioTransport(server["command"], server["args"], env=server["env"], cwd=server["cwd"])
    async with fastmcp.Client(way, elicitation_handler=approve) as client:
        unnoticed = await client.call_tool("codex", {"prompt": "make a file"})
        thread = unnoticed.structured_content["threadId"]
        in_hand = await tasks.call_tool_task(client, "codex-reply", {"threadId": thread, "prompt": "and now?"})
        result = await in_hand.result()
        stopped = await tasks.call_tool_task(client, "codex-reply", {"threadId": thread, "prompt": "wait"})
        before = await stopped.status()
        await stopped.cancel()
        after = await stopped.wait(timeout=60)
    tell(
        questions=questions,
        answers=[unnoticed.structured_content["content"], result.structured_content["content"]],
        states=[before.status, after.status],
        ids=len({in_hand.task_id, stopped.task_id}),
    )


asyncio.run(main())
