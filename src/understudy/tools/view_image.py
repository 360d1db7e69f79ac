"""`view_image`: an image file, shown to the model."""

import msgspec

from understudy.protocol.items import FunctionCall
from understudy.tools.arguments import read_arguments
from understudy.tools.tool import ToolContext, ToolOutput


class ViewRequest(msgspec.Struct, frozen=True):
    path: str


class ViewImage:
    name = "view_image"

    async def run(self, call: FunctionCall, context: ToolContext) -> ToolOutput:
        return await context.view_image(read_arguments(call.arguments, ViewRequest).path)
