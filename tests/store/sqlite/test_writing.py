"""Rows: what each kind of write is made of, and that they are written together or not at all."""

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
from understudy.store.chain import FIRST, LastDigests, Seals, link
from understudy.store.decoding import unpacked
from understudy.store.log import Batch, SavedText
from understudy.store.sqlite.open_files import migrate
from understudy.store.sqlite.writing import (
    AT_ONCE,
    Row,
    Value,
    append,
    archive,
    delete,
    is_fenced,
    is_gone,
    letter,
    prepare,
    said,
    seal,
    write,
)

NAME = ConversationId("c")
JSON = msgspec.json.encode


SEALS = Seals(Path("/nowhere"))  # no key can be made there


def entries(first: int, last: int) -> tuple[Entry, ...]:
    return tuple(Entry(seq, seq - 1, f"t{seq}", seq + 0.5, Noticed(f"note {seq}")) for seq in range(first, last + 1))


def row(kind: str, number: int, value: Value = 0, epoch: int = 0) -> Row:
    return kind, number, value, epoch, 0, 0, 0, 0, 0


def record_rows(previous: bytes, *new: Entry) -> list[Row]:
    rows: list[Row] = []
    for entry in new:
        previous = link(previous, entry.seq, entry.parent, entry.turn, entry.at, JSON(entry.record))
        rows.append(("record", 7, entry.seq, entry.parent, entry.turn, entry.at, JSON(entry.record), previous, 0))
    return rows


def heads(epoch: int = 9, last_seq: int = 4, digest: bytes = b"d") -> LastDigests:
    """Of conversation 7."""
    with closing(sqlite3.connect(":memory:")) as unread:
        known = LastDigests(unread, SEALS)
    known.note(7, epoch, last_seq, digest, True)
    return known


# -- what they are made of


def test_a_batch_that_makes_the_conversation() -> None:
    new = entries(1, 2)
    records = record_rows(FIRST, *new)
    known = heads()
    assert append(7, Batch(NAME, 1, 0, new, SUMMARY, creates=True), known) == [
        ("open", 7, "c", 1, 2, 1.5, 2.5, JSON(SUMMARY), records[-1][-2]),
        *records,
    ]
    assert known.find(7, 1, 2) == (records[-1][-2], True)


def test_the_owner_is_kept_beside_the_conversation_unless_it_is_the_local_user() -> None:
    for owner, rows in (("local", []), ("alice", [row("owner", 7, "alice")])):
        first = Entry(1, 0, "0", 1.5, Opened("c", "m", Overrides(), owner=owner))
        assert append(7, Batch(NAME, 1, 0, (first,), SUMMARY, creates=True), heads())[1:-1] == rows


@pytest.mark.parametrize(("claims", "before"), [(False, 9), (True, 8)])
def test_a_batch_that_goes_on(claims: bool, before: int) -> None:
    new = entries(5, 6)
    records = record_rows(b"d", *new)
    assert append(7, Batch(NAME, 9, 4, new, SUMMARY, claims=claims), heads(before)) == [
        ("append", 7, 9, 6, 6.5, JSON(SUMMARY), before, 4, records[-1][-2]),
        *records,
    ]


def test_a_batch_that_clears_the_text_so_far_and_takes_letters() -> None:
    new = entries(5, 5)
    assert append(7, Batch(NAME, 9, 4, new, SUMMARY, clears_text=True, takes_letters=3), heads())[1:] == [
        row("unsaid", 7, 0, 9),
        *record_rows(b"d", *new),
        row("read", 7, 3),
    ]


def test_what_is_encoded_already_is_taken_as_it_is_and_has_to_be_all() -> None:
    batch = Batch(NAME, 9, 4, entries(5, 6), SUMMARY, encoded=(b"{5}", b"{6}"))
    assert [row[6] for row in append(7, batch, heads())[1:]] == [b"{5}", b"{6}"]
    for encoded in ((b"{5}",), (b"{5}", b"{6}", b"{7}")):
        with pytest.raises(ValueError, match="zip"):
            append(7, msgspec.structs.replace(batch, encoded=encoded), heads())


