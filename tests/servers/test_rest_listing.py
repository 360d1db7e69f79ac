"""The list of REST while questions come up and are answered: every conversation is in it, once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from tests.store.records import SUMMARY, append, new_id, noticed, opened
from understudy.config.home import state_dir
from understudy.engine.engine import Engine
from understudy.errors import BadRequest
from understudy.protocol.callers import LOCAL
from understudy.protocol.ids import ConversationId
from understudy.servers.rest import rows as listing
from understudy.servers.rest.rows import ListQuery, list_rows
from understudy.store.log import Page
from understudy.store.sqlite.event_log import SqliteLog

ASKED = msgspec.structs.replace(SUMMARY, status="waiting", pending=("call1",))


class ChangingLog(SqliteLog):
    """What `change` does comes right after the first look at the list."""

    change: Callable[[], Awaitable[object]] | None = None

    async def list(self, limit: int, cursor: str | None = None, *, archived: bool = False) -> Page:
        page = await super().list(limit, cursor, archived=archived)
        if self.change is not None:
            change, self.change = self.change, None
            await change()
        return page

    async def ask(self, conversation_id: ConversationId, at: float = 500.0) -> None:
        await append(self, msgspec.structs.replace(noticed(conversation_id, 1, 2, at=at), summary=ASKED))

    async def answer(self, conversation_id: ConversationId) -> None:
        await append(self, noticed(conversation_id, 1, 3, at=600.0))


@asynccontextmanager
async def conversations(tmp_path: Path, count: int) -> AsyncGenerator[tuple[Engine, ChangingLog, list[ConversationId]]]:
    def open_log(home: Path, loop: asyncio.AbstractEventLoop) -> ChangingLog:
        return ChangingLog(state_dir(home), loop)

    engine = Engine(env={**os.environ, "CODEX_HOME": str(tmp_path)}, open_log=open_log)
    try:
        log = engine.log
        assert isinstance(log, ChangingLog)
        names = [new_id() for _ in range(count)]
        for number, name in enumerate(names):
            await append(log, opened(name, at=100.0 + number))
        yield engine, log, names
    finally:
        await engine.close()


async def all_pages(engine: Engine, limit: int) -> list[str]:
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await list_rows(engine, LOCAL, ListQuery(limit=limit, cursor=cursor))
        found += [row.id for row in page.conversations]
        cursor = page.next_cursor
        if cursor is None:
            return found


async def test_a_question_that_comes_up_while_the_list_is_read_hides_nothing(tmp_path: Path) -> None:
    async with conversations(tmp_path, 3) as (engine, log, names):
        log.change = lambda: log.ask(names[0])
        assert await all_pages(engine, 50) == [names[0], names[2], names[1]]


async def test_one_that_is_answered_while_the_list_is_read_comes_once(tmp_path: Path) -> None:
    async with conversations(tmp_path, 3) as (engine, log, names):
        await log.ask(names[0])
        log.change = lambda: log.answer(names[0])
        assert await all_pages(engine, 50) == [names[0], names[2], names[1]]


async def test_questions_beyond_those_searched_come_in_their_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE", 2)
    monkeypatch.setattr(listing, "MOST_SEARCHED", 4)
    async with conversations(tmp_path, 8) as (engine, log, names):
        for near_or_far in (5, 2, 0):
            await log.ask(names[near_or_far], at=100.0 + near_or_far)
        assert await all_pages(engine, 2) == [names[number] for number in (5, 7, 6, 4, 3, 2, 1, 0)]
        assert await all_pages(engine, 50) == [names[number] for number in (5, 7, 6, 4, 3, 2, 1, 0)]


async def test_a_cursor_that_is_none_is_refused(tmp_path: Path) -> None:
    async with conversations(tmp_path, 3) as (engine, _, _names):
        cursor = (await list_rows(engine, LOCAL, ListQuery(limit=1))).next_cursor
        for broken in ("x", ".", ".1", f"{cursor}.x"):
            with pytest.raises(BadRequest, match="invalid cursor"):
                await list_rows(engine, LOCAL, ListQuery(cursor=broken))
