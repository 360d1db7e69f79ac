"""`apply_patch`: changes to files, in the format that its description gives."""

import msgspec

from understudy.protocol.items import FunctionCall
from understudy.tools.arguments import read_arguments
from understudy.tools.tool import ToolContext, ToolOutput


class PatchParams(msgspec.Struct, frozen=True):
    input: str


class ApplyPatch:
    name = "apply_patch"

    async def run(self, call: FunctionCall, context: ToolContext) -> ToolOutput:
        params = read_arguments(call.arguments, PatchParams, "ApplyPatchToolArgs")
        return await context.apply_patch(params.input)
