"""`list_files`: the files below a folder."""

from understudy.protocol.items import FunctionCall
from understudy.tools.arguments import read_arguments
from understudy.tools.tool import ListRequest, ToolContext, ToolOutput


class ListFiles:
    name = "list_files"

    async def run(self, call: FunctionCall, context: ToolContext) -> ToolOutput:
        return await context.list_files(read_arguments(call.arguments, ListRequest))