def test_only_what_is_large_is_compressed() -> None:
    for size, is_packed in ((1024 * 1024 - 1, False), (1024 * 1024, True)):
        batch = Batch(NAME, 9, 4, entries(5, 5), SUMMARY, encoded=(b"{" * size,))
        data = append(7, batch, heads())[1][6]
        assert isinstance(data, bytearray)
        assert (len(data) < size, unpacked(bytes(data))) == (is_packed, b"{" * size)
    around = len(JSON(SavedText(1, "x"))) - 1
    for size, is_packed in ((16 * 1024 - 1, False), (16 * 1024, True)):
        saved = SavedText(1, "x" * (size - around))
        piece = said(7, 1, saved, adds=True)[0][2]
        assert isinstance(piece, bytes)
        assert (len(piece) < size, unpacked(piece)) == (is_packed, JSON(saved))
    around = len(JSON(SavedText(1, outputs=(("c1", "stdout", b""),))))
    for size, is_packed in ((16 * 1024 - 1, False), (16 * 1024 + 2, True)):
        saved = SavedText(1, outputs=(("c1", "stdout", b"x" * ((size - around) // 4 * 3)),))
        piece = said(7, 1, saved, adds=True)[0][2]
        assert isinstance(piece, bytes)
        assert (len(piece) < len(JSON(saved)), unpacked(piece)) == (is_packed, JSON(saved))


PRINTED = (("c1", "stdout", b"1"),)


@pytest.mark.parametrize(
    ("saved", "pieces"),
    [
        (SavedText(3), [("said", SavedText(3))]),
        (SavedText(3, "text"), [("said", SavedText(3, "text"))]),
        (SavedText(3, "", "thought"), [("said", SavedText(3, "", "thought"))]),
        (SavedText(3, outputs=PRINTED), [("printed", SavedText(3, outputs=PRINTED))]),
        (SavedText(3, "text", outputs=PRINTED), [("printed", SavedText(3, outputs=PRINTED)), ("said", SavedText(3, "text"))]),
        (SavedText(3, "", "th", "", PRINTED), [("printed", SavedText(3, outputs=PRINTED)), ("said", SavedText(3, "", "th"))]),
        (SavedText(3, "", "", "raw", PRINTED), [("printed", SavedText(3, outputs=PRINTED)), ("said", SavedText(3, "", "", "raw"))]),
    ],
)
def test_what_was_said_and_what_commands_printed_are_rows_of_their_own(
    saved: SavedText, pieces: list[tuple[str, SavedText]]
) -> None:
    rows = [row(kind, 7, JSON(piece), 9) for kind, piece in pieces]
    assert said(7, 9, saved, adds=True) == rows
    assert said(7, 9, saved, adds=False) == [row("unsaid", 7, 0, 9), *rows]


def test_the_other_kinds() -> None:
    assert letter(7, Interrupt("t1")) == [row("letter", 7, JSON(Interrupt("t1")))]
    assert [archive(7, value) for value in (True, False)] == [[row("archive", 7, number)] for number in (1, 0)]
    assert delete(7) == [row("delete", 7)]
    assert seal(7, 3, b"d", b"s") == [("seal", 7, b"s", 3, b"d", 0, 0, 0, 0)]


# -- that they are written


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, AT_ONCE * 9)  # SQLite's own differs from system to system
        migrate(connection, Path("memory"), SEALS)
        prepare(connection)
        yield connection


def opened(*numbers: int) -> list[Row]:
    return [("open", number, f"c{number}", 1, 0, 1.0, 2.0, b"{}", b"d") for number in numbers]


def everything(connection: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    return {
        table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
        for table in ("conversations", "records", "said", "inbox")
    }


def test_to_prepare_a_connection_again_changes_nothing(connection: sqlite3.Connection) -> None:
    prepare(connection)
    write(connection, opened(1))
    assert len(everything(connection)["conversations"]) == 1


def test_an_append_moves_its_own_conversation_and_only_from_where_it_was(connection: sqlite3.Connection) -> None:
    write(connection, opened(1, 2))
    write(connection, [("append", 1, 5, 3, 9.0, b"{1}", 1, 0, b"1")])
    assert everything(connection)["conversations"] == [
        (1, "c1", 5, 3, 1.0, 9.0, 0, b"{1}", "local", b"1", b"1"),
        (2, "c2", 1, 0, 1.0, 2.0, 0, b"{}", "local", b"d", b"d"),
    ]
    write(connection, [("append", 1, 5, 4, 8.0, b"{2}", 5, 3, b"2")])
    row = (1, "c1", 5, 4, 1.0, 9.0, 0, b"{2}", "local", b"2", b"2")
    assert everything(connection)["conversations"][0] == row, "a clock that was set back does not make it older"
    for epoch, seq in ((4, 4), (5, 3), (6, 4), (5, 5)):
        with pytest.raises(sqlite3.IntegrityError, match="fenced") as raised:
            write(connection, [("append", 1, 6, 9, 9.0, b"{}", epoch, seq, b"3")])
        assert (is_fenced(raised.value), is_gone(raised.value)) == (True, False)
    assert everything(connection)["conversations"][0] == row


def test_a_seal_is_put_only_on_what_it_seals(connection: sqlite3.Connection) -> None:
    write(connection, opened(1, 2))
    write(connection, [("append_unsealed", 1, 5, 3, 9.0, b"{1}", 1, 0, b"1")])
    row = (1, "c1", 5, 3, 1.0, 9.0, 0, b"{1}", "local", b"1")
    assert everything(connection)["conversations"][0] == (*row, b"d"), "the last good seal stays"
    for last_seq, digest in ((2, b"1"), (4, b"1"), (3, b"d")):
        with pytest.raises(sqlite3.IntegrityError, match="fenced"):
            write(connection, seal(1, last_seq, digest, b"s"))
    write(connection, seal(1, 3, b"1", b"s"))
    assert [row[-1] for row in everything(connection)["conversations"]] == [b"s", b"d"]


def test_a_batch_after_one_that_has_no_good_seal_gets_none(connection: sqlite3.Connection) -> None:
    known = LastDigests(connection, SEALS)
    for is_sealed, kind in ((True, "append"), (False, "append_unsealed")):
        known.note(7, 9, 4, b"d", is_sealed)
        new = entries(5, 5)
        [first, *records] = append(7, Batch(NAME, 9, 4, new, SUMMARY), known)
        assert (first[0], first[-1], records) == (kind, records[-1][-2], record_rows(b"d", *new))
        assert known.find(7, 9, 5) == (records[-1][-2], is_sealed)


def test_only_a_fence_is_a_fence(connection: sqlite3.Connection) -> None:
    write(connection, opened(1))
    with pytest.raises(sqlite3.IntegrityError) as raised:
        write(connection, opened(1))
    assert (is_fenced(raised.value), is_gone(raised.value)) == (False, False)
    assert (is_fenced(ValueError("fenced")), is_gone(ValueError("gone"))) == (False, False)


@pytest.mark.parametrize("late", [row("letter", 2, b"l"), row("archive", 2, 1)])
def test_what_is_for_a_conversation_that_is_not_there_is_refused(connection: sqlite3.Connection, late: Row) -> None:
    write(connection, opened(1))
    before = everything(connection)
    with pytest.raises(sqlite3.IntegrityError) as raised:
        write(connection, [late])
    assert (is_gone(raised.value), is_fenced(raised.value)) == (True, False)
    assert everything(connection) == before


def test_pieces_printed_things_and_letters_are_those_of_one_conversation(connection: sqlite3.Connection) -> None:
    for number in (1, 2):
        write(connection, opened(number))
        for kind, both in (("said", (b"a", b"b")), ("printed", (b"x", b"y")), ("letter", (b"l", b"m"))):
            for data in both:
                write(connection, [row(kind, number, data, 1)])
    found = everything(connection)
    assert found["said"] == [(number, piece, data) for number in (1, 2) for piece, data in ((0, b"y"), (1, b"a"), (2, b"b"))]
    assert found["inbox"] == [(1, 1, b"l"), (2, 1, b"m"), (3, 2, b"l"), (4, 2, b"m")]
    write(connection, [row("read", 2, 3), row("unsaid", 1, 0, 1)])
    found = everything(connection)
    assert [row[0] for row in found["said"]] == [2, 2, 2]
    assert found["inbox"] == [(1, 1, b"l"), (2, 1, b"m"), (4, 2, b"m")]


def test_one_who_was_overtaken_changes_nothing_of_the_text_so_far(connection: sqlite3.Connection) -> None:
    write(connection, [*opened(1), ("append", 1, 3, 1, 9.0, b"{}", 1, 0, b"1")])
    write(connection, [row("said", 1, b"a", 3), row("printed", 1, b"x", 4)])
    kept = [(1, 0, b"x"), (1, 1, b"a")]
    assert everything(connection)["said"] == kept
    for kind in ("said", "printed", "unsaid"):
        write(connection, [row(kind, 1, b"late", 2), row(kind, 9, b"of none", 3)])
        assert everything(connection)["said"] == kept
    write(connection, [row("unsaid", 1, 0, 3)])
    assert everything(connection)["said"] == []


def test_what_is_archived_or_deleted_is_one_conversation(connection: sqlite3.Connection) -> None:
    for number in (1, 2):
        write(connection, [*opened(number), ("record", number, 1, 0, "t", 1.0, b"{}", b"r", 0), row("said", number, b"a", 1)])
        write(connection, [row("letter", number, b"l")])
    write(connection, [row("archive", 1, 1)])
    assert [row[6] for row in everything(connection)["conversations"]] == [1, 0]
    write(connection, [row("archive", 1, 0), row("delete", 2)])
    assert everything(connection) == {
        "conversations": [(1, "c1", 1, 0, 1.0, 2.0, 0, b"{}", "local", b"d", b"d")],
        "records": [(1, 1, 0, "t", 1.0, b"{}", b"r")],
        "said": [(1, 1, b"a")],
        "inbox": [(1, 1, b"l")],
    }


@pytest.mark.parametrize("count", [1, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 2 * AT_ONCE, 3 * AT_ONCE + 5])
def test_many_rows_are_one_transaction_however_many(connection: sqlite3.Connection, count: int) -> None:
    write(connection, opened(*range(1, count + 1)))
    assert not connection.in_transaction
    found = [row[0] for row in everything(connection)["conversations"]]
    assert found == list(range(1, count + 1))
    with pytest.raises(sqlite3.IntegrityError):
        write(connection, opened(*range(count * 2, count - 1, -1)))  # the last one is there already
    assert not connection.in_transaction
    assert len(everything(connection)["conversations"]) == count


def test_many_rows_with_a_value_that_cannot_be_written_are_none(connection: sqlite3.Connection) -> None:
    bad: list[Row] = [row("archive", 1, 1 << 70)]
    with pytest.raises(OverflowError):
        write(connection, [*opened(*range(1, AT_ONCE + 5)), *bad])
    assert not connection.in_transaction
    assert everything(connection)["conversations"] == []


def test_tables_that_another_process_made_meanwhile_are_found(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as early,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        assert early.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
        migrate(other, Path("memory"), SEALS)
        prepare(early)
        write(early, opened(1))
        assert len(everything(other)["conversations"]) == 1
