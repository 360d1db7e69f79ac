"""What a tool is, and all that it gets: ways to act that policy judges.

A tool has no path, process or sandbox, so it cannot act without being judged; `tests/tools/test_what_tools_can_reach.py` checks
that for every tool. The code that acts is in `tools/acts`.
"""

from typing import TYPE_CHECKING, Any, Protocol

from understudy.protocol.items import FunctionCall
from understudy.protocol.records import InputQuestion, PlanUpdated
from understudy.tools.calls import (
    CommandRequest,
    EditRequest,
    InputRequest,
    ListRequest,
    ReadRequest,
    SearchRequest,
    SessionRequest,
    ToolOutput,
)
from understudy.tools.host import ToolHost

if TYPE_CHECKING:
    from understudy.tools.mcp.remote_tool import RemoteTool


class ToolContext:
    """What a tool can do, for one call of the model."""

    __slots__ = ("_call_id", "_host")

    def __init__(self, host: ToolHost, call: FunctionCall) -> None:
        self._host = host
        self._call_id = call.call_id

    async def run_command(self, request: CommandRequest) -> ToolOutput:
        """Judge a command, ask about it if needed, run it contained. Raises `ToolError` if it may not begin."""
        from understudy.tools.acts.commands import run_command  # imported only when a model is at work

        return await run_command(self._host, self._call_id, request)

    async def start_session(self, request: SessionRequest) -> ToolOutput:
        """Like `run_command`, but the command may go on. Raises `ToolError` if it may not begin."""
        from understudy.tools.acts.long_commands import start_session

        return await start_session(self._host, self._call_id, request)

    async def write_input(self, request: InputRequest) -> ToolOutput:
        """Type at the terminal of a command that goes on, and see what it prints. Raises `ToolError` if there is none."""
        from understudy.tools.acts.long_commands import write_input

        return await write_input(self._host, self._call_id, request)

    async def apply_patch(self, patch: str) -> ToolOutput:
        """Check a patch, judge it, ask about it if needed, apply all of it or nothing."""
        from understudy.tools.acts.patches import apply_patch

        return await apply_patch(self._host, self._call_id, patch, self._host.settings.cwd)

    async def edit_file(self, request: EditRequest) -> ToolOutput:
        """Like a patch: judged, asked about if needed, recorded, all of it or nothing."""
        from understudy.tools.acts.patches import edit_file
        from understudy.tools.patch.replacing import ReplaceOperation

        operation = ReplaceOperation(request.path, request.old_text, request.new_text, bool(request.replace_all))
        return await edit_file(self._host, self._call_id, operation)

    async def read_lines(self, request: ReadRequest) -> ToolOutput:
        """Numbered lines of a file that the model may see. Raises `ToolError` if it is masked or cannot be read."""
        from understudy.tools.acts.files import read_lines

        return await read_lines(self._host, self._call_id, request)

    async def search(self, request: SearchRequest) -> ToolOutput:
        """Lines that match a pattern, in files that the model may see. Raises `ToolError`."""
        from understudy.tools.acts.looking import search

        return await search(self._host, self._call_id, request)

    async def list_files(self, request: ListRequest) -> ToolOutput:
        """Files that the model may know about. Raises `ToolError`."""
        from understudy.tools.acts.looking import list_files

        return await list_files(self._host, self._call_id, request)

    async def read_file(self, path: str, most: int) -> bytes:
        """The first `most` bytes of a regular file that the model may see. A relative path starts at the working directory.

        Raises `ToolError` if it is masked or cannot be read.
        """
        from understudy.tools.acts.files import read_file

        return await read_file(self._host, path, most)

    async def view_image(self, path: str) -> ToolOutput:
        """An image file that the model may see. Raises `ToolError` if it is masked, cannot be read or is not an image."""
        from understudy.tools.acts.files import view_image

        return await view_image(self._host, self._call_id, path)

    async def call_other_server(self, tool: "RemoteTool", arguments: dict[str, Any]) -> ToolOutput:
        """Judge a call of another server's tool, ask about it if needed, make it. Raises `ToolError` if it is refused."""
        from understudy.tools.acts.other_servers import call_other_server

        return await call_other_server(self._host, self._call_id, tool, arguments)

    async def use_resources(self, name: str, arguments: dict[str, Any]) -> ToolOutput:
        """List or read what other servers offer besides tools. Raises `ToolError`."""
        from understudy.tools.acts.other_servers import use_resources

        return await use_resources(self._host, self._call_id, name, arguments)

    async def ask_user(self, questions: tuple[InputQuestion, ...]) -> ToolOutput:
        """Ask the user these questions, and wait for the answers, however long they take. If there is nobody to ask, the model
        is told so."""
        from understudy.tools.acts.asking_user import ask_user

        return await ask_user(self._host, self._call_id, questions)

    def show_plan(self, plan: PlanUpdated) -> None:
        """Record the model's plan, for viewers."""
        self._host.record(plan)


class Tool(Protocol):
    """Something that a model can call. One instance serves all conversations, so it keeps nothing between calls."""

    name: str

    async def run(self, call: FunctionCall, context: ToolContext) -> ToolOutput:
        """Raises `ToolError` with a reason for the model."""
        ...
