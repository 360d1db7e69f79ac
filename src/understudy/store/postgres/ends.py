"""Names that have ended for all servers of a database, such as those of logins."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import msgspec
from psycopg.types.numeric import Int8

from understudy.protocol.ids import ConversationId
from understudy.store.postgres.writer import Row
from understudy.store.postgres.writes import Call

OVERLAP_SECONDS = 60.0  # what is committed late has an earlier time than what was read before


class EndedName(msgspec.Struct, frozen=True):
    kind: str
    name: str
    made: int  # in seconds since the epoch


class Ends:
    def __init__(
        self,
        rows: Callable[..., Any],
        write: Callable[[ConversationId | None, Callable[[UUID], list[Call]]], Awaitable[Row]],
    ) -> None:
        self._rows = rows
        self._write = write
        self._read_to = 0.0  # by the database's clock

    async def end(self, ended: EndedName) -> bool:
        """False if it has ended already. Raises `StoreError`."""
        what = ended.kind, ended.name, Int8(ended.made)
        return bool((await self._write(None, lambda _: [("SELECT u_end(%s, %s, %s)", what)]))[0])

    async def new(self) -> Sequence[EndedName]:
        """What has ended since the last time, and some of what was told then; all at first. Raises `StoreError`."""
        query = "SELECT kind, name, made, extract(epoch FROM at)::float8 FROM ended WHERE at > to_timestamp(%s)"
        rows = await self._rows(query, self._read_to - OVERLAP_SECONDS if self._read_to else 0.0)
        self._read_to = max((row[3] for row in rows), default=self._read_to)
        return [EndedName(*row[:3]) for row in rows]
