"""Hosts: which process serves one, what waits for it, and which one gets a front end's new conversations."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol
from uuid import UUID

import msgspec
from psycopg.types.numeric import Int4, Int8

from understudy.errors import AgentError, HostAway
from understudy.protocol.ids import ConversationId
from understudy.store.log import NO_CONVERSATION, Committed
from understudy.store.postgres.incarnation import Incarnation
from understudy.store.postgres.writer import Row
from understudy.store.postgres.writes import Call, number_of

HOSTS = """
SELECT h.name, h.address, extract(epoch FROM greatest(w.seen, h.seen))::float8,
    CASE WHEN h.worker IS NULL OR w.id IS NULL OR w.seen + w.lease <= clock_timestamp() THEN 'away' ELSE h.state END,
    (SELECT count(*) FROM conversations v WHERE v.host = h.name), (SELECT count(*) FROM workspaces s WHERE s.host = h.name),
    (SELECT count(*) FROM claims k WHERE k.worker = h.worker)
FROM hosts h LEFT JOIN workers w ON w.id = h.worker WHERE h.name = %s OR %s::text IS NULL ORDER BY h.name
"""


class HostRow(msgspec.Struct, frozen=True):
    name: str
    address: str
    seen: float
    state: str  # ready, draining or away
    conversations: int
    workspaces: int
    at_work: int = 0  # how many conversations its worker has claimed


class Became(msgspec.Struct, frozen=True):
    """What became of a request to begin a conversation."""

    begun: bool
    refused: str | None
    host: str | None  # the host that has room for it


class _Submit(Protocol):
    def __call__(
        self,
        name: ConversationId,
        calls: Callable[[UUID], list[Call]],
        done: Committed | None = None,
        answered: Callable[[Row, UUID], None] | None = None,
        *,
        hints: bool = True,
    ) -> None: ...


class Hosts:
    def __init__(
        self,
        rows: Callable[..., Any],
        submit: _Submit,
        incarnation: Incarnation,
        to_begin: set[ConversationId],
    ) -> None:
        self._rows = rows
        self._submit = submit
        self._incarnation = incarnation
        self._to_begin = to_begin

    @property
    def name(self) -> str:
        """The name of our host."""
        return self._incarnation.host

    @property
    def lease_seconds(self) -> float:
        return self._incarnation.lease_seconds

    # -- of a worker

    @property
    def incarnation(self) -> UUID:
        return self._incarnation.worker

    async def serve(self, disk: UUID, address: str, *, anew: bool) -> UUID | None:
        """Serve the host from now on, under the id that is returned. None while another process may still be serving it.

        The caller has the lock of the folder `disk`, so the process that served it from there has ended. `anew`: take new work,
        even if the earlier process was told to drain.
        """
        state = "ready" if anew else None
        call = "SELECT u_serve(%s, %s, %s, %s, %s::text)"
        asked: list[UUID] = []

        def calls(worker: UUID) -> list[Call]:
            asked.append(worker)
            return [(call, (self.name, disk, worker, address, state))]

        return asked[-1] if (await self.write(None, calls))[0] else None

    async def waiting(self) -> Sequence[ConversationId] | None:
        """Conversations of this host that have work waiting and no holder. None: the host is being drained."""
        query = (
            "SELECT (SELECT state FROM hosts WHERE name = %s), (SELECT coalesce(array_agg(id), '{}'::text[]) FROM u_waiting(%s))"
        )
        state, names = (await self._rows(query, self.name, self.name))[0]
        return None if state == "draining" else [ConversationId(name) for name in names]

    async def to_begin(self) -> Sequence[tuple[ConversationId, bytes]]:
        """Conversations that front ends ask this host to begin."""
        rows = await self._rows("SELECT id, op FROM u_beginnings(%s)", self.name)
        found = [(ConversationId(row[0]), bytes(row[1])) for row in rows]
        self._to_begin.update(name for name, _ in found)
        return found

    def has_tried(self, conversation_id: ConversationId) -> None:
        """The attempt to begin it here is over. Until then it is only begun while its caller still waits for it."""
        self._to_begin.discard(conversation_id)

    async def refuse(self, conversation_id: ConversationId, why: str) -> None:
        number = Int8(number_of(conversation_id))
        await self.write(conversation_id, lambda _: [("SELECT u_refuse_beginning(%s, %s)", (number, why))])

    async def discard(self, conversation_id: ConversationId, epoch: int, upto: int) -> None:
        """Remove letters that were read under this epoch and need no record."""
        what = Int8(number_of(conversation_id)), Int4(epoch), Int8(upto)
        await self.write(conversation_id, lambda _: [("SELECT u_discard(%s, %s, %s)", what)])

    # -- of a front end

    async def begin(self, conversation_id: ConversationId, path: str, op: bytes) -> str | None:
        """Ask for a conversation in this folder. Returns the host that will begin it; None if no worker has room. Raises
        `HostAway`."""
        what = Int8(number_of(conversation_id)), conversation_id, path, op
        row = await self.write(conversation_id, lambda _: [("SELECT * FROM u_begin(%s, %s, %s, %b)", what)])
        host, there = row
        if host is not None and there is False:
            raise HostAway(f"{path} is on host {host}, which is away. A conversation can be begun in it when {host} is back.")
        return host

    async def became_of(self, conversation_id: ConversationId, *, gives_up: bool = False) -> Became:
        """What became of the request. `gives_up`: withdraw it if nothing has begun yet."""
        query = "SELECT begun, refused_, host_ FROM u_beginning(%s, %s)"
        return Became(*(await self._rows(query, number_of(conversation_id), gives_up))[0])

    async def unplaced(self) -> int:
        """How many workspaces wait for a worker."""
        query = (
            "SELECT count(*) FROM beginnings WHERE refused IS NULL AND asked > clock_timestamp() - interval '1 minute'"
            " AND (host IS NULL OR NOT u_there(host))"
        )
        return int((await self._rows(query))[0][0])

    # -- of whoever asks

    async def all(self, name: str | None = None) -> Sequence[HostRow]:
        """All hosts, or the one of this name."""
        return [HostRow(*row) for row in await self._rows(HOSTS, name, name)]

    async def drain(self, name: str) -> bool:
        """Begin nothing new on that host. False if there is no such host."""
        return bool((await self.write(None, lambda _: [("SELECT u_drain(%s)", (name,))]))[0])

    async def write(self, name: ConversationId | None, calls: Callable[[UUID], list[Call]]) -> Row:
        """Returns the row of the last call. `name`: the conversation that other processes are told about."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        found: list[Row] = []

        def done(error: BaseException | None) -> None:
            if answer.done():
                return
            answer.set_result(None) if error is None else answer.set_exception(error)

        self._submit(name or NO_CONVERSATION, calls, done, lambda row, _: found.append(row), hints=name is not None)
        await answer
        if not found:
            raise AgentError("bug: the database has answered nothing")
        return found[-1]
