"""Deleting a conversation for good, or putting it away, also where another process has it."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from understudy.engine.long_commands import ARCHIVED
from understudy.engine.long_commands import DELETED as COMMANDS_END
from understudy.engine.phases import Given
from understudy.engine.until_durable import until_durable
from understudy.errors import AgentError, ConversationBusy, UnknownConversation
from understudy.protocol.ops import Archive, Delete
from understudy.store.log import EventLog

if TYPE_CHECKING:
    from understudy.engine.conversation import Conversation

LETTING_GO_SECONDS = 1.0  # from the end of a turn to the end of its claim, in another process
ENDING_SECONDS = 10.0  # until another process has ended the commands that keep its claim
DELETED = "the conversation was deleted"


async def delete(conversation: "Conversation", log: EventLog) -> None:
    """Raises `ConversationBusy` while another process runs its turn."""
    await conversation.queue.run(_begin(conversation))
    try:
        await conversation.running.ended()
        await conversation.long_commands.end_all(COMMANDS_END)
        give_up = conversation.loop.time() + LETTING_GO_SECONDS
        if conversation.state.sessions.running and await conversation.elsewhere.has_claim():
            conversation.letters.post(Delete())
            give_up += ENDING_SECONDS
        while not await conversation.queue.run(_finish(conversation, log, give_up)):  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.01)
    except BaseException:
        conversation.note_kept()
        conversation.release_if_idle()
        raise
    conversation.standing.note(Given.DELETED)
    conversation.tail.broadcast.fail(UnknownConversation(DELETED))


async def archive(conversation: "Conversation", log: EventLog, *, archived: bool) -> None:
    if conversation.refuses:
        raise UnknownConversation(f"no conversation {conversation.id}")
    await until_durable(lambda told: log.archive(conversation.id, archived, told))
    if archived and conversation.long_commands:
        await conversation.long_commands.end_all(ARCHIVED)
    elif archived and conversation.state.sessions.running and await conversation.elsewhere.has_claim():
        conversation.letters.post(Archive())


async def _begin(conversation: "Conversation") -> None:
    if conversation.refuses:
        raise UnknownConversation(f"no conversation {conversation.id}")
    conversation.running.interrupt()
    conversation.standing.note(Given.DELETION)


async def _finish(conversation: "Conversation", log: EventLog, give_up: float) -> bool:
    """False while another process, whose turn is over in the log, has not let go yet."""
    try:
        await conversation.claim.take()
    except ConversationBusy:
        await conversation.claim.catch_up()
        if conversation.state.turn is not None or conversation.loop.time() > give_up:
            raise
        return False
    try:
        with suppress(AgentError):  # whoever waits for these records is told by the tail
            await conversation.tail.committed()
        await until_durable(lambda told: log.delete(conversation.id, told))
    finally:
        conversation.claim.release()
    return True
