"""Deletes an unused conversation without reading it. Concurrent callers are told that it is gone."""

from typing import TYPE_CHECKING

from understudy.engine.conversation.phases import Given
from understudy.store.log import EventLog, Holder, Listed

if TYPE_CHECKING:
    from understudy.engine.conversation.shell import Shell


async def delete_if_unused(shell: "Shell", log: EventLog, seen: Listed) -> bool:
    """An op of the conversation's queue. False if the conversation was used since it was `seen`, is waited for, or is held
    elsewhere.
    """
    claim = await log.claim(shell.id)
    if isinstance(claim, Holder):
        return False
    try:
        now = await log.find(shell.id)
        changed = now is None or now.updated_at != seen.updated_at or now.archived != seen.archived or claim.position.letters
        if changed or now is None or now.summary.pending:
            return False
        shell.note(Given.DELETION)
        try:
            await shell.erase()
        except BaseException:
            shell.note_kept()
            raise
        shell.note(Given.DELETED)
        return True
    finally:
        claim.release()
