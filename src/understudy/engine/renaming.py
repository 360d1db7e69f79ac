"""The op that gives a conversation a title. A turn may run meanwhile, here or in another process."""

from typing import TYPE_CHECKING

import msgspec

from understudy.engine.title import read_title
from understudy.errors import ConversationBusy, UnknownConversation
from understudy.protocol.ops import Accepted, Rename
from understudy.protocol.records import Renamed

if TYPE_CHECKING:
    from understudy.engine.conversation import Conversation


async def rename(conversation: "Conversation", op: Rename) -> Accepted:
    """`posted`: another process has the conversation, and was asked to do it. Raises `BadRequest` for what is no title."""
    op = msgspec.structs.replace(op, title=read_title(op.title))
    if conversation.refuses:
        raise UnknownConversation(f"no conversation {conversation.id}")
    if conversation.running:
        conversation.check_log()
    else:
        try:
            await conversation.claim.take()
        except ConversationBusy:
            conversation.letters.post(op)
            conversation.on_watch_needed(conversation)
            return Accepted(posted=True)
    return Accepted(effective=rename_here(conversation, op))


def rename_here(conversation: "Conversation", op: Rename) -> bool:
    """False: that is its title already."""
    if conversation.state.name == op.title:
        return False
    conversation.tail.append(Renamed(op.title, op.by), turn="0")  # it is no part of a turn
    return True
