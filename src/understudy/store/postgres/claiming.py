"""Claims conversations, and finds who holds one. Only a process of a conversation's host may claim it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from psycopg.types.numeric import Int8

from understudy.errors import UnknownConversation
from understudy.protocol.ids import ConversationId
from understudy.store.elsewhere import Elsewhere
from understudy.store.log import NOWHERE, Committed, Holder, Position
from understudy.store.postgres import writes
from understudy.store.postgres.claims import PostgresClaim
from understudy.store.postgres.incarnation import Incarnation
from understudy.store.postgres.processes import has_ended, is_here
from understudy.store.postgres.writer import Row
from understudy.store.postgres.writes import Heads, number_of

WHERE = """
SELECT v.host, h.address, u_there(v.host), s.kind FROM conversations v LEFT JOIN hosts h ON h.name = v.host
    LEFT JOIN workspaces s ON s.host = v.host AND s.path = v.folder WHERE v.number = %s
"""


class Claiming:
    """The part of a log that claims."""

    _loop: asyncio.AbstractEventLoop
    _held: dict[ConversationId, PostgresClaim]
    _incarnation: Incarnation
    _heads: Heads
    _is_front: bool
    _moves: bool

    async def _rows(self, query: str, *values: Any) -> Sequence[tuple[Any, ...]]:
        raise NotImplementedError

    def _submit(
        self,
        name: ConversationId,
        calls: Callable[[UUID], list[writes.Call]],
        done: Committed | None = None,
        answered: Callable[[Row, UUID], None] | None = None,
        *,
        hints: bool = True,
    ) -> None:
        raise NotImplementedError

    async def claim(self, conversation_id: ConversationId, known: Position | None = None) -> PostgresClaim | Holder:
        """Returns `Elsewhere` if it belongs to another host, or if this process is a front end, which claims nothing."""
        if self._is_front:
            return await self._where(conversation_id)
        while True:
            if conversation_id in self._held:
                return Holder()
            claim = self._held[conversation_id] = PostgresClaim(conversation_id, self._release)
            if known is NOWHERE:
                return claim
            claim.is_asked_for = True
            try:
                row, worker = await self._ask_for(conversation_id)
            except BaseException:
                self._release(claim)
                raise
            taken, epoch, last_seq, letters, digest, seal, host, process, pid, since, holder, elsewhere, address, there = row
            if claim.is_lost or worker != self._incarnation.worker or self._incarnation.is_over:
                self._forget(claim)  # the lease ended meanwhile
            elif taken:
                claim.is_asked_for = claim.is_there = True
                if epoch:
                    claim.position = Position(epoch, last_seq, bool(letters))
                    self._heads.read(conversation_id, epoch + 1, last_seq, (digest, seal))
                return claim
            else:
                self._forget(claim)
                if elsewhere and there:
                    return Elsewhere(host=host, address=address or "")
                if elsewhere:
                    found = await self._where(conversation_id)
                    if found.host != self._incarnation.host:
                        return found
                    continue  # it has moved to this host
                if not has_ended(process):
                    return Holder(pid if is_here(process) else None, since, None if host == self._incarnation.host else host)
                await self._bury(conversation_id, holder)

    async def _where(self, conversation_id: ConversationId) -> Elsewhere:
        """The host of the conversation. If that host is away, but the workspace can be restored from snapshots, it moves to
        another."""
        rows = await self._rows(WHERE, number_of(conversation_id))
        if not rows:
            raise UnknownConversation(f"no conversation {conversation_id}")
        host, address, there, kind = rows[0]
        if there or kind != "git" or not self._moves:
            return Elsewhere(host=host, address=address or "", alive=there)
        found = await self._asked(conversation_id, [("SELECT u_move_away(%s)", (Int8(number_of(conversation_id)),))])
        return Elsewhere(host=found[0])

    async def _asked(self, conversation_id: ConversationId, calls: list[writes.Call]) -> Row:
        """The row that the last call returns."""
        return (await self._answer(conversation_id, lambda _: calls, hints=True))[0]

    async def _ask_for(self, conversation_id: ConversationId) -> tuple[Row, UUID]:
        return await self._answer(conversation_id, lambda worker: writes.claim(conversation_id, worker), hints=False)

    async def _answer(
        self, conversation_id: ConversationId, calls: Callable[[UUID], list[writes.Call]], *, hints: bool
    ) -> tuple[Row, UUID]:
        answer: asyncio.Future[None] = self._loop.create_future()
        found: list[tuple[Row, UUID]] = []

        def done(error: BaseException | None) -> None:
            if not answer.done():
                if error is None:
                    answer.set_result(None)
                else:
                    answer.set_exception(error)

        self._submit(conversation_id, calls, done, lambda row, worker: found.append((row, worker)), hints=hints)
        await answer
        return found[-1]

    async def _bury(self, conversation_id: ConversationId, worker: UUID) -> None:
        """Free the claims of a process of this machine that has ended, without waiting for its lease."""
        done: asyncio.Future[BaseException | None] = self._loop.create_future()
        self._submit(conversation_id, lambda _: [("SELECT u_leave(%s)", (worker,))], done.set_result)
        error = await done
        if error is not None:
            raise error

    def _release(self, claim: PostgresClaim) -> None:
        name = claim.conversation_id
        if self._held.get(name) is claim:
            del self._held[name]
            if claim.is_asked_for:
                self._submit(name, lambda worker: writes.release(name, worker))

    def _forget(self, claim: PostgresClaim) -> None:
        if self._held.get(claim.conversation_id) is claim:
            del self._held[claim.conversation_id]

    async def holder(self, conversation_id: ConversationId, *, identify: bool = False) -> Holder | None:
        if conversation_id in self._held:
            return None
        rows = await self._rows(
            "SELECT w.host, w.process, w.pid, extract(epoch FROM k.since)::float8, k.worker FROM claims k JOIN workers w"
            " ON w.id = k.worker WHERE k.conversation = %s AND k.worker <> %s AND w.seen + w.lease > clock_timestamp()",
            number_of(conversation_id),
            self._incarnation.worker,
        )
        if not rows:
            return None
        host, process, pid, since, worker = rows[0]
        if has_ended(process):
            await self._bury(conversation_id, worker)
            return None
        return Holder(pid if is_here(process) else None, since, None if host == self._incarnation.host else host)
