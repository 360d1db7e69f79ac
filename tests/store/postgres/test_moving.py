"""All conversations from the file into a database and back: nothing is lost on the way, and the former place is closed."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tests.cli.program import Program
from tests.store.conformance.writing import claim_of, written
from tests.store.records import append, new_id, noticed, opened, user_message
from tests.support.postgres import the_server
from understudy.errors import StoreError
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Send
from understudy.store.log import Committed, SavedText
from understudy.store.postgres.log import PostgresLog
from understudy.store.sqlite.event_log import SqliteLog


class Place:
    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.state = self.home / "understudy"
        self.url = the_server().new_tables()
        self.program = Program(self.home, folder)

    def file(self) -> SqliteLog:
        return SqliteLog(self.state, asyncio.get_running_loop())

    def database(self) -> PostgresLog:
        return PostgresLog(self.state, self.url, asyncio.get_running_loop())

    async def there(self) -> str:
        ended = await self.program.run_aside("store", "move", "sqlite", self.url)
        assert (ended.code, ended.err) == (0, "")
        return ended.out

    async def told(self, *words: str) -> str:
        ended = await self.program.run_aside("store", "move", *words)
        assert (ended.code, ended.out) == (1, "")
        return ended.err


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def fill(log: SqliteLog) -> list[ConversationId]:
    names = [new_id() for _ in range(4)]
    for number, name in enumerate(names):
        await append(log, opened(name, at=float(number)))
        await append(log, noticed(name, 1, 2, count=5))
    assert await written(lambda done: log.post(names[0], Send(user_message("a letter")), done)) is None
    assert await written(lambda done: log.save_text(names[1], 1, SavedText(6, "half"), done)) is None
    assert await written(lambda done: log.archive(names[2], True, done)) is None
    return names


async def test_what_was_in_the_file_is_in_the_database_and_back_again(place: Place) -> None:
    with closing(place.file()) as log:
        names = await fill(log)
        before = [await log.find(name) for name in names]
        audits = [await log.audit(name) for name in names]
    assert "4 conversations with 24 records are in" in await place.there()
    with closing(place.database()) as moved:
        assert [await moved.find(name) for name in names] == before
        assert [await moved.audit(name) for name in names] == audits
        with psycopg.connect(place.url) as connection:  # the machine that has their folders
            assert connection.execute("SELECT DISTINCT host, folder FROM conversations").fetchall() == [(moved.hosts.name, "/w")]
        assert len(await moved.letters(names[0])) == 1
        assert await moved.saved_text(names[1]) == SavedText(6, "half")
        claim = await claim_of(moved, names[3])
        assert claim.position.epoch == 1
        await append(moved, noticed(names[3], 2, 7, claims=True))
        claim.release()
        later = await moved.find(names[3])
        assert await written(lambda done: moved.post(names[0], Send(user_message("another")), done)) is None
    (place.state / "conversations.db").rename(place.state / "put aside")
    for rest in place.state.glob("conversations.db-*"):
        rest.unlink()
    back = await place.program.run_aside("store", "move", place.url, "sqlite")
    assert (back.code, back.err) == (0, "")
    with closing(place.file()) as log:
        assert [await log.find(name) for name in names] == [*before[:3], later]
        assert [letter.number for letter in await log.letters(names[0])] == [1, 2]
        audited = await log.audit(names[3])
        assert audited is not None
        assert audited.broken is None


async def test_whoever_has_the_former_place_open_is_refused_and_told_why(place: Place) -> None:
    with closing(place.file()) as log:
        [name, *_] = await fill(log)
        await place.there()
        writes: list[Callable[[Committed], None]] = [
            lambda done: log.append(noticed(name, 1, 7), done),
            lambda done: log.append(opened(new_id()), done),
            lambda done: log.post(name, Send(user_message("x")), done),
            lambda done: log.delete(name, done),
        ]
        for write in writes:
            error = await written(write)
            assert isinstance(error, StoreError)
            assert "have moved to postgresql://" in str(error)
        assert len(await log.read(name)) == 6, "what is there can be read"
    assert "have moved to postgresql://" in await place.told("sqlite", place.url)
    with psycopg.connect(place.url, autocommit=True) as connection:
        connection.execute("UPDATE about SET moved_to = 'elsewhere'")
    with closing(place.database()) as moved:
        error = await written(lambda done: moved.append(noticed(name, 1, 7), done))
        assert "have moved to elsewhere" in str(error)


@pytest.mark.slow
async def test_nothing_moves_while_a_conversation_is_in_use_or_into_a_store_that_has_some(place: Place) -> None:
    with closing(place.file()) as log:
        [name, *_] = await fill(log)
        claim = await claim_of(log, name)
        assert f"1 conversations of {log.place} are in use ({name})" in await place.told("sqlite", place.url)
        claim.release()
        with closing(place.database()) as other:
            await append(other, opened(new_id()))
        assert "has conversations already" in await place.told("sqlite", place.url)
        await append(log, noticed(name, 1, 7))
    assert "one of the two is `sqlite`" in await place.told("sqlite", "sqlite")
    assert "does not belong into a command" in await place.told("sqlite", "postgresql://me:s3cret@x/y")


@pytest.mark.slow
async def test_what_is_damaged_is_named_and_comes_as_it_is(place: Place) -> None:
    with closing(place.file()) as log:
        [name, *_] = await fill(log)
    with closing(sqlite3.connect(place.state / "conversations.db")) as file:
        file.execute("UPDATE records SET data = CAST(replace(data, 'note 3', 'note 4') AS BLOB) WHERE seq = 3")
        file.commit()
    ended = await place.program.run_aside("store", "move", "sqlite", place.url)
    assert ended.code == 0
    assert "record 3 is not what was written" in ended.err
    with closing(place.database()) as moved:
        audited = await moved.audit(name)
        assert audited is not None
        assert audited.broken is not None
        assert audited.broken.seq == 3


@pytest.mark.slow
async def test_what_a_database_cannot_hold_keeps_everything_where_it_is(place: Place) -> None:
    with closing(place.file()) as log:
        [name, *_] = await fill(log)
    with closing(sqlite3.connect(place.state / "conversations.db")) as file:
        file.execute("UPDATE records SET parent = 'no number' WHERE seq = 3")
        file.commit()
    assert "cannot be moved: a value of it is damaged" in await place.told("sqlite", place.url)
    with closing(place.file()) as log, closing(place.database()) as other:
        await append(log, noticed(name, 1, 7))
        assert await other.count() == 0
