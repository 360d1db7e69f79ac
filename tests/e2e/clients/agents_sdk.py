"""The OpenAI Agents SDK: an agent whose scripted model calls our `codex` and repeats what it said."""

import asyncio
import importlib
from typing import Any

from task import read_task, tell

agents: Any = importlib.import_module("agents")  # of this script's environment, not of the one that checks its types
mcp: Any = importlib.import_module("agents.mcp")
testing: Any = importlib.import_module("agents.testing")


async def main() -> None:
    async with mcp.MCPServerStdio(params=read_task(), client_session_timeout_seconds=600) as server:
        tools = [tool.name for tool in await server.list_tools()]
        arguments = {"prompt": "make a file", "approval-policy": "never"}
        answers = [[testing.function_call("codex", arguments, call_id="c1")], [testing.assistant_message("done")]]
        agent = agents.Agent(name="caller", model=testing.ScriptedModel(answers), mcp_servers=[server])
        result = await agents.Runner.run(agent, "go")
        outputs = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    tell(tools=tools, final=result.final_output, outputs=outputs)


asyncio.run(main())
