"""A store that the build before owners and digests made, by the real program: it is migrated whole, at once or not at all.

`made_by_version_2` holds that store and what was exported of it: a conversation with a command, an archived one, and one whose
process was killed while the model spoke, with the text so far beside it and two letters in its inbox.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.store import test_older_store
from tests.store.records import append, new_id, noticed, open_log, opened
from tests.store.test_older_store import holds
from tests.support.answered import answered
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Send
from understudy.store.log import Verified
from understudy.store.sqlite import open_files
from understudy.store.sqlite.event_log import SqliteLog
from understudy.testing.waiting import WAIT_SECONDS

MADE = Path(__file__).parent / "made_by_version_2"
VERSION = 6
BEFORE = 2
MANY = 100_000
ITS = "conversation = (SELECT number FROM conversations WHERE id = ?)"


def unpack(store: Path) -> Path:
    store.mkdir(parents=True)
    (store / "conversations.db").write_bytes(gzip.decompress((MADE / "conversations.db.gz").read_bytes()))
    return store


def exported(name: str) -> tuple[ConversationId, list[dict[str, Any]]]:
    header, *entries = [json.loads(line) for line in (MADE / f"{name}.jsonl").read_text().splitlines()]
    return ConversationId(header["conversation_id"]), entries


def version_of(store: Path) -> int:
    with closing(sqlite3.connect(f"file:{store / 'conversations.db'}?mode=ro", uri=True)) as raw:
        return int(raw.execute("PRAGMA user_version").fetchone()[0])


def test_the_store_is_of_the_version_before() -> None:
    assert len(open_files.MIGRATIONS) == VERSION


@pytest.mark.parametrize("name", ["plain", "archived", "cut"])
def test_every_record_is_there_and_in_the_chain(tmp_path: Path, name: str) -> None:
    conversation, entries = exported(name)
    store = unpack(tmp_path / "store")
    assert version_of(store) == BEFORE
    with closing(SqliteLog(store)) as log:
        read = [msgspec.to_builtins(entry) for entry in answered(log.read(conversation))]
        assert answered(log.check()) == "ok"
        listed = answered(log.find(conversation))
        assert answered(log.verify(None)) == Verified(29, 29, (), 0)
    assert version_of(store) == VERSION
    assert len(read) == len(entries)
    for now, before in zip(read, entries, strict=True):
        assert holds(now, before), (now, before)
    assert listed is not None
    assert (listed.owner, listed.archived, len(listed.digest)) == ("local", name == "archived", 32)


def test_letters_and_the_text_so_far_are_kept(tmp_path: Path) -> None:
    conversation, _ = exported("cut")
    with closing(SqliteLog(unpack(tmp_path / "store"))) as log:
        letters = [letter.op for letter in answered(log.letters(conversation))]
        said = answered(log.saved_text(conversation))
    assert [letter.message.message.text() for letter in letters if isinstance(letter, Send)] == [
        "left in the inbox",
        "and this",
    ]
    assert said is not None
    assert said.text == "half of an answer"


async def test_the_chain_goes_on_from_what_was_there_before(tmp_path: Path) -> None:
    store = unpack(tmp_path / "store")
    conversation, entries = exported("plain")
    log = open_log(store)
    position = answered(log.positions([conversation]))[conversation]
    await append(log, noticed(conversation, position.epoch + 1, len(entries) + 1, claims=True, count=2))
    assert answered(log.verify(None)).problems == ()
    log.close()
    for seq in (3, len(entries) + 1):
        harmed = tmp_path / f"harmed {seq}"
        shutil.copytree(store, harmed)
        with closing(sqlite3.connect(harmed / "conversations.db", isolation_level=None)) as raw:
            raw.execute(f"UPDATE records SET at = at + 1 WHERE seq = ? AND {ITS}", (seq, conversation))
        with closing(SqliteLog(harmed)) as log:
            (problem,) = answered(log.verify(None)).problems
        assert f"broken at record {seq}:" in problem


async def test_the_oldest_store_is_in_the_chain_too(tmp_path: Path) -> None:
    with closing(SqliteLog(test_older_store.unpack(tmp_path))) as log:
        assert answered(log.verify(None)).problems == ()
        assert {row.owner for row in answered(log.list(10)).rows} == {"local"}


async def test_a_conversation_whose_pages_are_damaged_does_not_keep_the_others_from_use(tmp_path: Path) -> None:
    """Rows that make no sense are given a digest as they are; what else is wrong with them is told as before."""
    store = unpack(tmp_path / "store")
    conversation, _ = exported("plain")
    with closing(sqlite3.connect(store / "conversations.db", isolation_level=None)) as raw:
        garbage = "turn = CAST(x'ff' AS TEXT), data = 'x?'"
        raw.execute(f"UPDATE records SET {garbage} WHERE seq = 3 AND {ITS}", (conversation,))
    with closing(SqliteLog(store)) as log:
        (problem,) = answered(log.verify(None)).problems
    assert "record 3 cannot be read" in problem


def make_large(store: Path) -> None:
    """Many records, as the version before kept them."""
    store.mkdir(parents=True)
    with closing(sqlite3.connect(store / "conversations.db", isolation_level=None)) as raw:
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute("BEGIN")
        for statement in ";".join(open_files.MIGRATIONS[:BEFORE]).split(";"):
            raw.execute(statement)
        each = 1000
        for number in range(MANY // each):
            raw.execute("INSERT INTO conversations VALUES (?, ?, 1, ?, 1, 1, 0, '{}')", (number, new_id(), each))
            rows = ((number, seq, seq - 1, "1", 1.5, b'{"type":"noticed","message":"%0400d"}' % seq) for seq in range(1, each + 1))
            raw.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)", rows)
        raw.execute(f"PRAGMA user_version = {BEFORE}")
        raw.execute("COMMIT")


def is_locked(store: Path) -> bool:
    """Somebody is in a transaction that writes."""
    with closing(sqlite3.connect(store / "conversations.db", isolation_level=None, timeout=0)) as raw:
        try:
            raw.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        raw.execute("ROLLBACK")
    return False


def content_of(store: Path) -> list[Any]:
    with closing(sqlite3.connect(f"file:{store / 'conversations.db'}?mode=ro", uri=True)) as raw:
        queries = "SELECT count(*), sum(length(data)) FROM records", "SELECT count(*), sum(last_seq) FROM conversations"
        return [raw.execute(query).fetchone() for query in queries]


OPENER = (
    "import sys; from pathlib import Path; from understudy.store.sqlite.event_log import SqliteLog; "
    "SqliteLog(Path(sys.argv[1])).close()"
)


@pytest.mark.slow
def test_a_migration_that_is_killed_in_the_middle_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    made, store = tmp_path / "made", tmp_path / "store"
    make_large(made)
    before = content_of(made)
    shutil.copytree(made, store)
    killed, give_up = 0, time.monotonic() + 6 * WAIT_SECONDS
    while killed < 3:
        assert time.monotonic() < give_up
        opener = subprocess.Popen([sys.executable, "-c", OPENER, str(store)])
        while not is_locked(store) and opener.poll() is None and time.monotonic() < give_up:
            pass
        opener.kill()
        opener.wait(WAIT_SECONDS)
        assert content_of(store) == before
        if version_of(store) == BEFORE:
            killed += 1
        else:  # we were too late: it had migrated already
            shutil.rmtree(store)
            shutil.copytree(made, store)
    subprocess.run([sys.executable, "-c", OPENER, str(store)], check=True, timeout=60)
    assert version_of(store) == VERSION
    assert content_of(store) == before
    with closing(SqliteLog(store)) as log:
        assert answered(log.check()) == "ok"
        assert (answered(log.verify(5000)).records, answered(log.count())) == (5000, MANY // 1000)


async def test_a_new_store_has_nothing_of_older_records(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    await append(log, opened(new_id()))
    log.close()
    with closing(sqlite3.connect(tmp_path / "conversations.db")) as raw:
        assert raw.execute("SELECT count(*) FROM older_digests").fetchone() == (0,)
