"""Messages that begin turns of their own: while another turn runs they are queued in the log, so that a crash loses none.

After a crash nothing is continued by itself: what was queued goes, in order, before the next message.
"""

import logging
from typing import TYPE_CHECKING

from understudy.engine import recovery
from understudy.engine.held_messages import FORK_WHILE_RUNNING
from understudy.engine.our_claim import Inbox
from understudy.engine.phases import MAY_BEGIN, OURS
from understudy.engine.sending import send_elsewhere
from understudy.errors import AgentError, BadRequest, ConversationBusy, UnknownConversation, report_bug
from understudy.protocol.ops import Accepted, Cancel, Send
from understudy.protocol.records import TurnDropped, TurnQueued, UserMessage

if TYPE_CHECKING:
    from understudy.engine.conversation import Conversation

logger = logging.getLogger(__name__)


async def send_for_own_turn(conversation: "Conversation", op: Send, record: UserMessage) -> Accepted:
    """It begins a turn now, or once those before it are over."""
    if conversation.refuses:
        raise UnknownConversation(f"no conversation {conversation.id}")
    if conversation.running:
        return queue(conversation, op, record)
    try:
        inbox = await conversation.claim.take()
    except ConversationBusy:
        return send_elsewhere(conversation, op, record)
    state = conversation.state
    if state.queued or (state.turn is not None and recovery.can_go_on(state)):  # left by a process that ended
        await conversation.beginning.resume()
        accepted = queue(conversation, op, record)
        await begin_next(conversation)
        return accepted
    left = await conversation.letters.unread_messages() if inbox is Inbox.HAS_LETTERS else ()
    return await conversation.begin(record, *left, by=op.by)


def queue(conversation: "Conversation", op: Send, record: UserMessage) -> Accepted:
    """Under the claim. Whoever has begun the turn that runs has room for the one after it."""
    conversation.check_log()
    if not conversation.running or conversation.running.by != op.by:
        conversation.running.check_room(op.by)
    if record.parent_message_id is not None:
        raise BadRequest(FORK_WHILE_RUNNING)
    conversation.beginning.check(record)
    conversation.tail.append(TurnQueued(record), turn=_number(conversation))
    conversation.queued_by[record.message_id] = op.by
    return Accepted(record.message_id, "", queued=True)


async def begin_next(conversation: "Conversation") -> None:
    """The first queued message with which a turn can begin begins one, unless another turn runs."""
    while conversation.standing.phase in MAY_BEGIN and conversation.state.queued:
        try:
            if await conversation.claim.take() is Inbox.HAS_LETTERS:
                await conversation.elsewhere.begin_with_letters()  # the end of that turn comes back here
            first = next(iter(conversation.state.queued.values()), None)
            if conversation.running or first is None:
                return
        except AgentError as error:
            logger.info("queued turns of %s wait: %s", conversation.id, error)
            return
        try:
            by = conversation.queued_by.pop(first.message_id, conversation.state.owner)
            await conversation.begin(first, by=by, promised=True)
        except AgentError as error:
            reason = str(error)
        except Exception as error:
            reason = report_bug(logger, error, "in beginning a turn of %s", conversation.id)
        else:
            return
        if conversation.standing.phase is not OURS:
            return  # it stays in the log
        conversation.tail.append(TurnDropped(first.message_id, reason), turn=_number(conversation))


async def drop(conversation: "Conversation", op: Cancel) -> bool:
    """Take a queued message back. False where it is not queued any more."""
    if not conversation.claim.is_held:
        try:
            await conversation.claim.take()
        except ConversationBusy:
            conversation.letters.post(op)
            return True
    return drop_here(conversation, op.message_id)


def drop_here(conversation: "Conversation", message_id: str) -> bool:
    if message_id not in conversation.state.queued:
        return False
    conversation.queued_by.pop(message_id, None)
    conversation.tail.append(TurnDropped(message_id), turn=_number(conversation))
    return True


def _number(conversation: "Conversation") -> str:
    return conversation.state.turn or "0"
