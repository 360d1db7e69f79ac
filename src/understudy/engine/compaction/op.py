"""The op by which somebody asks for a summary: who makes it, the running turn or one of its own."""

from typing import TYPE_CHECKING

from understudy.engine.our_claim import Inbox
from understudy.errors import BadRequest, ConversationBusy, UnknownConversation
from understudy.protocol.ops import Accepted, Compact

if TYPE_CHECKING:
    from understudy.engine.conversation import Conversation

COMPACT_WHILE_ENDING = "the running turn was told to end: ask for a summary again when it is over"


async def compact(conversation: "Conversation", op: Compact) -> Accepted:
    """`joined`: the running turn makes it, here or in another process. Otherwise a turn has been begun for it."""
    if conversation.refuses:
        raise UnknownConversation(f"no conversation {conversation.id}")
    if conversation.running:
        return _by_running_turn(conversation)
    try:
        inbox = await conversation.claim.take()
    except ConversationBusy:
        conversation.letters.post(op)
        return Accepted(turn=conversation.state.turn or "", joined=True)
    messages = await conversation.letters.unread_messages() if inbox is Inbox.HAS_LETTERS else []
    if messages:
        await conversation.begin(messages[-1], *messages[:-1], by=conversation.letters.sent_by, promised=True)
        return _by_running_turn(conversation)
    turn, resumed = await conversation.beginning.begin_compaction(op.by)
    return _by_running_turn(conversation) if resumed else Accepted(turn=turn)


def _by_running_turn(conversation: "Conversation") -> Accepted:
    turn = conversation.running.turn
    if turn is None or conversation.running.is_ending:
        raise BadRequest(COMPACT_WHILE_ENDING)
    turn.compact_soon()
    return Accepted(turn=turn.turn_id, joined=True)
