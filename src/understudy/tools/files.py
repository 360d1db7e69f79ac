"""The tools that read, search, list, show and change files."""

import msgspec

from understudy.protocol.items import FunctionCall
from understudy.tools.calls import EditRequest, ListRequest, ReadRequest, SearchRequest, ToolOutput, read_arguments
from understudy.tools.tool import ToolContext


class ReadFile:
    name = "read_file"

    async def run(self, call: FunctionCall, context: ToolContext) -> ToolOutput:
        return await context.read_lines(read_arguments(call.arguments, ReadRequest))


class Search:
    name = "search"

    async def run(self, call: FunctionCall, context: ToolContext) -> ToolOutput:
        return await context.search(read_arguments(call.arguments, SearchRequest))


class ListFiles:
    name = "list_files"

    async def run(self, call: FunctionCall, context: ToolContext) -> ToolOutput:
        return await context.list_files(read_arguments(call.arguments, ListRequest))


class ViewRequest(msgspec.Struct, frozen=True):
    path: str


class ViewImage:
    name = "view_image"

    async def run(self, call: FunctionCall, context: ToolContext) -> ToolOutput:
        return await context.view_image(read_arguments(call.arguments, ViewRequest).path)


class EditFile:
    name = "edit_file"

    async def run(self, call: FunctionCall, context: ToolContext) -> ToolOutput:
        return await context.edit_file(read_arguments(call.arguments, EditRequest))


class PatchParams(msgspec.Struct, frozen=True):
    input: str


class ApplyPatch:
    name = "apply_patch"

    async def run(self, call: FunctionCall, context: ToolContext) -> ToolOutput:
        params = read_arguments(call.arguments, PatchParams, "ApplyPatchToolArgs")
        return await context.apply_patch(params.input)
