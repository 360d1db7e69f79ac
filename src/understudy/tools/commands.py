"""`shell`, `exec_command` and `write_stdin`: run a command by its arguments, run a shell line that may outlive its call, and type
at that.
"""

from typing import Annotated

import msgspec

from understudy.errors import ToolError
from understudy.protocol.items import FunctionCall
from understudy.tools.calls import CommandRequest, InputRequest, SessionRequest, ToolOutput, read_arguments
from understudy.tools.tool import ToolContext

_LONGEST_MS = 10**15  # longer than any limit; a float cannot hold every number


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


SHORTEST, LONGEST = 250, 30_000  # milliseconds that a call waits
SHORTEST_POLL, LONGEST_POLL = 5_000, 300_000  # if nothing is typed
DEFAULT_WAIT = 10_000

Number = int | float  # models also write 1e4


class ExecCommandParams(msgspec.Struct, frozen=True):
    cmd: str
    workdir: str | None = None
    shell: str | None = None
    login: bool | None = None
    tty: bool | None = None
    yield_time_ms: Number | None = None
    max_output_tokens: Number | None = None
    sandbox_permissions: str | None = None
    with_escalated_permissions: bool | None = None  # as `shell` has it
    justification: str | None = None
    prefix_rule: tuple[str, ...] | None = None  # models know it from elsewhere; it has no effect, because only the user makes rules


class WriteStdinParams(msgspec.Struct, frozen=True):
    session_id: Number | str
    chars: str | None = None
    yield_time_ms: Number | None = None
    max_output_tokens: Number | None = None


class ExecCommand:
    name = "exec_command"

    async def run(self, call: FunctionCall, context: ToolContext) -> ToolOutput:
        params = read_arguments(call.arguments, ExecCommandParams)
        if params.sandbox_permissions not in (None, "use_default", "require_escalated"):
            raise ToolError("exec_command failed: sandbox_permissions is use_default or require_escalated")
        return await context.start_session(
            SessionRequest(
                params.cmd,
                params.workdir,
                params.shell or None,
                params.login is not False,
                bool(params.tty),
                _seconds(params.yield_time_ms, DEFAULT_WAIT, SHORTEST, LONGEST),
                _tokens(params.max_output_tokens),
                escalated=params.sandbox_permissions == "require_escalated" or bool(params.with_escalated_permissions),
                justification=params.justification,
            )
        )


class WriteStdin:
    name = "write_stdin"

    async def run(self, call: FunctionCall, context: ToolContext) -> ToolOutput:
        params = read_arguments(call.arguments, WriteStdinParams)
        bounds = (SHORTEST, SHORTEST, LONGEST) if params.chars else (SHORTEST_POLL, SHORTEST_POLL, LONGEST_POLL)
        seconds = _seconds(params.yield_time_ms, *bounds)
        return await context.write_input(
            InputRequest(_session(params.session_id), params.chars or "", seconds, _tokens(params.max_output_tokens))
        )


def _seconds(milliseconds: Number | None, default: int, least: int, most: int) -> float:
    wanted = default if milliseconds is None else milliseconds
    return min(max(wanted, least), most) / 1000


def _tokens(given: Number | None) -> int | None:
    return None if given is None else int(min(max(given, 0), 1 << 40))


def _session(given: Number | str) -> int:
    if isinstance(given, str):
        if not given.strip().isdecimal() or len(given) > 20:
            raise ToolError("write_stdin failed: session_id is the number that exec_command gave")
        return int(given)
    if isinstance(given, float) and not given.is_integer():
        raise ToolError("write_stdin failed: session_id is a whole number")
    return int(given)
