"""The list: last activity first, in pages that stay whole while conversations come and change."""

import asyncio
import base64
import json
import math
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.records import append, new_id, noticed, open_log, opened
from tests.support.answered import answered
from understudy.errors import BadRequest
from understudy.protocol.ids import ConversationId
from understudy.store.log import LATEST
from understudy.store.sqlite.event_log import SqliteLog
from understudy.testing.waiting import WAIT_SECONDS


def pages(log: SqliteLog, size: int) -> list[list[ConversationId]]:
    found: list[list[ConversationId]] = []
    cursor = None
    while True:
        page = answered(log.list(size, cursor))
        found.append([row.conversation_id for row in page.rows])
        cursor = page.next_cursor
        if cursor is None:
            return found


async def test_last_activity_first_in_pages_of_any_size(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    names = [new_id() for _ in range(7)]
    for number, name in enumerate(names):
        await append(log, opened(name, at=100.0 + number))
    await append(log, noticed(names[2], 1, 2, at=500.0))
    order = [names[2], *(name for name in reversed(names) if name != names[2])]
    for size in (1, 2, 3, 6, 7, 8, 200):
        found = pages(log, size)
        assert [name for page in found for name in page] == order, size
        assert all(len(page) <= size for page in found)
    assert answered(log.list(0)) == type(answered(log.list(0)))((), None)
    assert answered(log.list(7)).next_cursor is None, "no cursor to an empty page"
    log.close()


async def test_the_same_moment_for_all_loses_none(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    names = {new_id() for _ in range(25)}
    for name in names:
        await append(log, opened(name, at=100.0))
    found = [name for page in pages(log, 4) for name in page]
    assert len(found) == 25
    assert set(found) == names
    log.close()


async def test_later_pages_leave_out_what_changed_since_the_first(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    names = [new_id() for _ in range(9)]
    for number, name in enumerate(names):
        await append(log, opened(name, at=100.0 + number))
    first = answered(log.list(3))
    await append(log, opened(new_id(), at=time.time() + 1))
    await append(log, noticed(names[0], 1, 2, at=time.time() + 1))
    second = answered(log.list(3, first.next_cursor))
    third = answered(log.list(3, second.next_cursor))
    seen = [row.conversation_id for page in (first, second, third) for row in page.rows]
    assert seen == list(reversed(names[1:])), "the new one and the changed one are on a first page read later"
    assert third.next_cursor is None
    log.close()


async def test_a_clock_that_was_ahead_hides_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    ahead, now = new_id(), new_id()
    await append(log, opened(ahead, at=time.time() + 3600))
    await append(log, opened(now, at=time.time()))
    assert pages(log, 10) == [[ahead, now]]
    assert pages(log, 1) == [[ahead], [now]]
    log.close()


@pytest.mark.parametrize("column", ["created_at", "updated_at"])
@pytest.mark.parametrize("damage", [9e99, -9e99, math.inf, -math.inf, "noon", b"\xff"])
async def test_a_time_that_is_none_hides_no_other_conversation(tmp_path: Path, column: str, damage: object) -> None:
    log = open_log(tmp_path)
    names = [new_id() for _ in range(5)]
    for at, name in enumerate(names):
        await append(log, opened(name, at=float(at)))
    with closing(sqlite3.connect(log.path)) as connection, connection:
        connection.execute(f"UPDATE conversations SET {column} = ? WHERE id = ?", (damage, names[2]))
    for size in (1, 2, 10):
        found = [name for page in pages(log, size) for name in page]
        assert [name for name in found if name != names[2]] == [names[4], names[3], names[1], names[0]]
        assert len(found) == len(set(found))
    for row in answered(log.list(10)).rows:
        assert 0 <= row.created_at <= LATEST
        assert 0 <= row.updated_at <= LATEST
    log.close()


def forged(*values: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "!!!",
        "é",
        "bm9uc2Vuc2U",
        forged(1),
        forged("a", "b", "c"),
        forged(1.0, 2.0, 2**70),
        forged(1.0, 2.0, -1),
        "A" * 5000,
    ],
)
async def test_a_cursor_that_is_none_of_ours_is_refused(tmp_path: Path, cursor: str) -> None:
    log = open_log(tmp_path)
    with pytest.raises(BadRequest, match=r"^invalid cursor$"):
        answered(log.list(5, cursor))
    log.close()


async def test_an_archived_conversation_is_listed_apart(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    kept, away = new_id(), new_id()
    for name in (kept, away):
        await append(log, opened(name))
    done = asyncio.get_running_loop().create_future()
    log.archive(away, True, done.set_result)
    async with asyncio.timeout(WAIT_SECONDS):
        await done
    assert [row.conversation_id for row in answered(log.list(5)).rows] == [kept]
    assert [row.conversation_id for row in answered(log.list(5, archived=True)).rows] == [away]
    found = answered(log.find(away))
    assert found is not None
    assert found.archived
    log.close()


@pytest.mark.slow
async def test_a_page_deep_in_the_list_costs_no_more_than_the_first(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    with closing(sqlite3.connect(log.path, isolation_level=None)) as raw:
        raw.execute("BEGIN")
        rows = ((number, str(number), float(number)) for number in range(1, 20_001))
        columns = "number, id, epoch, last_seq, created_at, updated_at, summary"
        raw.executemany(f"INSERT INTO conversations({columns}) VALUES (?, ?, 1, 1, 1, ?, '{{}}')", rows)
        raw.execute("COMMIT")
    costs: list[int] = []
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    reader = log._files.reader  # pyright: ignore[reportPrivateUsage]  # what SQLite does is counted there
    reader.set_progress_handler(count, 10)
    cursor = None
    while True:
        steps = 0
        page = answered(log.list(200, cursor))
        costs.append(steps)
        cursor = page.next_cursor
        if cursor is None:
            break
    assert len(costs) == 100
    assert max(costs) < 2 * costs[0] + 10
    log.close()
