"""The chain of digests: what was written is what is read, and every change of it is found and named."""

import hashlib
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.store.records import append, new_id, noticed, open_log, opened
from tests.support.answered import answered
from understudy.errors import Fenced
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Entry, Noticed
from understudy.store.chain import link, link_all
from understudy.store.log import Verified
from understudy.store.sqlite.event_log import SqliteLog
from understudy.store.sqlite.writing import PACKED_RECORD


def problems(folder: Path) -> tuple[str, ...]:
    with closing(SqliteLog(folder)) as log:
        return answered(log.verify(None)).problems


async def write_some(folder: Path, *, count: int = 6) -> ConversationId:
    log = open_log(folder)
    name = new_id()
    await append(log, opened(name))
    await append(log, noticed(name, 1, 2, count=count - 1))
    log.close()
    return name


def change(folder: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(folder / "conversations.db", isolation_level=None)) as raw:
        raw.execute(statement, values)


def test_a_digest_is_what_is_documented() -> None:
    data = b'{"type":"noticed","message":"x"}'
    whole = b"p" * 32 + struct.pack("<qqdI", 7, 6, 1.25, 2) + b"12" + data
    assert link(b"p" * 32, 7, 6, "12", 1.25, data) == hashlib.sha256(whole).digest()


def test_every_part_of_a_record_counts() -> None:
    same = (b"p", 7, 6, "1", 1.5, b"{}")
    others = [(b"q", 7, 6, "1", 1.5, b"{}"), (b"p", 8, 6, "1", 1.5, b"{}"), (b"p", 7, 5, "1", 1.5, b"{}")]
    others += [
        (b"p", 7, 6, "2", 1.5, b"{}"),
        (b"p", 7, 6, "1", 1.75, b"{}"),
        (b"p", 7, 6, "1", 1.5, b"{ }"),
        (b"p", 7, 6, "1{", 1.5, b"}"),
    ]
    assert len({link(*one) for one in (same, *others)}) == 1 + len(others)


async def test_what_several_processes_wrote_is_one_chain(tmp_path: Path) -> None:
    log, other = open_log(tmp_path), open_log(tmp_path)
    name = new_id()
    await append(log, opened(name))
    await append(log, noticed(name, 1, 2, count=3))
    await append(other, noticed(name, 2, 5, claims=True))
    with pytest.raises(Fenced):
        await append(log, noticed(name, 1, 5))
    claim = answered(log.claim(name))
    await append(log, noticed(name, 3, 6, claims=True, count=2))
    await append(log, noticed(name, 3, 8))
    found = [answered(one.find(name)) for one in (log, other)]
    assert found[0] == found[1]
    assert answered(log.verify(None)) == Verified(8, 8, (), 0)
    del claim
    log.close()
    other.close()


async def test_a_conversation_that_was_deleted_and_imported_anew_has_a_chain_of_its_own(tmp_path: Path) -> None:
    log, other = open_log(tmp_path), open_log(tmp_path)
    name = new_id()
    await append(log, opened(name))
    await append(log, noticed(name, 1, 2))
    before = answered(log.find(name))
    other.delete(name, lambda error: None)
    again = msgspec.structs.replace(
        opened(name, at=5.0), entries=(*opened(name, at=5.0).entries, *noticed(name, 1, 2, at=6.0).entries)
    )
    await append(other, again)
    claim = answered(log.claim(name))
    await append(log, noticed(name, 2, 3, claims=True))
    after = answered(log.find(name))
    assert before is not None
    assert after is not None
    assert before.digest != after.digest
    assert answered(log.verify(None)).problems == ()
    del claim
    log.close()
    other.close()


async def test_a_large_record_that_is_kept_compressed_is_covered_by_what_it_says(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    name = new_id()
    await append(log, opened(name))
    batch = noticed(name, 1, 2)
    large = msgspec.structs.replace(batch.entries[0], record=Noticed("x" * PACKED_RECORD))
    await append(log, msgspec.structs.replace(batch, entries=(large,)))
    log.close()
    assert problems(tmp_path) == ()


BROKEN = "the chain of digests is broken at record {}: it, or one before it, is not what was written"


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("UPDATE records SET data = replace(data, 'note 4', 'note X') WHERE seq = 4", BROKEN.format(4)),
        ("UPDATE records SET at = at + 1 WHERE seq = 3", BROKEN.format(3)),
        ("UPDATE records SET turn = '9' WHERE seq = 5", BROKEN.format(5)),
        ("UPDATE records SET parent = 1 WHERE seq = 5", BROKEN.format(5)),
        ("UPDATE records SET digest = zeroblob(32) WHERE seq = 2", BROKEN.format(2)),
        ("UPDATE records SET digest = NULL WHERE seq = 2", BROKEN.format(3)),
        ("DELETE FROM records WHERE seq = 3", "record 3 is missing"),
        ("DELETE FROM records WHERE seq = 6", "it should have 6 records, and the last one is 5"),
        (
            "UPDATE conversations SET digest = zeroblob(32)",
            "the chain of digests does not end as it did: record 6 is not the one that was written last",
        ),
    ],
)
async def test_the_first_link_that_is_broken_is_named(tmp_path: Path, statement: str, found: str) -> None:
    name = await write_some(tmp_path)
    assert problems(tmp_path) == ()
    change(tmp_path, statement)
    assert problems(tmp_path)[0] == f"{name}: {found}"


async def test_a_last_record_that_was_taken_away_with_its_number_is_noticed(tmp_path: Path) -> None:
    name = await write_some(tmp_path)
    change(tmp_path, "DELETE FROM records WHERE seq = 6")
    change(tmp_path, "UPDATE conversations SET last_seq = 5")
    expected = "the chain of digests does not end as it did: record 5 is not the one that was written last"
    assert problems(tmp_path) == (f"{name}: {expected}",)


def test_records_that_are_linked_together_have_the_digests_that_they_have_one_by_one() -> None:
    turns = ("0", "0", "turn 1", "turn 1", "ünïcode", "0")
    entries = [Entry(seq, seq - 1, turn, 1.5 * seq, Noticed("n" * seq)) for seq, turn in enumerate(turns, 1)]
    encoded = [msgspec.json.encode(entry.record) for entry in entries]
    previous, expected = b"before", list[bytes]()
    for entry, data in zip(entries, encoded, strict=True):
        previous = link(previous, entry.seq, entry.parent, entry.turn, entry.at, data)
        expected.append(previous)
    assert link_all(b"before", entries, encoded) == expected
