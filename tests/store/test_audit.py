"""What `verify` finds: every change of what was written is noticed, and the first link that it breaks is named."""

import hmac
import os
import sqlite3
import stat
import struct
import tempfile
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.records import append, claimed, new_id, noticed, open_log, opened
from tests.support.answered import answered
from understudy.errors import StoreError
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Entry, Noticed, Opened, Overrides
from understudy.store.chain import KEY_FILE, link
from understudy.store.log import Audited, Batch, Summary
from understudy.store.sqlite.event_log import SqliteLog, number_of

COUNT = 9
JSON = msgspec.json.Encoder().encode
SUMMARY = Summary("a title", "idle", 0, "/w", "m")


def write_some(folder: Path, *, count: int = COUNT) -> ConversationId:
    name = new_id()
    with closing(SqliteLog(folder)) as log:
        log.append(opened(name), lambda _: None)
        log.append(noticed(name, 1, 2, count=count - 1), lambda _: None)
    return name


def audit(folder: Path, name: ConversationId, head: str | None = None) -> Audited:
    with closing(SqliteLog(folder)) as log:
        found = answered(log.audit(name, head))
    assert found is not None
    return found


def change(folder: Path, *statements: str | tuple[str, tuple[object, ...]]) -> None:
    with closing(sqlite3.connect(folder / "conversations.db", isolation_level=None)) as raw:
        for statement in statements:
            sql, values = (statement, ()) if isinstance(statement, str) else statement
            raw.execute(sql, values)


def broken(folder: Path, name: ConversationId, head: str | None = None) -> tuple[int, str]:
    found = audit(folder, name, head).broken
    assert found is not None
    return found.seq, found.kind


def renumber(first: int, by: int) -> tuple[str, ...]:
    """Records from `first` on, and what points to them, so many further; in two steps, for no two may have the same number."""
    moved = f"seq = -(seq + {by}), parent = parent + {by}"
    return (f"UPDATE records SET {moved} WHERE seq >= {first}", "UPDATE records SET seq = -seq WHERE seq < 0")


INSERT = "INSERT INTO records SELECT conversation, ?, ?, turn, at, CAST('{}' AS BLOB), digest FROM records WHERE seq = 1"


def rewrite_chain(folder: Path, first: int) -> None:
    """New digests for all records from there on, by somebody without the key."""
    with closing(sqlite3.connect(folder / "conversations.db", isolation_level=None)) as raw:
        (digest,) = raw.execute("SELECT digest FROM records WHERE seq = ?", (first - 1,)).fetchone() or (b"",)
        last = first - 1
        for seq, parent, turn, at, data in raw.execute(
            "SELECT seq, parent, turn, at, data FROM records WHERE seq >= ? ORDER BY seq", (first,)
        ).fetchall():
            digest, last = link(digest, seq, parent, turn, at, data), seq
            raw.execute("UPDATE records SET digest = ? WHERE seq = ?", (digest, seq))
        raw.execute("UPDATE conversations SET digest = ?, last_seq = ?", (digest, last))


def test_what_was_written_is_whole_and_sealed_to_its_end(tmp_path: Path) -> None:
    name = write_some(tmp_path)
    found = audit(tmp_path, name)
    assert found == Audited(name, COUNT, found.head, COUNT, 0, 0)
    with closing(SqliteLog(tmp_path)) as log:
        listed = answered(log.find(name))
    assert listed is not None
    assert found.head == listed.digest.hex()


