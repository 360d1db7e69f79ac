"""The op that sends a message: to the running turn, to one of its own, or to the process that has the conversation."""

import logging
from typing import TYPE_CHECKING

from understudy.engine.beginning import ENDING
from understudy.engine.held_messages import FORK_WHILE_RUNNING
from understudy.engine.our_claim import Inbox
from understudy.engine.phases import LEAVING, MAY_BEGIN
from understudy.errors import AgentError, BadRequest, ConversationBusy, StoreError, UnknownConversation, report_bug
from understudy.protocol.ops import Accepted, Send
from understudy.protocol.records import UserMessage

if TYPE_CHECKING:
    from understudy.engine.conversation import Conversation

logger = logging.getLogger(__name__)


async def send(conversation: "Conversation", op: Send, record: UserMessage) -> Accepted:
    """It joins the running turn, or begins one; where the running one was told to end, the one after it."""
    if conversation.refuses:
        raise UnknownConversation(f"no conversation {conversation.id}")
    if conversation.running:
        if conversation.running.is_ending:
            conversation.held.add(op)
            return Accepted(record.message_id, "", held=True)
        return _join(conversation, record)
    try:
        inbox = await conversation.claim.take()
    except ConversationBusy:
        return send_elsewhere(conversation, op, record)
    left = await conversation.letters.unread_messages() if inbox is Inbox.HAS_LETTERS else ()
    return await conversation.begin(record, *left, by=op.by)


def _join(conversation: "Conversation", record: UserMessage) -> Accepted:
    if record.parent_message_id is not None:
        raise BadRequest(FORK_WHILE_RUNNING)
    conversation.beginning.check(record)  # what it changes holds from the next turn on
    turn = conversation.running.turn
    assert turn is not None
    conversation.tail.append(record, turn=turn.turn_id)
    return Accepted(record.message_id, turn.turn_id, joined=True)


def send_elsewhere(conversation: "Conversation", op: Send, record: UserMessage) -> Accepted:
    if record.parent_message_id is not None:
        raise BadRequest(FORK_WHILE_RUNNING)
    conversation.letters.post(op, conversation.on_posted)
    conversation.on_watch_needed(conversation)
    if op.own_turn:
        return Accepted(record.message_id, "", queued=True)
    if conversation.state.turn is not None and conversation.state.turn == conversation.interrupted_elsewhere:
        return Accepted(record.message_id, "", held=True)
    return Accepted(record.message_id, conversation.state.turn or "", joined=True)


async def begin_what_waits(conversation: "Conversation") -> None:
    """Messages that came while a turn was ending begin one of their own, those from other processes first, queued ones last."""
    if conversation.elsewhere.letters_left and conversation.standing.phase in MAY_BEGIN:
        conversation.elsewhere.letters_left = False
        try:
            await conversation.claim.take()
            await conversation.elsewhere.begin_with_letters()
        except AgentError as error:  # they stay in the inbox: whoever sent them takes the conversation over, and is told
            logger.info("letters to %s wait: %s", conversation.id, error)
        except Exception as error:
            report_bug(logger, error, "in beginning a turn of %s", conversation.id)
    for held in conversation.held.take_all():
        try:
            if conversation.standing.phase is LEAVING:
                raise StoreError(ENDING)
            await send(conversation, held.op, held.op.message)
        except AgentError as error:
            held.tell(error)
        except Exception as error:
            held.tell(AgentError(report_bug(logger, error, "in beginning a turn of %s", conversation.id)))
        else:
            for told in held.told:
                conversation.when_durable(told)
    if conversation.state.queued:
        from understudy.engine.queued_turns import begin_next  # only some doors queue any

        await begin_next(conversation)
