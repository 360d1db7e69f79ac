"""Whether what a store holds can be read: every record and summary decoded, every log whole. Nothing is changed."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec

from understudy.protocol.records import Opened, Record
from understudy.store.decoding import unpacked
from understudy.store.log import Summary, Verified
from understudy.store.writer import explain

MOST_NAMED = 20


def verify_records(path: Path, most: int | None) -> Verified:
    """The newest conversations first, until so many records have been looked at. Raises `StoreError` where nothing can be read."""
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        connection.text_factory = bytes  # none of it need be text
        try:
            return _verify(connection, most)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise explain(error, str(path)) from error


def _verify(connection: sqlite3.Connection, most: int | None) -> Verified:
    rows = connection.execute("SELECT id, number, last_seq, summary FROM conversations ORDER BY updated_at DESC").fetchall()
    records = damaged = 0
    problems: list[str] = []
    for conversation_id, number, last_seq, summary in rows:
        if most is not None and records >= most:
            break
        found = list(_problems(connection, number, last_seq, summary))
        records += last_seq
        damaged += bool(found)
        problems += [f"{conversation_id.decode(errors='replace')}: {problem}" for problem in found[:3]]
    total = sum(row[2] for row in rows)
    return Verified(records, total, tuple(problems[:MOST_NAMED]), damaged)


_decode_record = msgspec.json.Decoder(Record).decode
_decode_summary = msgspec.json.Decoder(Summary).decode


def _problems(connection: sqlite3.Connection, number: int, last_seq: int, summary: bytes) -> Iterator[str]:
    try:
        _decode_summary(summary)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        yield f"its summary cannot be read: {error}"
    expected = 0
    for seq, parent, data in connection.execute(
        "SELECT seq, parent, data FROM records WHERE conversation = ? ORDER BY seq", (number,)
    ):
        expected += 1
        if seq != expected:
            yield f"record {expected} is missing"
            expected = seq
        try:
            record = _decode_record(unpacked(data))
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
            yield f"record {seq} cannot be read: {error}"
            continue
        if (seq == 1) != isinstance(record, Opened) or not 0 <= parent < seq:
            yield f"record {seq} is out of its place"
    if expected != last_seq:
        yield f"it should have {last_seq} records, and the last one is {expected}"