def test_the_seal_is_what_is_documented_and_its_key_is_private(tmp_path: Path) -> None:
    name = write_some(tmp_path)
    key = (tmp_path / KEY_FILE).read_bytes()
    assert len(key) == 32
    assert stat.S_IMODE(os.stat(tmp_path / KEY_FILE).st_mode) == 0o600
    head = bytes.fromhex(audit(tmp_path, name).head) + struct.pack("<q", COUNT)
    with closing(sqlite3.connect(tmp_path / "conversations.db")) as raw:
        assert raw.execute("SELECT seal FROM conversations").fetchone() == (
            head + hmac.digest(key, b"understudy head\0" + name.encode() + head, "sha256"),
        )


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        (["UPDATE records SET data = replace(data, 'note 4', 'note X') WHERE seq = 4"], (4, "changed")),
        (["UPDATE records SET at = at + 1 WHERE seq = 9"], (9, "changed")),
        (["UPDATE records SET turn = '7' WHERE seq = 1"], (1, "changed")),
        (["UPDATE records SET parent = 1 WHERE seq = 5"], (5, "changed")),
        (["UPDATE records SET digest = NULL WHERE seq = 5"], (5, "changed")),
        (["UPDATE records SET digest = NULL WHERE seq <= 5"], (1, "changed")),
        (["UPDATE records SET digest = 'text' WHERE seq = 5"], (5, "changed")),
        (["UPDATE records SET data = NULL WHERE seq = 5"], None),
        (["DELETE FROM records WHERE seq = 1"], (1, "missing")),
        (["DELETE FROM records WHERE seq IN (4, 5)"], (4, "missing")),
        (["DELETE FROM records WHERE seq = 4", *renumber(5, -1)], (4, "missing")),
        (["DELETE FROM records WHERE seq IN (4, 5, 6)", *renumber(7, -3)], (4, "missing")),
        ([*renumber(4, 1), (INSERT, (4, 3))], (4, "inserted")),
        ([(INSERT, (4.5, 3))], (5, "inserted")),
        ([(INSERT, (0, 0))], (1, "inserted")),
        ([(INSERT, ("text", 3))], (10, "inserted")),
        (["UPDATE records SET seq = 100 WHERE seq = 4", *renumber(5, -1)], (4, "missing")),
        (
            [
                "UPDATE records SET seq = 100 WHERE seq = 4",
                "UPDATE records SET seq = 4 WHERE seq = 5",
                "UPDATE records SET seq = 5 WHERE seq = 100",
            ],
            (4, "moved"),
        ),
        (["DELETE FROM records WHERE seq >= 8"], (8, "cut")),
        (["DELETE FROM records WHERE seq >= 8", "UPDATE conversations SET last_seq = 7"], (8, "cut")),
        (["DELETE FROM records"], (1, "cut")),
        (["UPDATE conversations SET digest = zeroblob(32)"], (9, "cut")),
        (["UPDATE conversations SET last_seq = 8"], (9, "inserted")),
        (["UPDATE conversations SET seal = x''"], (9, "seal")),
        (["UPDATE conversations SET seal = zeroblob(72)"], (9, "seal")),
        (["UPDATE conversations SET seal = 5"], (9, "seal")),
        (["UPDATE conversations SET owner = 'eve'"], (1, "owner")),
    ],
)
def test_the_first_broken_link_is_named_with_what_was_done(
    tmp_path: Path, statements: list[str | tuple[str, tuple[object, ...]]], found: tuple[int, str] | None
) -> None:
    name = write_some(tmp_path)
    if found is None:
        with pytest.raises(sqlite3.IntegrityError):
            change(tmp_path, *statements)
        return
    change(tmp_path, *statements)
    assert broken(tmp_path, name) == found


@pytest.mark.parametrize(
    ("attack", "found"),
    [
        (["UPDATE records SET at = at + 1 WHERE seq = 4"], (COUNT, "changed")),
        (["DELETE FROM records WHERE seq = 4", *renumber(5, -1)], (COUNT, "cut")),
        (["DELETE FROM records WHERE seq > 4"], (5, "cut")),
        ([(INSERT, (COUNT + 1, COUNT))], (COUNT + 1, "inserted")),
    ],
    ids=["changed", "left out", "cut", "added"],
)
def test_a_chain_that_was_written_anew_without_the_key_is_noticed_by_the_seal(
    tmp_path: Path, attack: list[str | tuple[str, tuple[object, ...]]], found: tuple[int, str]
) -> None:
    name = write_some(tmp_path)
    change(tmp_path, *attack)
    rewrite_chain(tmp_path, 4)
    assert broken(tmp_path, name) == found


async def test_what_is_written_after_a_forgery_does_not_cover_it_up(tmp_path: Path) -> None:
    name = write_some(tmp_path)
    change(tmp_path, "DELETE FROM records WHERE seq > 6")
    rewrite_chain(tmp_path, 6)
    log = open_log(tmp_path)
    claim = claimed(log, name)
    await append(log, noticed(name, 2, 7, claims=True, count=5, at=9.0))
    await append(log, noticed(name, 2, 12, count=2, at=9.0))
    log.close()
    assert broken(tmp_path, name) == (9, "changed"), "the record that was sealed last is not there"
    del claim


async def test_the_seal_of_another_conversation_is_none(tmp_path: Path) -> None:
    one, other = write_some(tmp_path), write_some(tmp_path)
    numbers = [number_of(one), number_of(other)]
    change(
        tmp_path,
        ("UPDATE records SET conversation = 1 WHERE conversation = ?", (numbers[0],)),
        ("UPDATE records SET conversation = ? WHERE conversation = ?", (numbers[0], numbers[1])),
        ("UPDATE conversations SET (digest, seal) = (SELECT digest, seal FROM conversations WHERE number = ?)", (numbers[1],)),
    )
    assert broken(tmp_path, one) == (COUNT, "seal")
    with closing(SqliteLog(tmp_path)) as log:
        assert answered(log.without_entry()) == 1


def test_a_head_that_was_noted_is_found_where_it_was_and_not_after_a_change(tmp_path: Path) -> None:
    name = write_some(tmp_path)
    noted = audit(tmp_path, name).head
    with closing(SqliteLog(tmp_path)) as log:
        log.append(noticed(name, 2, COUNT + 1, claims=True), lambda _: None)
    grown = audit(tmp_path, name, noted)
    assert (grown.broken, grown.head_at, grown.records) == (None, COUNT, COUNT + 1)
    with closing(SqliteLog(tmp_path)) as log:
        log.delete(name, lambda _: None)
        fresh = Entry(1, 0, "0", 9.0, Opened(name, "m", Overrides()))
        log.append(Batch(name, 1, 0, (fresh,), SUMMARY, creates=True), lambda _: None)
    assert audit(tmp_path, name).broken is None, "whoever has the key can write what they like"
    assert broken(tmp_path, name, noted) == (1, "head")


