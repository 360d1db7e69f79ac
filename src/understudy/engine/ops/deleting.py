"""Deletes a conversation for good, even if another process has it."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from understudy.engine.conversation.phases import Given
from understudy.engine.log.durable import until_durable
from understudy.engine.ops import Way
from understudy.engine.turn.long_commands import DELETED as COMMANDS_END
from understudy.errors import AgentError, ConversationBusy, StandsElsewhere, UnknownConversation
from understudy.protocol.ops import Accepted, Delete

if TYPE_CHECKING:
    from understudy.engine.conversation.shell import Shell

LETTING_GO_SECONDS = 1.0  # from the end of a turn to the release of its claim, in another process
ENDING_SECONDS = 10.0  # until another process has ended the commands that keep its claim
DELETED = "the conversation was deleted"


class Deleting(Way[Delete]):
    outside = True

    async def here(self, shell: "Shell", op: Delete) -> Accepted:
        """Raises `ConversationBusy` while another process runs its turn."""
        await shell.alone(_begin(shell))
        try:
            await shell.turn_over()
            await shell.end_commands(COMMANDS_END)
            give_up = asyncio.get_running_loop().time() + LETTING_GO_SECONDS
            if shell.state.sessions.running and await shell.is_claimed():
                shell.post(Delete())
                give_up += ENDING_SECONDS
            try:
                while not await shell.alone(_finish(shell, give_up)):  # noqa: ASYNC110  # nothing tells of it
                    await asyncio.sleep(0.01)
            except StandsElsewhere:
                await _ask_there(shell, op)
        except BaseException:
            shell.note_kept()
            shell.release_if_idle()
            raise
        shell.note(Given.DELETED)
        shell.fail_viewers(UnknownConversation(DELETED))
        return Accepted()

    async def between_turns(self, shell: "Shell", op: Delete) -> None:
        shell.end_commands_soon(COMMANDS_END)


WAY = Deleting()


async def _ask_there(shell: "Shell", op: Delete) -> None:
    """Ask the other process. Raises `ConversationBusy` if it has not deleted the conversation in time; it may still do so."""
    turn_runs = ConversationBusy(f"conversation {shell.id} has a turn running: interrupt it before deleting the conversation")
    if shell.state.turn is not None:
        raise turn_runs
    shell.post(Delete(op.by, there=True))
    with suppress(UnknownConversation):  # somebody else has deleted it
        await until_durable(shell.when_durable)
    give_up = asyncio.get_running_loop().time() + ENDING_SECONDS
    while await shell.is_stored():
        if await _was_left_undone(shell):
            raise turn_runs
        if asyncio.get_running_loop().time() > give_up:
            raise ConversationBusy(f"the host of conversation {shell.id} was asked to delete it; it has not done so yet")
        await asyncio.sleep(0.05)


async def _was_left_undone(shell: "Shell") -> bool:
    """Whether the worker has read the request and kept the conversation: a turn had begun just before."""
    is_left = any(isinstance(letter.op, Delete) for letter in await shell.letters_waiting())
    return not is_left and await shell.is_stored()


async def _begin(shell: "Shell") -> None:
    shell.check_exists()
    shell.interrupt_turn()
    shell.note(Given.DELETION)


async def _finish(shell: "Shell", give_up: float) -> bool:
    """False while another process, whose turn is over in the log, still holds the claim."""
    try:
        await shell.take_claim()
    except StandsElsewhere:
        await shell.catch_up()
        raise
    except ConversationBusy:
        await shell.catch_up()
        if shell.state.turn is not None or asyncio.get_running_loop().time() > give_up:
            raise
        return False
    try:
        with suppress(AgentError):  # the tail tells those who wait for these records
            await shell.all_written()
        await shell.erase()
    finally:
        shell.release()
    return True
