"""Deleting a conversation for good, also where another process has just run its turn."""

import asyncio
from typing import TYPE_CHECKING

from understudy.engine.on_disk import on_disk
from understudy.errors import ConversationBusy, UnknownConversation
from understudy.store.log import EventLog

if TYPE_CHECKING:
    from understudy.engine.conversation import Conversation

LETTING_GO_SECONDS = 1.0  # from the end of a turn to the end of its claim, in another process
DELETED = "the conversation was deleted"


async def delete(conversation: "Conversation", log: EventLog) -> None:
    """Raises `ConversationBusy` while another process runs its turn."""
    await conversation.queue.run(_begin(conversation))
    try:
        await conversation.running.ended()
        give_up = conversation.loop.time() + LETTING_GO_SECONDS
        while not await conversation.queue.run(_finish(conversation, log, give_up)):  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.01)
    except BaseException:
        conversation.deleted = False
        conversation.release_if_idle()
        raise
    conversation.tail.broadcast.fail(UnknownConversation(DELETED))


async def _begin(conversation: "Conversation") -> None:
    if conversation.deleted:
        raise UnknownConversation(f"no conversation {conversation.id}")
    conversation.deleted = True
    conversation.running.interrupt()


async def _finish(conversation: "Conversation", log: EventLog, give_up: float) -> bool:
    """False while another process, whose turn is over in the log, has not let go yet."""
    try:
        await conversation.tenure.take()
    except ConversationBusy:
        await conversation.tenure.catch_up()
        if conversation.state.turn is not None or conversation.loop.time() > give_up:
            raise
        return False
    try:
        await on_disk(lambda told: log.delete(conversation.id, told))
    finally:
        conversation.tenure.release()
    return True
