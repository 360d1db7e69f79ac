"""`read_file`: lines of a file, with their numbers."""

from understudy.protocol.items import FunctionCall
from understudy.tools.arguments import read_arguments
from understudy.tools.tool import ReadRequest, ToolContext, ToolOutput


class ReadFile:
    name = "read_file"

    async def run(self, call: FunctionCall, context: ToolContext) -> ToolOutput:
        return await context.read_lines(read_arguments(call.arguments, ReadRequest))
