"""Who could answer the questions of a conversation, as each process tells the others: a front end denies a question for a caller
who cannot be asked only if nobody at another one could answer it. What a process has told holds as long as its lease.
"""

from collections.abc import Callable
from typing import Any, Protocol
from uuid import UUID

from psycopg.types.numeric import Int8

from understudy.protocol.ids import ConversationId
from understudy.store.log import NO_CONVERSATION
from understudy.store.postgres.incarnation import Incarnation
from understudy.store.postgres.writes import Call, number_of


class _Submit(Protocol):
    def __call__(self, name: ConversationId, calls: Callable[[UUID], list[Call]], *, hints: bool = True) -> None: ...


class Attending:
    def __init__(self, rows: Callable[..., Any], submit: _Submit, incarnation: Incarnation) -> None:
        self._rows = rows
        self._submit = submit
        self._incarnation = incarnation
        self._told: set[ConversationId] = set()
        self._told_as: UUID | None = None  # under this id the database was told; a new id has to tell it again

    def note(self, conversation_id: ConversationId, is_attended: bool) -> None:
        if self._told_as != self._incarnation.worker:
            self._told.clear()
            self._told_as = self._incarnation.worker
        if is_attended == (conversation_id in self._told):
            return
        (self._told.add if is_attended else self._told.discard)(conversation_id)
        number = Int8(number_of(conversation_id))
        self._submit(NO_CONVERSATION, lambda worker: [("SELECT u_attend(%s, %s, %s)", (number, worker, is_attended))], hints=False)

    async def is_elsewhere(self, conversation_id: ConversationId) -> bool:
        rows = await self._rows("SELECT u_attended(%s, %s)", number_of(conversation_id), self._incarnation.worker)
        return bool(rows[0][0])
