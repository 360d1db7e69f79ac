"""Lists of conversations: what a caller may read, and what of it runs now."""

from collections.abc import Mapping

from understudy.engine.conversation import Conversation
from understudy.engine.logs import Logs
from understudy.protocol.callers import Caller
from understudy.protocol.ids import ConversationId
from understudy.store.log import Listed, Page, RunningCommand, Status

LOOKED_AHEAD = 50  # rows of a list, in search of one that the caller may read


class Listing:
    def __init__(self, logs: Logs, conversations: Mapping[ConversationId, Conversation]) -> None:
        self._logs = logs
        self._conversations = conversations

    async def list(self, caller: Caller, limit: int, cursor: str | None, *, archived: bool) -> Page:
        """What the caller may read, the last active first."""
        if "read" in caller.rights and "read" in caller.others:
            return await self._logs.list(limit, cursor, archived=archived)
        rows: list[Listed] = []
        while True:
            page = await self._logs.list(limit - len(rows), cursor, archived=archived)
            rows += [listed for listed in page.rows if caller.may("read", listed.owner)]
            cursor = page.next_cursor
            if cursor is None or len(rows) >= limit:
                break
        more = await self._has_readable(caller, cursor, archived=archived)  # else a cursor would tell that others have some
        return Page(tuple(rows), cursor if more else None)

    async def _has_readable(self, caller: Caller, cursor: str | None, *, archived: bool) -> bool:
        while cursor is not None:
            page = await self._logs.list(LOOKED_AHEAD, cursor, archived=archived)
            if any(caller.may("read", listed.owner) for listed in page.rows):
                return True
            cursor = page.next_cursor
        return False

    async def status_of(self, listed: Listed) -> Status:
        """What holds now: after a crash a turn is not running, whatever its last record says."""
        status = listed.summary.status
        if status == "idle":
            return status
        known = self._conversations.get(listed.conversation_id)
        if known is not None and (known.running or not known.tail.idle):  # the end may still be on its way to the disk
            return status
        if await self._logs.is_held(listed.conversation_id):
            return status
        return "waiting" if listed.summary.pending else "idle"

    async def running_in(self, listed: Listed) -> tuple[RunningCommand, ...]:
        """Its commands that outlive their turns and run now: after a crash none does, whatever the log says."""
        running = listed.summary.running
        known = self._conversations.get(listed.conversation_id)
        if not running or (known is not None and known.long_commands):
            return running
        return running if await self._logs.is_held(listed.conversation_id) else ()
