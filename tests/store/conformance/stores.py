"""Stores to hold against the suite. Each opens any number of logs on the same conversations, as processes do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import psycopg

from tests.support.postgres import the_server
from understudy.protocol.ids import ConversationId
from understudy.store.log import Claim, EventLog, Holder
from understudy.store.memory import Memory, MemoryLog
from understudy.store.postgres.log import PostgresLog
from understudy.store.sqlite.event_log import SqliteLog

LEASE = 6.0  # so that what a renewal shows is shown after little more than a second


class Process(EventLog, Protocol):
    """A log that can be closed, as by the end of its process."""

    def close(self) -> object: ...


class SharedStore(Protocol):
    raises_at_claim: bool  # the epoch; else with the first append under it

    def open(self) -> Process: ...

    def close(self) -> None:
        """Every log that was opened."""
        ...

    async def take_from(self, holder: Process, other: Process, conversation_id: ConversationId) -> Claim:
        """`holder` loses its claim to `other`, as by whatever makes this kind of store lose one."""
        ...


class SqliteStore:
    raises_at_claim = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._logs: list[SqliteLog] = []

    def open(self) -> SqliteLog:
        self._logs.append(SqliteLog(self._folder, asyncio.get_running_loop()))
        return self._logs[-1]

    def close(self) -> None:
        for log in self._logs:
            log.close()

    async def take_from(self, holder: Process, other: Process, conversation_id: ConversationId) -> Claim:
        (self._folder / "locks").unlink()
        taken = await _claim(other, conversation_id)
        await holder.holder(conversation_id)  # looks at the lock file
        return taken


class MemoryStore:
    raises_at_claim = True

    def __init__(self, _: Path) -> None:
        self._memory = Memory()

    def open(self) -> MemoryLog:
        return MemoryLog(asyncio.get_running_loop(), self._memory)

    def close(self) -> None:
        for log in tuple(self._memory.logs):
            log.close()

    async def take_from(self, holder: Process, other: Process, conversation_id: ConversationId) -> Claim:
        self._memory.lose(conversation_id)
        return await _claim(other, conversation_id)


class PostgresStore:
    raises_at_claim = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._url = the_server().new_tables()
        self._logs: list[PostgresLog] = []

    def open(self) -> PostgresLog:
        self._logs.append(PostgresLog(self._folder, self._url, asyncio.get_running_loop(), lease_seconds=LEASE))
        return self._logs[-1]

    def close(self) -> None:
        for log in self._logs:
            log.close()

    async def take_from(self, holder: Process, other: Process, conversation_id: ConversationId) -> Claim:
        """By an operator's hand, who knows nothing of leases. The next renewal shows it."""
        with psycopg.connect(self._url) as connection:
            connection.execute("DELETE FROM claims WHERE id = %s", (conversation_id,))
        return await _claim(other, conversation_id)


async def _claim(log: Process, conversation_id: ConversationId) -> Claim:
    claim = await log.claim(conversation_id)
    assert not isinstance(claim, Holder)
    return claim


STORES: dict[str, Callable[[Path], SharedStore]] = {"sqlite": SqliteStore, "memory": MemoryStore, "postgres": PostgresStore}