def test_a_key_that_is_gone_or_damaged_is_told_and_writing_goes_on(tmp_path: Path) -> None:
    name = write_some(tmp_path)
    key = tmp_path / KEY_FILE
    kept = key.read_bytes()
    key.write_bytes(b"short")
    with closing(SqliteLog(tmp_path)) as log:
        log.append(noticed(name, 2, COUNT + 1, claims=True), lambda _: None)
    found = audit(tmp_path, name)
    assert found.broken is not None
    assert KEY_FILE in found.broken.text
    assert found.records == COUNT + 1
    key.unlink()
    assert broken(tmp_path, name) == (COUNT + 1, "seal")
    assert not key.exists(), "looking makes none"
    key.write_bytes(kept)
    assert broken(tmp_path, name) == (COUNT + 1, "inserted")


def test_a_conversation_that_was_deleted_is_not_there(tmp_path: Path) -> None:
    name = write_some(tmp_path)
    with closing(SqliteLog(tmp_path)) as log:
        log.delete(name, lambda _: None)
    with closing(SqliteLog(tmp_path)) as log:
        assert answered(log.audit(name)) is None
        assert answered(log.without_entry()) == 0


def test_paths_that_part_are_one_chain(tmp_path: Path) -> None:
    """A message that was continued elsewhere: a record whose parent is not the one before it."""
    name = write_some(tmp_path)
    with closing(SqliteLog(tmp_path)) as log:
        fork = Entry(COUNT + 1, 3, "2", 3.0, Noticed("elsewhere"))
        log.append(Batch(name, 1, COUNT, (fork,), SUMMARY), lambda _: None)
    assert audit(tmp_path, name).broken is None
    change(tmp_path, "DELETE FROM records WHERE seq = 5", *renumber(6, -1))
    assert broken(tmp_path, name) == (5, "missing")


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(seed=st.data())
def test_whatever_is_done_at_whatever_record_is_found_there(seed: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        count = seed.draw(st.integers(2, 12), "records")
        name = write_some(folder, count=count)
        seq = seed.draw(st.integers(1, count), "at")
        match seed.draw(st.sampled_from(["flip", "delete", "insert", "swap", "truncate"]), "what"):
            case "flip":
                with closing(sqlite3.connect(folder / "conversations.db")) as raw:
                    (data,) = raw.execute("SELECT data FROM records WHERE seq = ?", (seq,)).fetchone()
                at, bit = seed.draw(st.integers(0, len(data) - 1), "byte"), seed.draw(st.integers(0, 7), "bit")
                flipped = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
                change(folder, ("UPDATE records SET data = ? WHERE seq = ?", (flipped, seq)))
                expected = seq, "changed"
            case "delete":
                change(folder, f"DELETE FROM records WHERE seq = {seq}")
                expected = seq, "cut" if seq == count else "missing"
            case "insert":
                change(folder, *renumber(seq, 1), (INSERT.replace("seq = 1", "true LIMIT 1"), (seq, seq - 1)))
                expected = seq, None
            case "swap":
                other = seed.draw(st.integers(1, count).filter(lambda other: other != seq), "with")
                exchange = "UPDATE records SET seq = ? WHERE seq = ?"
                change(folder, (exchange, (0, seq)), (exchange, (seq, other)), (exchange, (other, 0)))
                expected = min(seq, other), None
            case _:
                change(folder, f"DELETE FROM records WHERE seq >= {seq}", f"UPDATE conversations SET last_seq = {seq - 1}")
                expected = seq, "cut"
        found = broken(folder, name)
        assert found[0] == expected[0]
        assert expected[1] in (None, found[1])


async def test_a_key_that_is_deleted_while_the_store_is_open_is_put_back_and_later_said_to_be_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log(tmp_path)
    name = new_id()
    await append(log, opened(name))
    key = (tmp_path / "audit.key").read_bytes()
    (tmp_path / "audit.key").unlink()
    other = open_log(tmp_path)
    assert (tmp_path / "audit.key").read_bytes() == key
    other.close()
    log.close()
    (tmp_path / "audit.key").unlink()
    caplog.clear()
    open_log(tmp_path).close()
    assert "audit.key is missing" in caplog.text
    assert "verify --seal" in caplog.text


async def test_a_key_that_cannot_be_read_keeps_the_store_closed_until_it_can(tmp_path: Path) -> None:
    """Turns that were sealed without it would be called broken from then on."""
    log = open_log(tmp_path)
    name = new_id()
    await append(log, opened(name))
    log.close()
    key = tmp_path / "audit.key"
    key.rename(tmp_path / "aside")
    key.mkdir()  # root reads whatever its mode is
    with pytest.raises(StoreError, match=r"audit\.key cannot be read: Is a directory.* make it readable"):
        open_log(tmp_path)
    key.rmdir()
    (tmp_path / "aside").rename(key)
    key.chmod(0)
    log = open_log(tmp_path)
    assert key.stat().st_mode & 0o777 == 0o600, "our own file is made readable again"
    assert answered(log.check()) == "ok"
    log.close()
