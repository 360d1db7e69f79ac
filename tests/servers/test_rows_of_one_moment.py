"""A row of a list, and a conversation, as REST and MCP tell of them: every part is of the same moment, and on disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.busy_disk_log import BusyDiskLog
from tests.support.playbook import Playbook
from understudy.engine.engine import Engine
from understudy.protocol.callers import LOCAL
from understudy.servers.mcp.conversation_tools import page_of_rows
from understudy.servers.rest.rows import ListQuery, conversation_of, list_rows, rows_of
from understudy.servers.rest.shapes import Conversation, Row
from understudy.testing import HOLD, Script, call, deltas, say
from understudy.testing.waiting import WAIT_SECONDS

ASKING: dict[str, Any] = {"approval_policy": "untrusted", "sandbox_mode": "danger-full-access"}
TOUCH = call("shell", command=["touch", "made"])


async def steps(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not holds():  # noqa: ASYNC110  # nothing tells of what is only in memory
            await asyncio.sleep(0.001)


@asynccontextmanager
async def playing(
    folder: Path, script: Script, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> AsyncGenerator[tuple[Playbook, BusyDiskLog]]:
    monkeypatch.setattr(Playbook, "open_log", BusyDiskLog)
    async with Playbook(folder, script, **settings) as play:
        log = cast(BusyDiskLog, play.engine.log)
        await play.seen("0 opened")
        yield play, log
        log.go_on()


async def row_of(engine: Engine) -> Row:
    [row] = (await list_rows(engine, LOCAL, ListQuery())).conversations
    return row


def told(row: Row) -> tuple[str, list[str]]:
    return row.standing, [question.call_id for question in row.waiting]


def told_more(conversation: Conversation) -> tuple[str, list[str], list[str], str | None]:
    return (*told(conversation), [question.call_id for question in conversation.questions], conversation.turn)


async def test_a_question_is_told_once_it_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with playing(tmp_path, [deltas(["a", HOLD]) + TOUCH], monkeypatch, **ASKING) as (play, log):
        await play.send("one")
        await play.seen("1 … a")
        log.wait()
        play.model.release()
        await until(lambda: play.handle.open_question("call1") is not None)
        assert told(await row_of(play.engine)) == ("working", [])
        whole = asyncio.ensure_future(conversation_of(play.engine, play.handle))
        await steps()
        assert not whole.done(), "it would tell of a question that a crash could still undo"
        log.go_on()
        assert told_more(await whole) == ("waiting", ["call1"], ["call1"], "1")
        assert told(await row_of(play.engine)) == ("waiting", ["call1"])


async def test_the_answer_to_a_question_is_told_once_it_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with playing(tmp_path, [TOUCH, say("b")], monkeypatch, **ASKING) as (play, log):
        await play.send("one")
        await play.seen("1 wonders call1")
        log.wait()
        assert await play.decide("call1", "denied")
        rows = [asyncio.ensure_future(row_of(play.engine)), asyncio.ensure_future(conversation_of(play.engine, play.handle))]
        await steps()
        assert not any(row.done() for row in rows), "either they would wait for a question that they lack, or say too much"
        log.go_on()
        for row in rows:
            assert told(await row) in [("working", []), ("idle", [])]
        await play.over()


async def test_the_end_of_a_turn_is_told_once_it_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with playing(tmp_path, [deltas(["a", HOLD])], monkeypatch) as (play, log):
        await play.send("one")
        await play.seen("1 … a")
        log.wait()
        play.model.release()
        await until(lambda: play.handle.running_turn is None)
        assert told(await row_of(play.engine)) == ("working", [])
        whole = asyncio.ensure_future(conversation_of(play.engine, play.handle))
        await steps()
        assert not whole.done()
        log.go_on()
        conversation = await whole
        assert told_more(conversation) == ("idle", [], [], None)
        assert conversation.last_seq == len(play.entries())


async def test_a_row_whose_turn_ends_in_another_process_while_the_list_is_read_has_all_of_it(tmp_path: Path) -> None:
    """Whoever waits for `idle` and reads then what it has cost gets that."""
    async with (
        Playbook(tmp_path, [deltas(["a", HOLD, "b"], usage=(30, 12))]) as play,
        Playbook.beside(play, []) as other,
    ):
        await play.send("one")
        await play.seen("1 … a")
        page = await other.engine.list(LOCAL, 10)
        play.model.release()
        await play.over()
        [row] = (await page_of_rows(page, other.engine))["conversations"]
        assert (row["status"], row["tokens"], "running" in row) == ("idle", 42, False)
        [shown] = await rows_of(other.engine, LOCAL, page.rows)
        assert (shown.standing, shown.tokens) == ("idle", 42)


async def test_an_unkept_conversation_tells_how_its_turn_ended(tmp_path: Path) -> None:
    async with Playbook(tmp_path, [deltas(["a", HOLD])], **{"history.persistence": "none"}) as play:
        await play.send("one")
        await play.seen("1 … a")
        assert await play.interrupt() == "over"
        assert told(await row_of(play.engine)) == ("interrupted", [])
