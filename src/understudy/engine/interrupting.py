"""The ops that end a turn: the one that runs, or the one that a message began."""

from typing import TYPE_CHECKING

from understudy.engine.following import CANCELLED_BEFORE
from understudy.errors import BadRequest, ConversationBusy
from understudy.protocol.ops import Cancel, Interrupt

if TYPE_CHECKING:
    from understudy.engine.conversation import Conversation


async def interrupt(conversation: "Conversation", op: Interrupt, turn: str | None) -> str | None:
    """Tell the running turn to end, also one that a crash left waiting: its id (empty where another process has it and its
    id is not known here). None when there is none, or when `turn` is named and is not the one that runs.
    """
    if conversation.running.turn is not None:
        running = conversation.running.turn.turn_id
        if turn not in (None, running):
            return None
        if conversation.running.is_ending:
            conversation.held.join(conversation.tail, running)
        else:
            conversation.running.interrupt()
        return running
    if turn not in (None, conversation.state.turn):
        return None
    if conversation.state.turn is None and not await conversation.elsewhere.may_have_turn():
        return None
    try:
        await conversation.claim.take()
    except ConversationBusy:
        conversation.letters.post(Interrupt(conversation.state.turn or "", op.by))
        conversation.interrupted_elsewhere = conversation.state.turn
        return conversation.state.turn or ""
    ended = conversation.state.turn
    if turn not in (None, ended):  # another process had ended the one that was meant
        return None
    await conversation.beginning.settle_cut_turn(may_resume=False)
    return ended


async def cancel(conversation: "Conversation", op: Cancel) -> bool:
    if conversation.held.take_back(op.message_id, BadRequest(CANCELLED_BEFORE)):
        return True
    if op.message_id in conversation.state.queued or op.message_id in conversation.letters.unread:
        from understudy.engine.queued_turns import drop  # only some doors queue any

        return await drop(conversation, op)
    began = op.turn or next((turn for turn, first in conversation.state.turn_messages.items() if first == op.message_id), "")
    return bool(began) and await interrupt(conversation, Interrupt(began, op.by), began) is not None
