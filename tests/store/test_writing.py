"""What each kind of write does to the tables, and that all of it is written, or nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.store.records import SUMMARY
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Interrupt
from understudy.protocol.records import Entry, Noticed, Opened, Overrides
from understudy.store.chain import FIRST, Heads, link
from understudy.store.decoding import unpacked
from understudy.store.log import Batch, SavedText
from understudy.store.schema import migrate
from understudy.store.writing import (
    AT_ONCE,
    PACKED_PIECE,
    PACKED_RECORD,
    Gone,
    Overtaken,
    Statement,
    append,
    archive,
    delete,
    letter,
    said,
    write,
)

NAME = ConversationId("c")
JSON = msgspec.json.encode


def entries(first: int, last: int) -> tuple[Entry, ...]:
    return tuple(Entry(seq, seq - 1, f"t{seq}", seq + 0.5, Noticed(f"note {seq}")) for seq in range(first, last + 1))


def records(previous: bytes, *new: Entry) -> list[tuple[object, ...]]:
    """Of conversation 7, as they lie in the table."""
    rows: list[tuple[object, ...]] = []
    for entry in new:
        previous = link(previous, entry.seq, entry.parent, entry.turn, entry.at, JSON(entry.record))
        rows.append((7, entry.seq, entry.parent, entry.turn, entry.at, JSON(entry.record), previous))
    return rows


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, AT_ONCE * 7)  # SQLite's own differs from system to system
        migrate(connection, "memory")
        yield connection


def opened(*numbers: int) -> list[Statement]:
    """New conversations, each at epoch 1 and before its first record."""
    columns = "INSERT INTO conversations(number, id, epoch, last_seq, created_at, updated_at, summary, digest)"
    return [
        Statement(f"{columns} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (number, f"c{number}", 1, 0, 1.0, 2.0, b"{}", b"d"))
        for number in numbers
    ]


def moved(number: int, epoch: int, last_seq: int, *, claims: bool = False, at: float = 9.0, text: str = "n") -> list[Statement]:
    """One more record, the last."""
    entry = Entry(last_seq, last_seq - 1, "t", at, Noticed(text))
    batch = Batch(NAME, epoch, last_seq - 1, (entry,), SUMMARY, claims=claims)
    return append(number, batch, heads_of(number, epoch - claims, last_seq - 1))


def heads_of(number: int, epoch: int, last_seq: int, digest: bytes = b"d") -> Heads:
    known = Heads(sqlite3.connect(":memory:"))
    known.note(number, epoch, last_seq, digest)
    return known


def everything(connection: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    return {
        table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
        for table in ("conversations", "records", "said", "inbox")
    }


# -- appends


def test_a_batch_that_makes_the_conversation(connection: sqlite3.Connection) -> None:
    new = entries(1, 2)
    known = Heads(connection)
    write(connection, append(7, Batch(NAME, 1, 0, new, SUMMARY, creates=True), known))
    found, expected = everything(connection), records(FIRST, *new)
    assert found["records"] == expected
    assert found["conversations"] == [(7, "c", 1, 2, 1.5, 2.5, 0, JSON(SUMMARY), "local", expected[-1][-1])]
    assert known.find(7, 1, 2) == expected[-1][-1]


@pytest.mark.parametrize("owner", ["local", "alice"])
def test_the_owner_is_kept_beside_the_conversation(connection: sqlite3.Connection, owner: str) -> None:
    first = Entry(1, 0, "0", 1.5, Opened("c", "m", Overrides(), owner=owner))
    write(connection, append(7, Batch(NAME, 1, 0, (first,), SUMMARY, creates=True), Heads(connection)))
    assert everything(connection)["conversations"][0][8] == owner


@pytest.mark.parametrize(("claims", "epoch"), [(False, 1), (True, 2)])
def test_a_batch_that_goes_on(connection: sqlite3.Connection, claims: bool, epoch: int) -> None:
    write(connection, opened(7, 8))
    new = entries(1, 2)
    write(connection, append(7, Batch(NAME, epoch, 0, new, SUMMARY, claims=claims), heads_of(7, 1, 0)))
    found, expected = everything(connection), records(b"d", *new)
    assert found["records"] == expected
    assert found["conversations"] == [
        (7, "c7", epoch, 2, 1.0, 2.5, 0, JSON(SUMMARY), "local", expected[-1][-1]),
        (8, "c8", 1, 0, 1.0, 2.0, 0, b"{}", "local", b"d"),
    ]


def test_a_digest_that_is_not_known_is_read(connection: sqlite3.Connection) -> None:
    write(connection, opened(7))
    new = entries(1, 1)
    write(connection, append(7, Batch(NAME, 1, 0, new, SUMMARY), Heads(connection)))
    assert everything(connection)["records"] == records(b"d", *new)


def test_a_batch_that_clears_the_text_so_far_and_takes_letters(connection: sqlite3.Connection) -> None:
    for number in (7, 8):
        write(connection, [*opened(number), *said(number, 1, SavedText(0, "text", outputs=PRINTED), adds=True)])
        for _ in range(3):
            write(connection, letter(number, Interrupt("t1")))
    before = everything(connection)
    batch = Batch(NAME, 1, 0, entries(1, 1), SUMMARY, clears_text=True, takes_letters=2)
    write(connection, append(7, batch, heads_of(7, 1, 0)))
    found = everything(connection)
    assert found["said"] == [row for row in before["said"] if row[0] == 8]
    assert found["inbox"] == [row for row in before["inbox"] if row[0] not in (1, 2)]


def test_what_is_encoded_already_is_taken_as_it_is_and_has_to_be_all(connection: sqlite3.Connection) -> None:
    write(connection, opened(7))
    batch = Batch(NAME, 1, 0, entries(1, 2), SUMMARY, encoded=(b"{5}", b"{6}"))
    for encoded in ((b"{5}",), (b"{5}", b"{6}", b"{7}")):
        with pytest.raises(ValueError, match="zip"):
            append(7, msgspec.structs.replace(batch, encoded=encoded), heads_of(7, 1, 0))
    write(connection, append(7, batch, heads_of(7, 1, 0)))
    assert [row[5] for row in everything(connection)["records"]] == [b"{5}", b"{6}"]


def test_only_what_is_large_is_compressed(connection: sqlite3.Connection) -> None:
    write(connection, opened(7, 8))
    for number, size, is_packed in ((7, PACKED_RECORD - 1, False), (8, PACKED_RECORD, True)):
        batch = Batch(NAME, 1, 0, entries(1, 1), SUMMARY, encoded=(b"{" * size,))
        write(connection, append(number, batch, heads_of(number, 1, 0)))
        (data,) = connection.execute("SELECT data FROM records WHERE conversation = ?", (number,)).fetchone()
        assert (len(data) < size, unpacked(data)) == (is_packed, b"{" * size)
    write(connection, said(7, 1, SavedText(1, "x" * PACKED_PIECE), adds=True))
    assert len(connection.execute("SELECT data FROM said").fetchone()[0]) < PACKED_PIECE


def test_an_append_moves_its_own_conversation_and_only_from_where_it_was(connection: sqlite3.Connection) -> None:
    write(connection, opened(1, 2))
    write(connection, moved(1, 2, 1, claims=True))
    write(connection, moved(1, 2, 2, at=8.0))
    row = everything(connection)["conversations"][0]
    assert row[2:4] == (2, 2)
    assert row[5] == 9.0, "a clock that was set back does not make it older"
    before = everything(connection)
    for epoch, seq, claims in ((1, 3, False), (3, 3, False), (2, 2, False), (2, 4, False), (2, 3, True)):
        with pytest.raises(Overtaken):
            write(connection, moved(1, epoch, seq, claims=claims))
        assert not connection.in_transaction
    assert everything(connection) == before


def test_a_conversation_is_made_once(connection: sqlite3.Connection) -> None:
    batch = Batch(NAME, 1, 0, entries(1, 1), SUMMARY, creates=True)
    write(connection, append(7, batch, Heads(connection)))
    with pytest.raises(sqlite3.IntegrityError):
        write(connection, append(7, batch, Heads(connection)))
    assert not connection.in_transaction


# -- the text so far

PRINTED = (("c1", "stdout", b"1"),)


@pytest.mark.parametrize(
    ("saved", "pieces"),
    [
        (SavedText(3), [(1, SavedText(3))]),
        (SavedText(3, "text"), [(1, SavedText(3, "text"))]),
        (SavedText(3, "", "thought"), [(1, SavedText(3, "", "thought"))]),
        (SavedText(3, outputs=PRINTED), [(0, SavedText(3, outputs=PRINTED))]),
        (SavedText(3, "text", outputs=PRINTED), [(0, SavedText(3, outputs=PRINTED)), (1, SavedText(3, "text"))]),
        (SavedText(3, "", "th", "", PRINTED), [(0, SavedText(3, outputs=PRINTED)), (1, SavedText(3, "", "th"))]),
        (SavedText(3, "", "", "raw", PRINTED), [(0, SavedText(3, outputs=PRINTED)), (1, SavedText(3, "", "", "raw"))]),
    ],
)
def test_what_was_said_and_what_commands_printed_are_kept_apart(
    connection: sqlite3.Connection, saved: SavedText, pieces: list[tuple[int, SavedText]]
) -> None:
    write(connection, opened(7))
    for adds in (True, False):  # in place of what was there
        write(connection, said(7, 1, saved, adds=adds))
        assert everything(connection)["said"] == [(7, number, JSON(piece)) for number, piece in pieces]


def test_pieces_are_added_and_what_is_printed_is_replaced(connection: sqlite3.Connection) -> None:
    for number in (1, 2):
        write(connection, opened(number))
        for text in "ab":
            write(connection, said(number, 1, SavedText(0, text, outputs=(("c", "stdout", text.encode()),)), adds=True))
    printed, pieces = JSON(SavedText(0, outputs=(("c", "stdout", b"b"),))), [JSON(SavedText(0, text)) for text in "ab"]
    assert everything(connection)["said"] == [(number, at, data) for number in (1, 2) for at, data in enumerate((printed, *pieces))]


def test_one_who_was_overtaken_changes_nothing_of_the_text_so_far(connection: sqlite3.Connection) -> None:
    write(connection, [*opened(1), *moved(1, 2, 1, claims=True)])
    write(connection, said(1, 2, SavedText(1, "kept", outputs=PRINTED), adds=True))
    write(connection, said(1, 3, SavedText(1, "by the next"), adds=True))
    kept = everything(connection)["said"]
    assert len(kept) == 3
    for adds in (True, False):
        write(connection, said(1, 1, SavedText(1, "late", outputs=PRINTED), adds=adds))
        write(connection, said(9, 2, SavedText(1, "of none", outputs=PRINTED), adds=adds))
        assert everything(connection)["said"] == kept


# -- letters, archiving, deleting


@pytest.mark.parametrize("late", [letter(2, Interrupt("t1")), archive(2, archived=True)])
def test_what_is_for_a_conversation_that_is_not_there_is_refused(connection: sqlite3.Connection, late: list[Statement]) -> None:
    write(connection, opened(1))
    before = everything(connection)
    with pytest.raises(Gone):
        write(connection, late)
    assert not connection.in_transaction
    assert everything(connection) == before


def test_what_is_archived_or_deleted_is_one_conversation(connection: sqlite3.Connection) -> None:
    for number in (1, 2):
        write(connection, [*opened(number), *moved(number, 1, 1), *said(number, 1, SavedText(1, "a"), adds=True)])
        write(connection, letter(number, Interrupt("t1")))
    write(connection, archive(1, archived=True))
    assert [row[6] for row in everything(connection)["conversations"]] == [1, 0]
    before = everything(connection)
    write(connection, [*archive(1, archived=False), *delete(2)])
    found = everything(connection)
    assert [row[6] for row in found["conversations"]] == [0]
    assert {table: len(rows) for table, rows in found.items()} == dict.fromkeys(found, 1)
    assert all(found[table] == before[table][:1] for table in ("records", "said", "inbox"))


# -- together or not at all


@pytest.mark.parametrize("count", [1, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 2 * AT_ONCE, 3 * AT_ONCE + 5])
def test_many_records_are_one_transaction_however_many(connection: sqlite3.Connection, count: int) -> None:
    write(connection, opened(7))
    new = entries(1, count)
    write(connection, append(7, Batch(NAME, 1, 0, new, SUMMARY), heads_of(7, 1, 0)))
    assert not connection.in_transaction
    assert everything(connection)["records"] == records(b"d", *new)
    before = everything(connection)
    twice = Batch(NAME, 1, count, (*entries(count + 1, 2 * count), entries(1, 1)[0]), SUMMARY)  # the last one is there already
    with pytest.raises(sqlite3.IntegrityError):
        write(connection, append(7, twice, heads_of(7, 1, count)))
    assert not connection.in_transaction
    assert everything(connection) == before


def test_with_a_value_that_cannot_be_written_nothing_is(connection: sqlite3.Connection) -> None:
    bad = Batch(NAME, 1, 0, (Entry(1, 0, "t", 1 << 70, Noticed("n")),), SUMMARY)
    with pytest.raises(OverflowError):
        write(connection, [*opened(*range(1, 8)), *append(7, bad, heads_of(7, 1, 0))])
    assert not connection.in_transaction
    assert everything(connection)["conversations"] == []


def test_tables_that_another_process_made_meanwhile_are_found(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as early,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        assert early.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
        migrate(other, "memory")
        write(early, opened(1))
        assert len(everything(other)["conversations"]) == 1
