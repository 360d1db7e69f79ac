"""The index beside the log: what happens to either happens to what is found."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.store import test_migration
from tests.store.conformance.writing import written
from tests.store.records import open_log, records_of
from tests.store.search.said import agent, found, say, say_more, search, user
from understudy.errors import StoreError
from understudy.protocol.records import UserMessage
from understudy.store.search import index, searching
from understudy.store.search.asked import Wanted
from understudy.testing.waiting import WAIT_SECONDS


def missing_in(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "conversations.db")) as raw:
        return int(raw.execute("SELECT count(*) FROM unindexed").fetchone()[0])


def everything_in(folder: Path, name: str) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob(f"{name}*")))


async def test_nobody_pays_for_an_index_before_somebody_searches(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    await say(log, [user("word")] * (searching.ENOUGH_TO_CATCH_UP + 1))
    log.close()
    assert not (tmp_path / "search.db").exists()


async def test_what_is_deleted_is_forgotten_before_the_deletion_is_told(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    gone = await say(log, [user("xylophone"), agent("a xylophone, certainly")])
    await say(log, [user("something that stays")])
    assert len(await found(log, "xylophone")) == 2
    assert b"xylophone" in everything_in(tmp_path, "search.db")
    assert await written(lambda done: log.delete(gone, done)) is None
    assert b"xylophone" not in everything_in(tmp_path, "search.db")
    assert missing_in(tmp_path) == 0
    assert await found(log, "xylophone") == []
    assert await found(log, "stays") == ["something that stays"]
    log.close()


async def test_a_deletion_by_a_process_that_never_searched_is_forgotten_too(tmp_path: Path) -> None:
    one, other = open_log(tmp_path), open_log(tmp_path)
    gone = await say(one, [user("xylophone")])
    assert len(await found(one, "xylophone")) == 1
    assert await written(lambda done: other.delete(gone, done)) is None
    assert b"xylophone" not in everything_in(tmp_path, "search.db")
    assert await found(one, "xylophone") == []
    one.close()
    other.close()


async def test_two_processes_index_at_once_and_find_the_same(tmp_path: Path) -> None:
    one, other = open_log(tmp_path), open_log(tmp_path)
    for number in range(30):
        await say(one, [user(f"word {number}"), agent("answer")] * 5)
    mine, theirs = await asyncio.gather(search(one, "word", limit=100), search(other, "word", limit=100))
    assert len(mine.hits) == 100
    assert mine == theirs
    assert missing_in(tmp_path) == 0
    conversation = await say(one, [user("later")])
    assert await found(other, "later") == ["later"]
    await say_more(one, conversation, 2, user("latest"))
    assert await found(other, "latest") == ["latest"]
    with closing(sqlite3.connect(tmp_path / "search.db")) as raw:
        assert raw.execute("SELECT count(*), count(DISTINCT conversation || ' ' || seq) FROM texts").fetchone() == (302, 302)
    one.close()
    other.close()


async def test_after_enough_records_the_index_comes_along_by_itself(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    await say(log, [user("first")])
    assert await found(log, "first") == ["first"]
    await say(log, [user("word")] * searching.ENOUGH_TO_CATCH_UP)
    async with asyncio.timeout(WAIT_SECONDS):
        while missing_in(tmp_path):  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.01)
    log.close()


async def test_an_index_that_was_removed_or_damaged_is_made_anew(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    await say(log, [user("word")])
    assert await found(log, "word") == ["word"]
    (tmp_path / "search.db").unlink()
    assert await found(log, "word") == ["word"]
    log.close()
    for path in tmp_path.glob("search.db-*"):
        path.unlink()
    (tmp_path / "search.db").write_bytes(b"this is no database " * 500)
    log = open_log(tmp_path)
    assert await found(log, "word") == ["word"]
    log.close()


async def test_an_index_whose_pages_are_damaged_is_made_anew(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    await say(log, [user("word")] * 200)
    assert len(await found(log, "word", limit=100)) == 100
    log.close()
    data = bytearray((tmp_path / "search.db").read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    (tmp_path / "search.db").write_bytes(data)
    log = open_log(tmp_path)
    assert len(await found(log, "word", limit=100)) == 100
    assert len(records_of(log, (await search(log, "word")).hits[0].conversation_id)) == 201
    log.close()


@pytest.mark.parametrize("how", ["delete", "empty", "cut", "rubbish", "former copy", "move away", "folder"])
@pytest.mark.parametrize("first", [0, 1], ids=["its owner", "a newcomer"])
async def test_whatever_is_done_to_the_index_under_two_processes_all_is_found(tmp_path: Path, how: str, first: int) -> None:
    file = tmp_path / "search.db"
    one = open_log(tmp_path)
    await say(one, [user("word one")] * 300)
    assert len(await found(one, "word", limit=100)) == 100
    copy = file.read_bytes()
    await say(one, [user("word two")])
    assert await found(one, "two") == ["word two"]
    match how:
        case "delete":
            file.unlink()
        case "empty":
            os.truncate(file, 0)
        case "cut":
            os.truncate(file, file.stat().st_size // 2)
        case "rubbish":
            (tmp_path / "rubbish").write_bytes(b"rubbish" * 3000)
            (tmp_path / "rubbish").rename(file)
        case "former copy":
            (tmp_path / "former").write_bytes(copy)
            (tmp_path / "former").rename(file)
        case "move away":
            file.rename(tmp_path / "aside")
        case _:
            file.unlink()
            file.mkdir()
    other = open_log(tmp_path)
    logs = (one, other) if first == 0 else (other, one)
    if how == "folder":  # whatever that is for, nobody empties it
        with pytest.raises(StoreError, match=r"search\.db"):
            await search(one, "word")
        file.rmdir()
    conversation = await say(one, [user("word three")])
    for log in logs:
        assert [await found(log, number) for number in ("two", "three")] == [["word two"], ["word three"]], log is one
        assert len(await found(log, "one", limit=100)) == 100
    await say_more(one, conversation, 2, user("word four"))
    assert await found(other, "four") == await found(one, "four") == ["word four"]
    assert missing_in(tmp_path) == 0
    one.close()
    other.close()


async def test_an_index_of_another_understudy_is_made_anew(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "search.db")) as raw:
        raw.execute("PRAGMA user_version = 99")
    log = open_log(tmp_path)
    await say(log, [user("word")])
    assert await found(log, "word") == ["word"]
    log.close()


async def test_a_store_put_back_from_a_backup_is_found_as_it_is(tmp_path: Path) -> None:
    store, copy = tmp_path / "store", tmp_path / "copy"
    log = open_log(store)
    conversation = await say(log, [user("before the backup")])
    assert len(await found(log, "backup")) == 1
    await log.backup(copy)
    await say_more(log, conversation, 2, user("after the backup"))
    await say(log, [user("a backup of a xylophone")])
    assert len(await found(log, "backup")) == 3
    assert b"xylophone" in everything_in(store, "search.db")
    log.close()
    shutil.copy(copy, store / "conversations.db")
    log = open_log(store)
    assert await found(log, "backup") == ["before the backup"]
    await say_more(log, conversation, 2, user("another way after the backup"))
    assert await found(log, "another") == ["another way after the backup"]
    async with asyncio.timeout(WAIT_SECONDS):
        while b"xylophone" in everything_in(store, "search.db"):  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.01)
    log.close()


async def test_a_store_that_is_taken_away_is_not_searched(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    await say(log, [user("word")])
    assert await found(log, "word") == ["word"]
    (tmp_path / "conversations.db").unlink()
    with pytest.raises(StoreError, match=r"conversations\.db"):
        await search(log, "word")
    log.close()


async def test_an_old_store_is_indexed_when_somebody_searches(tmp_path: Path) -> None:
    store = test_migration.unpack(tmp_path / "store")
    conversation, _ = test_migration.exported("plain")
    log = open_log(store)
    said = next(record for record in records_of(log, conversation) if record.__class__.__name__ == "UserMessage")
    hits = (await search(log, said.message.message.text() if hasattr(said.message, "message") else said.message.text())).hits  # type: ignore[attr-defined]
    assert conversation in {hit.conversation_id for hit in hits}
    assert missing_in(store) == 0
    log.close()


async def test_a_record_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    await say(log, [user("word one"), user("word two"), user("word three")])
    with closing(sqlite3.connect(tmp_path / "conversations.db", isolation_level=None)) as raw:
        raw.execute("UPDATE records SET data = x'ff' WHERE seq = 3")
    assert await found(log, "word") == ["word three", "word one"]
    log.close()


async def test_an_index_that_takes_longer_than_the_patience_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "STEP_CHARACTERS", 1)
    log = open_log(tmp_path)
    await say(log, [user("word")] * 200)
    with pytest.raises(StoreError, match="being made"):
        await log.search.find(Wanted(words="word"), str, 0.0)
    assert len(await found(log, "word", limit=100)) == 100
    log.close()


INDEXER = """
import asyncio, sys
from pathlib import Path
from understudy.store.search import index
from understudy.store.search.asked import Wanted
from understudy.store.sqlite.event_log import SqliteLog
index.STEP_CHARACTERS = 50
async def main():
    log = SqliteLog(Path(sys.argv[1]), asyncio.get_running_loop())
    print("open", flush=True)
    await log.search.find(Wanted(words="word"), str)
    print("done", flush=True)
