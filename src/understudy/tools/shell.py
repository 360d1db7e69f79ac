"""`shell`: a command with its arguments, run as it is, without a shell in front."""

from typing import Annotated

import msgspec

from understudy.protocol.items import FunctionCall
from understudy.tools.arguments import read_arguments
from understudy.tools.tool import CommandRequest, ToolContext, ToolOutput

_LONGEST_MS = 10**15  # more than any limit; a float cannot hold just any number


class ShellParams(msgspec.Struct, frozen=True):
    command: tuple[str, ...]
    workdir: str | None = None
    timeout: Annotated[int, msgspec.Meta(ge=0)] | None = None  # milliseconds
    timeout_ms: Annotated[int, msgspec.Meta(ge=0)] | None = None
    with_escalated_permissions: bool | None = None
    justification: str | None = None


class Shell:
    name = "shell"

    async def run(self, call: FunctionCall, context: ToolContext) -> ToolOutput:
        params = read_arguments(call.arguments, ShellParams, "ShellToolCallParams")
        milliseconds = params.timeout if params.timeout is not None else params.timeout_ms
        return await context.run_command(
            CommandRequest(
                params.command,
                params.workdir,
                None if milliseconds is None else min(milliseconds, _LONGEST_MS) / 1000,
                escalated=bool(params.with_escalated_permissions),
                justification=params.justification,
            )
        )
