"""Runs a command that says whether a task is done, each time the model thinks that it is, in the sandbox, until it succeeds."""

from understudy.engine.turn.turn_budget import UNTIL_CALL
from understudy.errors import AgentError
from understudy.protocol.ids import new_uuid
from understudy.protocol.items import InputText, Message
from understudy.protocol.records import Noticed, UserMessage
from understudy.tools.acts.commands import run_for_user
from understudy.tools.host import ToolHost

MOST_TRIES = 20  # if no budget says when to stop


async def try_until(host: ToolHost, turn: str, number: int, command: str, *, has_budget: bool) -> bool:
    """Whether the turn may end: the command succeeded, or was tried often enough. Otherwise the model is told its output."""
    call_id = f"{UNTIL_CALL}{turn}-{number}"
    try:
        output = await run_for_user(host, call_id, ("sh", "-c", command))
    except AgentError as error:
        host.record(Noticed(f"the command of `--until` could not be run: {error}"))
        return True
    if output.success:
        return True
    if number >= MOST_TRIES and not has_budget:
        host.record(Noticed(f"the command of `--until` has failed {number} times, which is the most without a budget"))
        return True
    told = f"The task is not done yet: `{command}` has to succeed, and it failed:\n\n{output.text}"
    host.record(UserMessage(new_uuid(), Message("user", (InputText(told),))))
    return False