asyncio.run(main())
"""


@pytest.mark.slow
async def test_a_process_that_is_killed_while_it_indexes_leaves_what_the_next_one_completes(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(40):
        await say(log, [user(f"word {number}"), agent("answer")] * 10)
    for milliseconds in (5, 40, 120, 300):
        indexer = subprocess.Popen([sys.executable, "-c", INDEXER, str(tmp_path)], stdout=subprocess.PIPE)  # noqa: ASYNC220
        assert indexer.stdout is not None
        assert indexer.stdout.readline() == b"open\n"
        try:
            await asyncio.to_thread(indexer.wait, milliseconds / 1000)
        except subprocess.TimeoutExpired:
            indexer.send_signal(signal.SIGKILL)
        indexer.wait(WAIT_SECONDS)
        indexer.stdout.close()
    hits = 0
    cursor: str | None = None
    while True:
        page = await search(log, "word", limit=100, cursor=cursor)
        hits += len(page.hits)
        cursor = page.next
        if cursor is None:
            break
    assert hits == 400
    with closing(sqlite3.connect(tmp_path / "search.db")) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        raw.execute("INSERT INTO words(words) VALUES ('integrity-check')")
        assert raw.execute("SELECT count(*) FROM texts").fetchone() == (800,)
    log.close()


DAMAGE = (
    "UPDATE records SET at = 9e999 WHERE seq = 2 AND {it}",
    "UPDATE records SET at = 'x' WHERE seq = 2 AND {it}",
    "UPDATE records SET at = -1.0, digest = 'x' WHERE seq = 2 AND {it}",
    "UPDATE records SET data = x'78ff' WHERE seq = 2 AND {it}",
    "UPDATE conversations SET owner = x'ff00' WHERE number = {number}",
    "UPDATE conversations SET last_seq = 'x' WHERE number = {number}",
    "UPDATE conversations SET last_seq = 999 WHERE number = {number}",
    "UPDATE conversations SET digest = 'x' WHERE number = {number}",
    "UPDATE conversations SET digest = x'' WHERE number = {number}",
    "UPDATE conversations SET id = x'ff' WHERE number = {number}",
)


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_damaged_conversation_hides_no_other_and_is_no_work_for_ever(tmp_path: Path, damage: str) -> None:
    log = open_log(tmp_path)
    await say(log, [user("word one")])
    broken = await say(log, [user("word two")])
    await say(log, [user("word three")])
    with closing(sqlite3.connect(tmp_path / "conversations.db", isolation_level=None)) as raw:
        (number,) = raw.execute("SELECT number FROM conversations WHERE id = ?", (broken,)).fetchone()
        raw.execute(damage.format(number=number, it=f"conversation = {number}"))
    assert {"word one", "word three"} <= set(await found(log, "word"))
    assert missing_in(tmp_path) == 0
    log.close()


async def test_a_bug_in_one_conversation_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = index.folder_of

    def folder_of(record: Any) -> str | None:
        if isinstance(record, UserMessage) and record.message.text() == "word two":
            raise ValueError("a bug")
        return real(record)

    monkeypatch.setattr(index, "folder_of", folder_of)
    log = open_log(tmp_path)
    for text in ("word one", "word two", "word three"):
        await say(log, [user(text)])
    assert set(await found(log, "word")) == {"word one", "word three"}
    assert missing_in(tmp_path) == 0
    log.close()


async def test_archived_and_imported_conversations_are_found(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    archived = await say(log, [user("word one")])
    assert await found(log, "word") == ["word one"]
    assert await written(lambda done: log.archive(archived, True, done)) is None
    await say(log, [user("word two")], at=0.0)  # a file that was imported has its old times
    assert await found(log, "word") == ["word one", "word two"]
    log.close()


async def test_what_an_older_build_writes_that_has_the_store_open_is_found(tmp_path: Path) -> None:
    """It knows nothing of an index: the store itself notes what it does."""
    log = open_log(tmp_path)
    conversation = await say(log, [user("word one")])
    assert await found(log, "word") == ["word one"]
    with closing(sqlite3.connect(tmp_path / "conversations.db", isolation_level=None)) as raw:
        copied = "SELECT conversation, 3, 2, turn, at + 1, replace(data, 'one', 'two'), digest FROM records WHERE seq = 2"
        raw.execute(f"INSERT INTO records {copied}")
        raw.execute("UPDATE conversations SET last_seq = 3 WHERE id = ?", (conversation,))
        assert missing_in(tmp_path) == 1
        assert await found(log, "word") == ["word two", "word one"]
        raw.execute("DELETE FROM conversations")
        raw.execute("DELETE FROM records")
    assert await found(log, "word") == []
    log.close()


async def test_searches_wait_for_no_deletion_and_deletions_for_no_large_index(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    ids = [await say(log, [user(f"word {number}")] * 20) for number in range(20)]
    assert len(await found(log, "word", limit=100)) == 100
    deleted = [asyncio.create_task(written(lambda done, name=name: log.delete(name, done))) for name in ids[:10]]
    pages = await asyncio.gather(*(search(log, "word", limit=100) for _ in range(10)))
    assert all(len(page.hits) == 100 for page in pages)
    assert await asyncio.gather(*deleted) == [None] * 10
    assert {hit.conversation_id for hit in (await search(log, "word", limit=100)).hits} <= set(ids[10:])
    log.close()
