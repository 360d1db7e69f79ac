"""Going round all rows of the list, a few at each look: what happens far down in it is noticed, too, a little later.

The last active rows are looked at each time (`changes.py`). Below them a row changes without moving up when it is archived, deleted
or watched, or when the process of its turn dies. For each row only a digest is kept, so that a long list costs little memory.
"""

import asyncio
from collections.abc import Mapping

import msgspec

from understudy.engine.engine import Engine
from understudy.protocol.callers import LOCAL
from understudy.protocol.ids import ConversationId
from understudy.store.log import Listed

ROWS = 100  # at each look: less than a millisecond


class _Known(msgspec.Struct, frozen=True):
    owner: str
    digest: int


class ListChanges(msgspec.Struct, frozen=True):
    changed: tuple[Listed, ...] = ()
    deleted: Mapping[ConversationId, str] = {}  # and whose they were


class Sweep:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[ConversationId, _Known] = {}
        self._met: set[ConversationId] = set()  # in the round that is under way
        self._archived = False
        self._cursor: str | None = None

    async def begin(self) -> None:
        """Get to know all rows, so that everything after this is news."""
        await self.look()
        while self._cursor is not None or self._archived:
            await asyncio.sleep(0)  # others are served between two
            await self.look()

    async def look(self) -> ListChanges:
        """At the next rows. One that was not known before is no news here: it is among the last active ones."""
        page = await self._engine.list(LOCAL, ROWS, self._cursor, archived=self._archived)
        changed = [listed for listed in page.rows if await self._note(listed)]
        self._cursor = page.next_cursor
        if self._cursor is not None:
            return ListChanges(tuple(changed))
        self._archived = not self._archived
        if self._archived:
            return ListChanges(tuple(changed))
        moved, deleted = await self._missing()
        return ListChanges((*changed, *moved), deleted)

    async def _note(self, listed: Listed) -> bool:
        name = listed.conversation_id
        digest = hash((listed, (await self._engine.standing_of(listed)).status, self._engine.viewers_of(name)))
        before, self._known[name] = self._known.get(name), _Known(listed.owner, digest)
        self._met.add(name)
        return before is not None and before.digest != digest

    async def _missing(self) -> tuple[list[Listed], dict[ConversationId, str]]:
        """Rows that a whole round did not meet: deleted, or moved past it."""
        moved: list[Listed] = []
        deleted: dict[ConversationId, str] = {}
        for name in self._known.keys() - self._met:
            listed = await self._engine.listed(name)
            if listed is None:
                deleted[name] = self._known.pop(name).owner
            elif await self._note(listed):
                moved.append(listed)
        self._met.clear()
        return moved, deleted
