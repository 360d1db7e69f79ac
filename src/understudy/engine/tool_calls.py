"""Running the tool calls of a model's answer: each is run to its end, and what the model is given for it is recorded."""

from collections.abc import Callable

from understudy.engine.tail import Tail
from understudy.errors import AgentError, ToolError
from understudy.protocol.items import FunctionCall, FunctionCallOutput
from understudy.protocol.records import ToolAnswered
from understudy.tools.host import ToolHost
from understudy.tools.tool import Tool, ToolContext, ToolOutput


async def run_call(call: FunctionCall, find_tool: Callable[[str], Tool | None], host: ToolHost, tail: Tail) -> None:
    tool = find_tool(call.name)
    try:
        if tool is None:
            output = ToolOutput(f"unsupported call: {call.name}", success=False)
        else:
            output = await tool.run(call, ToolContext(host, call))
    except ToolError as error:
        output = ToolOutput(str(error), success=False)
    except AgentError as error:  # the act could not be contained or recorded: the model is told, unless the log itself is gone
        if tail.failure:
            raise
        output = ToolOutput(f"execution error: {error}", success=False)
    host.record(ToolAnswered(FunctionCallOutput(call.call_id, output.text, output.images), output.success))
