"""Deleting a conversation that nobody uses, without reading it. Whoever asks for it meanwhile is told that it is gone."""

from typing import TYPE_CHECKING

from understudy.engine.phases import Given
from understudy.engine.until_durable import until_durable
from understudy.store.log import EventLog, Holder, Listed

if TYPE_CHECKING:
    from understudy.engine.conversation import Conversation


async def delete_if_unused(conversation: "Conversation", log: EventLog, seen: Listed) -> bool:
    """An op of the conversation's queue. False where it was used since it was seen, waits for somebody, or is held elsewhere."""
    claim = await log.claim(conversation.id)
    if isinstance(claim, Holder):
        return False
    try:
        now = await log.find(conversation.id)
        changed = now is None or now.updated_at != seen.updated_at or now.archived != seen.archived or claim.position.letters
        if changed or now is None or now.summary.pending:
            return False
        conversation.standing.note(Given.DELETION)
        try:
            await until_durable(lambda told: log.delete(conversation.id, told))
        except BaseException:
            conversation.note_kept()
            raise
        conversation.standing.note(Given.DELETED)
        return True
    finally:
        claim.release()
