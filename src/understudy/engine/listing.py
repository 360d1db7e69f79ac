"""Lists of conversations: what a caller may read, and what of it runs now."""

from collections.abc import Mapping

from understudy.engine.conversation import Conversation
from understudy.engine.logs import Logs
from understudy.protocol.callers import Caller
from understudy.protocol.ids import ConversationId
from understudy.store.log import GoingOn, Listed, Page, Status

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

    async def find(self, conversation_id: ConversationId) -> Listed | None:
        return await self._logs.of(kept=self._logs.is_kept(conversation_id)).find(conversation_id)

    async def status_of(self, listed: Listed) -> Status:
        """What holds now: after a crash a turn is not running, whatever its last record says."""
        status = listed.summary.status
        if status == "idle":
            return status
        if await self._has_turn(listed):
            return status
        return "waiting" if listed.summary.pending else "idle"

    async def going_on_in(self, listed: Listed) -> GoingOn:
        """What runs now: after a crash nothing does, whatever the log says."""
        turn, commands = listed.summary.turn, listed.summary.running
        if turn is not None and not await self._has_turn(listed):
            turn = None
        known = self._conversations.get(listed.conversation_id)
        if commands and not (known is not None and known.long_commands) and not await self._logs.is_held(listed.conversation_id):
            commands = ()
        return GoingOn(turn, commands)

    async def _has_turn(self, listed: Listed) -> bool:
        """Whether the turn that has begun in the log is at work in some process."""
        known = self._conversations.get(listed.conversation_id)
        if known is not None and (known.running or not known.tail.idle):  # the end may still be on its way to the disk
            return True
        return await self._logs.is_held(listed.conversation_id)
