"""`search`: lines in files that fit a regular expression."""

from understudy.protocol.items import FunctionCall
from understudy.tools.arguments import read_arguments
from understudy.tools.tool import SearchRequest, ToolContext, ToolOutput


class Search:
    name = "search"

    async def run(self, call: FunctionCall, context: ToolContext) -> ToolOutput:
        return await context.search(read_arguments(call.arguments, SearchRequest))
