"""Lists the conversations that a caller may read, with what runs in them now."""

from collections.abc import Mapping, Sequence

import msgspec

from understudy.engine.conversation.conversation import Conversation
from understudy.engine.log.logs import Logs
from understudy.protocol.callers import Caller
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Entry
from understudy.store.log import GoingOn, Listed, Page, Status

LOOKED_AHEAD = 50  # rows searched for one that the caller may read


class Standing(msgspec.Struct, frozen=True):
    """A row of a list and its running turn, taken at the same moment. After a crash no turn runs, whatever the log says."""

    listed: Listed
    status: Status
    going_on: GoingOn = GoingOn()


class Listing:
    def __init__(self, logs: Logs, conversations: Mapping[ConversationId, Conversation]) -> None:
        self._logs = logs
        self._conversations = conversations

    async def list(self, caller: Caller, limit: int, cursor: str | None, *, archived: bool) -> Page:
        """What the caller may read, most recently active first."""
        if "read" in caller.rights and "read" in caller.others:
            return await self._logs.list(limit, cursor, archived=archived)
        rows: list[Listed] = []
        while True:
            page = await self._logs.list(limit - len(rows), cursor, archived=archived)
            rows += [listed for listed in page.rows if caller.may("read", listed.owner)]
            cursor = page.next_cursor
            if cursor is None or len(rows) >= limit:
                break
        # otherwise a cursor would reveal that others have conversations
        more = await self._has_readable(caller, cursor, archived=archived)
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

    async def last_records(self, listed: Listed, count: int) -> Sequence[Entry]:
        """The last `count` records, up to the last one that the row covers."""
        log = self._logs.of(kept=self._logs.is_kept(listed.conversation_id))
        return await log.read(listed.conversation_id, max(0, listed.last_seq - count), min(count, listed.last_seq))

    async def standing_of(self, listed: Listed) -> Standing:
        """Read the row again if its turn is no longer running: the turn may have ended since the list was read."""
        while True:
            summary = listed.summary
            if summary.status == "idle" and not summary.running:
                return Standing(listed, "idle")
            known = self._conversations.get(listed.conversation_id)
            elsewhere = await self._logs.is_held(listed.conversation_id)
            # the record of its end may not be on disk yet
            runs_here = known is not None and (bool(known.running) or not known.tail.idle)
            has_turn = elsewhere or runs_here
            has_commands = elsewhere or (known is not None and bool(known.long_commands))
            if (has_turn or summary.status == "idle") and (has_commands or not summary.running):
                return Standing(listed, summary.status, GoingOn(summary.turn, summary.running))
            now = await self.find(listed.conversation_id)
            if now is None or now.last_seq == listed.last_seq:  # the process of the turn is gone
                status = summary.status if has_turn else "waiting" if summary.pending else "idle"
                commands = summary.running if has_commands else ()
                return Standing(listed, status, GoingOn(summary.turn if has_turn else None, commands))
            listed = now
