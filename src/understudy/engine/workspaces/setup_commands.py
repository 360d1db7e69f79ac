"""Runs the caller's commands in a new workspace before the model is asked, sandboxed like every command of the mode."""

from understudy.errors import AgentError
from understudy.protocol.ids import new_uuid
from understudy.protocol.items import InputText, Message
from understudy.protocol.records import Noticed, UserMessage, Workspace
from understudy.tools.acts.commands import run_for_user
from understudy.tools.host import ToolHost

SETUP_CALL = "setup-"


async def run_setup(host: ToolHost, turn: str, workspace: Workspace | None) -> None:
    """Run the setup commands in order until one fails. The model is then told its output, and the turn continues."""
    for number, command in enumerate(() if workspace is None else workspace.setup, start=1):
        try:
            output = await run_for_user(host, f"{SETUP_CALL}{turn}-{number}", ("sh", "-c", command))
        except AgentError as error:
            host.record(Noticed(f"the workspace's setup command `{command}` could not be run: {error}"))
            return
        if not output.success:
            host.record(Noticed(f"the workspace's setup command `{command}` failed; those after it were not run"))
            told = f"The workspace was made for this conversation, and `{command}`, which prepares it, failed:\n\n{output.text}"
            host.record(UserMessage(new_uuid(), Message("user", (InputText(told),))))
            return
