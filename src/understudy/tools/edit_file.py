"""`edit_file`: one passage of a file in place of another, by exact text."""

from understudy.protocol.items import FunctionCall
from understudy.tools.arguments import read_arguments
from understudy.tools.tool import EditRequest, ToolContext, ToolOutput


class EditFile:
    name = "edit_file"

    async def run(self, call: FunctionCall, context: ToolContext) -> ToolOutput:
        return await context.edit_file(read_arguments(call.arguments, EditRequest))
